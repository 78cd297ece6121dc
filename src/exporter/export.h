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

// Where a checkpoint came from, for hone.json; empty: not known.
struct SourceFacts {
  std::string repository;  // "openbmb/MiniCPM5-2B"
  std::string revision;    // a commit
};

struct ExportOptions {
  quant::Recipe recipe;
  bool strict = false;
  std::int64_t context = 0;  // 0: the smaller of 4096 and the model's maximum
  // Rungs above the context are dropped. Empty: 1024, 256, 64, 16, 4, 1.
  std::vector<std::int64_t> prefill;
  bool half_cache = false;  // float16 caches
  // "fp16", "fp32" or "fp32_fp16": what a GPU should compute in; empty: it decides.
  std::string prefer_activation_type;
  // No tensor of the decoder may be larger: context and prefill are picked so, those that are given
  // are kept or refused (see fit_buffers.h). 0: no limit.
  std::uint64_t max_buffer = 0;
  SourceFacts source;
  std::string tool_family;       // how the model writes tool calls, for hone.json; empty: not said
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
  std::int64_t context = 0;  // as picked
  std::vector<std::int64_t> prefill;
  std::vector<std::string> notes;     // facts: an int8 fallback, stop ids and where they came from
  std::vector<std::string> warnings;  // risks: template features that LiteRT-LM cannot run
};

// Writes out atomically. The same source and options give the same bytes. Peak memory is a few
// tensors beyond mapped pages.
Result<ExportReport> ExportBundle(const model::Checkpoint& checkpoint, const ExportOptions& options,
                                  const std::string& out);

}  // namespace hone::exporter
