// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Picks context and prefill lengths so that no tensor of the decoder is larger than a device
// allows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/builder.h"
#include "model/decoder_spec.h"
#include "quant/recipe.h"

namespace hone::exporter {

struct FitRequest {
  std::uint64_t max_bytes = 0;  // of one tensor, as the file stores it
  bool keep_context = false;    // the context was asked for: refuse rather than shorten it
  bool keep_rungs = false;      // so were the prefill lengths: drop those that do not fit
};

struct FitResult {
  graph::BuildOptions build;
  std::vector<std::string> notes;  // what was picked, and what limits it
};

// build is what is wanted. The longest context that fits with a prefill of 1, then the rungs that
// fit at that context; a rung that does not is replaced by the largest power of two that does.
// kUnsupported, with the tensor and both numbers, if nothing fits. The embedder does not count: it
// runs on the CPU.
Result<FitResult> FitBuffers(const model::DecoderModel& model, const quant::Resolved& schemes,
                             const graph::BuildOptions& build, const FitRequest& request);

// "2.0 GiB", "128.5 MiB", "640 bytes".
std::string BinaryBytesText(std::uint64_t bytes);

}  // namespace hone::exporter
