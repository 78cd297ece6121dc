// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/float16.h"
#include "kernels/attention.h"

namespace hone::kernels {
namespace {

double CacheAt(const AttentionArgs& args, const void* const* pages, std::int64_t position,
               std::int64_t head, std::int64_t j) {
  const void* page = pages[position / kPagePositions];
  const std::int64_t i = (head * kPagePositions + position % kPagePositions) * args.head_dim + j;
  if (args.kv_type == KvType::kF32) return static_cast<const float*>(page)[i];
  return Fp16ToFloat(static_cast<const std::uint16_t*>(page)[i]);
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
          score += q[j] * CacheAt(args, args.k_pages, p, kv_head, j);
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
              weights[static_cast<std::size_t>(p)] * CacheAt(args, args.v_pages, p, kv_head, j);
        }
        args.out[(i * args.heads + h) * dim + j] = static_cast<float>(value / sum);
      }
    }
  }
}

}  // namespace hone::kernels
