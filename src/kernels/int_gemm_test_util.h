// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Activations for the tests of the integer matrix kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/int_gemm.h"
#include "kernels/quantize_row/quantize_row.h"
#include "kernels/test_util.h"

namespace hone::kernels {

// m rows of k seeded codes over the whole range, with scales and zero points of their own.
struct IntRows {
  IntRows(std::int64_t m, std::int64_t k, std::uint32_t seed) {
    std::mt19937 random(seed);
    const std::int64_t stride = (k + 63) / 64 * 64;
    q.assign(static_cast<std::size_t>(m * stride), 0);
    block_offsets.assign(static_cast<std::size_t>(m * stride / kSumBlock), 0);
    for (std::int64_t i = 0; i < m; ++i) {
      std::int32_t sum = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        // The ends often, so that saturation would show.
        const auto r = random();
        const int code = r % 4 == 0 ? -128 : r % 4 == 1 ? 127 : static_cast<int>(r / 4 % 256) - 128;
        q[static_cast<std::size_t>(i * stride + j)] = static_cast<std::int8_t>(code);
        block_offsets[static_cast<std::size_t>((i * stride + j) / kSumBlock)] -= 8 * code;
        sum += code;
      }
      sums.push_back(sum);
      scale.push_back(0.001f * static_cast<float>(1 + random() % 50));
      zero.push_back(static_cast<std::int32_t>(random() % 256) - 128);
    }
    for (const std::int8_t code : q) q_offset.push_back(static_cast<std::uint8_t>(code + 128));
    args.x = q.data();
    args.x_offset = q_offset.data();
    args.x_stride = stride;
    args.x_scale = scale.data();
    args.x_zero = zero.data();
    args.x_sum = sums.data();
    args.x_block_offsets = block_offsets.data();
    args.offsets_stride = stride / kSumBlock;
    args.m = m;
    args.k = k;
  }
  std::vector<std::int8_t> q;
  std::vector<std::uint8_t> q_offset;
  std::vector<std::int32_t> block_offsets, zero, sums;
  std::vector<float> scale;
  IntGemmArgs args;
};

// m rows whose codes are all -128 or all 127, with the zero point -128 or 127: row i is combination
// (first + i) % 4. Scales are one.
struct ExtremeRows : IntRows {
  ExtremeRows(std::int64_t m, std::int64_t k, int first) : IntRows(m, k, 1) {
    for (std::int64_t i = 0; i < m; ++i) {
      const std::int64_t which = (first + i) % 4, begin = i * args.x_stride;
      const int code = which % 2 == 0 ? -128 : 127;
      std::fill_n(q.begin() + begin, k, static_cast<std::int8_t>(code));
      std::fill_n(q_offset.begin() + begin, k, static_cast<std::uint8_t>(code + 128));
      for (std::int64_t j = 0; j < k; j += kSumBlock) {
        block_offsets[static_cast<std::size_t>((begin + j) / kSumBlock)] =
            -8 * code * static_cast<int>(std::min(kSumBlock, k - j));
      }
      sums[static_cast<std::size_t>(i)] = code * static_cast<int>(k);
      scale[static_cast<std::size_t>(i)] = 1.0f;
      zero[static_cast<std::size_t>(i)] = which / 2 == 0 ? -128 : 127;
    }
  }
};

}  // namespace hone::kernels
