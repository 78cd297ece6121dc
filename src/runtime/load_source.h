// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Opens what a path names: a bundle, a checkpoint folder or a GGUF file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/litertlm/litertlm.h"
#include "model/decoder_spec.h"
#include "runtime/engine.h"

namespace hone::runtime {

// kAllOrGraph: as kAll, but a bundle that cannot be lifted is no error.
enum class SourceParts : std::uint8_t { kText, kModel, kAll, kAllOrGraph };

struct LoadedSource {
  TextSetup text;                            // empty for kModel
  std::optional<model::DecoderModel> model;  // absent for kText, and if not_lifted is not empty
  std::string not_lifted;                    // why, for kAllOrGraph
  // The open bundle; null for checkpoints.
  std::shared_ptr<const formats::litertlm::Bundle> bundle;
  std::vector<std::string> warnings;
};

Result<LoadedSource> LoadSource(const std::string& path, SourceParts parts);

}  // namespace hone::runtime
