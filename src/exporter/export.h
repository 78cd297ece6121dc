// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Checkpoint to bundle: quantizes tensor by tensor and writes the .litertlm as a stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/checkpoint.h"
#include "quant/recipe.h"

namespace hone::exporter {

struct ExportOptions {
  quant::Recipe recipe;
  bool strict = false;
  std::int64_t context = 0;  // 0: the smaller of 4096 and the model's maximum
  std::vector<std::int64_t> prefill = {1024, 256, 64,
                                       16,   4,   1};  // rungs above the context are dropped
  bool template_compat = false;  // wrap a template that LiteRT-LM cannot run into one that both run
  bool allow_nonfinite = false;
  int num_threads = 0;                        // 0: all available
  const std::atomic<bool>* cancel = nullptr;  // polled; true ends with kCancelled
  // done and total in bytes of weights; what names the tensor. May be empty.
  std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)> progress;
};

struct ExportReport {
  std::uint64_t bytes = 0;
  std::string sha256;
  std::vector<std::string> notes;     // facts: an int8 fallback, stop ids and where they came from
  std::vector<std::string> warnings;  // risks: template features that LiteRT-LM cannot run
};

// Writes out atomically. The same source and options give the same bytes. Peak memory is a few
// tensors beyond mapped pages.
Result<ExportReport> ExportBundle(const model::Checkpoint& checkpoint, const ExportOptions& options,
                                  const std::string& out);

}  // namespace hone::exporter
