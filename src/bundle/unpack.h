// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A bundle as a folder: one file for each section and model.toml, laid out as litert-lm-builder
// does. See docs/formats/model_toml.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/litertlm/litertlm.h"

namespace hone::bundle {

struct UnpackOptions {
  bool force = false;                         // replace files that exist
  const std::atomic<bool>* cancel = nullptr;  // polled; true ends with kCancelled
  // Bytes of sections. May be empty.
  std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)> progress;
};

struct UnpackReport {
  std::vector<std::string> files;     // names inside the folder, model.toml last
  std::vector<std::string> warnings;  // what a tool could lose or cannot pack
};

// Makes the folder if need be. Names of files are made here, never taken from the bundle, so
// nothing is written outside. model.toml appears last.
Result<UnpackReport> UnpackBundle(const formats::litertlm::Bundle& bundle,
                                  const std::string& folder, const UnpackOptions& options = {});

}  // namespace hone::bundle
