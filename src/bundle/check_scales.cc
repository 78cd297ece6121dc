// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/check_scales.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/float16.h"

namespace hone::bundle {
namespace {

namespace tflite = formats::tflite;

void Count(std::uint64_t& count, std::uint64_t& first, std::uint64_t index) {
  if (count++ == 0) first = index;
}

void Classify(float value, bool subnormal, std::uint64_t index, ScaleCounts& out) {
  if (!std::isfinite(value)) {
    Count(out.nonfinite, out.first_nonfinite, index);
  } else if (value == 0) {
    Count(out.zero, out.first_zero, index);
  } else if (value < 0) {
    Count(out.negative, out.first_negative, index);
  } else if (subnormal) {
    Count(out.subnormal, out.first_subnormal, index);
  }
}

// A positive normal fp16 lies in 0x0400 to 0x7bff: everything else is one subtraction away.
bool IsGoodHalf(std::uint16_t h) { return static_cast<std::uint16_t>(h - 0x400U) < 0x7800U; }

ScaleCounts CountHalf(ByteSpan bytes) {
  ScaleCounts out;
  constexpr std::size_t kRun = 4096;
  std::uint16_t run[kRun];
  const std::size_t total = bytes.size() / 2;
  for (std::size_t begin = 0; begin < total; begin += kRun) {
    const std::size_t n = std::min(kRun, total - begin);
    std::memcpy(run, bytes.data() + 2 * begin, 2 * n);
    unsigned bad = 0;
    for (std::size_t i = 0; i < n; ++i) bad += IsGoodHalf(run[i]) ? 0U : 1U;
    for (std::size_t i = 0; bad > 0 && i < n; ++i) {
      if (!IsGoodHalf(run[i])) Classify(Fp16ToFloat(run[i]), true, begin + i, out);
    }
  }
  return out;
}

ScaleCounts CountFull(std::span<const float> scales) {
  ScaleCounts out;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    Classify(scales[i], std::fpclassify(scales[i]) == FP_SUBNORMAL, i, out);
  }
  return out;
}

}  // namespace

std::vector<ScalesOf> FindScales(const tflite::Model& model) {
  std::vector<ScalesOf> out;
  std::unordered_set<std::uint32_t> halves;  // buffers of block scales
  // The channel scales seen last of each constant: signatures repeat them in tables of their own.
  std::unordered_map<std::uint32_t, std::span<const float>> full;
  for (std::size_t g = 0; g < model.subgraphs.size(); ++g) {
    const tflite::Subgraph& graph = model.subgraphs[g];
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const tflite::Tensor& tensor = graph.tensors[t];
      const tflite::Quantization& q = tensor.quantization;
      const bool constant = tensor.buffer != 0 && !model.buffers[tensor.buffer].data.empty();
      if (!constant || q.empty()) continue;
      ScalesOf of;
      of.where = StrCat("tensor ", t, " (", tensor.name, ")");
      of.graph = g;
      of.tensor = t;
      if (q.scales_tensor) {
        of.block = q.block_size;
        const tflite::Tensor& scales = graph.tensors[static_cast<std::size_t>(*q.scales_tensor)];
        if (!halves.insert(scales.buffer).second) continue;
        if (scales.type == tflite::TensorType::kFloat16) {
          of.half = model.buffers[scales.buffer].data;
        }
      } else {
        const auto [seen, is_new] = full.try_emplace(tensor.buffer, q.scale);
        if (!is_new &&
            std::equal(q.scale.begin(), q.scale.end(), seen->second.begin(), seen->second.end())) {
          continue;
        }
        of.full = seen->second = q.scale;
      }
      out.push_back(std::move(of));
    }
  }
  return out;
}

std::vector<ScaleCounts> CountScales(std::span<const ScalesOf> all, ThreadPool& pool) {
  std::vector<ScaleCounts> out(all.size());
  pool.Run(static_cast<int>(all.size()), [&](int part) {
    const auto i = static_cast<std::size_t>(part);
    out[i] = all[i].half.empty() ? CountFull(all[i].full) : CountHalf(all[i].half);
  });
  return out;
}

}  // namespace hone::bundle
