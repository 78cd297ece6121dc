// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Opens what a path names: a bundle, a checkpoint folder or a GGUF file.
#pragma once

#include <future>
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

// When the text side of a bundle is read: at once, or by a thread of its own while the caller packs
// the weights.
enum class TextWhen : std::uint8_t { kNow, kMeanwhile };

struct LoadedSource {
  // Waits for text that is read meanwhile and puts it, and its warnings, in place. Call it before
  // text is used; once is enough, and without such text it does nothing. Its error is the one that
  // LoadSource would have returned.
  Status FinishText();

  TextSetup text;  // empty for kModel; only is_bundle is set before FinishText
  std::optional<model::DecoderModel> model;  // absent for kText, and if not_lifted is not empty
  std::string not_lifted;                    // why, for kAllOrGraph
  // The open bundle; null for checkpoints.
  std::shared_ptr<const formats::litertlm::Bundle> bundle;
  std::vector<std::string> warnings;

  struct TextAndWarnings {
    Result<TextSetup> text;
    std::vector<std::string> warnings;
  };
  std::future<TextAndWarnings> text_meanwhile;  // its destructor waits for the thread
};

Result<LoadedSource> LoadSource(const std::string& path, SourceParts parts,
                                TextWhen text = TextWhen::kNow);

}  // namespace hone::runtime
