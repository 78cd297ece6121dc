// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/float16.h"
#include "kernels/attention.h"
#include "kernels/attention/attention_kernels.h"

namespace hone::kernels {
namespace {

double CacheAt(const AttentionArgs& args, KvPart part, std::int64_t position, std::int64_t head,
               std::int64_t j) {
  const void* const* pages = part == KvPart::kKeys ? args.k_pages : args.v_pages;
  const std::int64_t dim = args.head_dim, slot = position % kPagePositions;
  const std::byte* piece = static_cast<const std::byte*>(pages[position / kPagePositions]) +
                           head * attention::HeadBytes(args.kv_type, dim);
  const std::int64_t i = part == KvPart::kKeys ? attention::KeyIndex(slot, j, dim) : slot * dim + j;
  if (args.kv_type == KvType::kF32) return reinterpret_cast<const float*>(piece)[i];
  if (args.kv_type == KvType::kF16) {
    return Fp16ToFloat(reinterpret_cast<const std::uint16_t*>(piece)[i]);
  }
  const double scale = reinterpret_cast<const float*>(piece + attention::Int8CodeBytes(dim))[slot];
  const std::int64_t at = part == KvPart::kKeys ? attention::Int8KeyIndex(slot, j, dim) : i;
  return scale * reinterpret_cast<const std::int8_t*>(piece)[at];
}

}  // namespace

void AttentionReference(const AttentionArgs& args) {
  const std::int64_t dim = args.head_dim;
  for (std::int64_t i = 0; i < args.m; ++i) {
    const std::int64_t count = args.first_position + i + 1;
    const std::int64_t first = args.window > 0 ? std::max<std::int64_t>(0, count - args.window) : 0;
    for (std::int64_t h = 0; h < args.heads; ++h) {
      const std::int64_t kv_head = h / (args.heads / args.kv_heads);
      const float* q = args.q + (i * args.heads + h) * dim;
      std::vector<double> weights(static_cast<std::size_t>(count));
      double max = -INFINITY, sum = 0;
      for (std::int64_t p = first; p < count; ++p) {
        double score = 0;
        for (std::int64_t j = 0; j < dim; ++j) {
          score += q[j] * CacheAt(args, KvPart::kKeys, p, kv_head, j);
        }
        score *= args.scale;
        if (args.softcap > 0) score = args.softcap * std::tanh(score / args.softcap);
        weights[static_cast<std::size_t>(p)] = score;
        max = std::fmax(max, score);
      }
      for (std::int64_t p = first; p < count; ++p) {
        double& w = weights[static_cast<std::size_t>(p)];
        sum += (w = std::exp(w - max));
      }
      for (std::int64_t j = 0; j < dim; ++j) {
        double value = 0;
        for (std::int64_t p = first; p < count; ++p) {
          value +=
              weights[static_cast<std::size_t>(p)] * CacheAt(args, KvPart::kValues, p, kv_head, j);
        }
        args.out[(i * args.heads + h) * dim + j] = static_cast<float>(value / sum);
      }
    }
  }
}

}  // namespace hone::kernels
