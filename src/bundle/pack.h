// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A model.toml and the files that it names become a bundle. See docs/formats/model_toml.md.
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

struct PackOptions {
  bool allow_outside = false;                 // data_path may leave the folder of model.toml
  const std::atomic<bool>* cancel = nullptr;  // polled; true ends with kCancelled
  // Bytes of sections. May be empty.
  std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)> progress;
};

struct PackReport {
  std::uint64_t bytes = 0;
  std::string sha256;
  std::size_t sections = 0;
};

// source: a folder with model.toml, or the file itself. The bundle appears whole or not at all, and
// equal input gives equal bytes: metadata is what model.toml says and nothing is added.
Result<PackReport> PackBundle(const std::string& source, const std::string& out,
                              const PackOptions& options = {});

}  // namespace hone::bundle
