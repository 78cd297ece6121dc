// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A bundle with its weights stored in another way. Graphs, signatures and all other sections stay.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/litertlm/litertlm.h"
#include "quant/recipe.h"

namespace hone::exporter {

struct RequantizeOptions {
  quant::Recipe recipe;
  bool strict = false;
  bool allow_requantize = false;  // read int4 weights as what they stand for
  bool allow_nonfinite = false;
  int num_threads = 0;                        // 0: all available
  const std::atomic<bool>* cancel = nullptr;  // polled; true ends with kCancelled
  // done and total in bytes of weights; what names the tensor. May be empty.
  std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)> progress;
};

struct RequantizeReport {
  std::uint64_t bytes = 0;
  std::string sha256;
  std::size_t changed = 0, kept = 0;  // weights; kept: stored so already
  std::vector<std::string> notes;
};

// Writes out atomically, one weight at a time. The roles of weights come from lifting the graphs,
// so a bundle that Hone cannot lift is kUnsupported, as are int4 weights unless allowed and a graph
// with options that Hone cannot write again. hone.json, where there is one, and the uuid of the
// system metadata follow the new weights; every other section and item is copied.
Result<RequantizeReport> RequantizeBundle(
    const std::shared_ptr<const formats::litertlm::Bundle>& bundle,
    const RequantizeOptions& options, const std::string& out);

}  // namespace hone::exporter
