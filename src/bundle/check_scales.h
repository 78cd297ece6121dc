// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The scales of a model's quantized weights, and those among them that runtimes refuse.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/span_util.h"
#include "base/thread_pool.h"
#include "formats/tflite/tflite.h"

namespace hone::bundle {

// The scales of one constant. Views the model, which must outlive it.
struct ScalesOf {
  std::string where;      // "tensor 12 (w)"
  std::size_t graph = 0;  // the first tensor that shows the constant
  std::size_t tensor = 0;
  std::int32_t block = 0;       // 0: one scale a channel, or one for all
  ByteSpan half;                // fp16 block scales; empty if they are float32
  std::span<const float> full;  // channel scales
  std::uint64_t count() const { return half.size() / 2 + full.size(); }
};

// Each set of scales once, in the order of the file's tensors.
std::vector<ScalesOf> FindScales(const formats::tflite::Model& model);

struct ScaleCounts {
  std::uint64_t zero = 0, subnormal = 0, negative = 0, nonfinite = 0;
  // Index of the first of each kind, if there is one.
  std::uint64_t first_zero = 0, first_subnormal = 0, first_negative = 0, first_nonfinite = 0;
};
// A zero may have a sign. Negative numbers are not counted as subnormal.
std::vector<ScaleCounts> CountScales(std::span<const ScalesOf> all, ThreadPool& pool);

}  // namespace hone::bundle
