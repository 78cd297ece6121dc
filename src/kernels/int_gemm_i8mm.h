// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the NEON kernels with 8-bit matrix products (smmla) share. smmla multiplies two rows of x by
// two columns, eight values each. Rows of x are interleaved by pairs for it, a chunk at a time;
// panels keep the layout of all targets, and two zips make pairs of columns of a quad. Include
// after int_gemm_neon.h, inside a target region.
#pragma once

#include <algorithm>

#include "kernels/int_gemm_neon.h"

namespace hone::kernels {
namespace {

// Pairs of rows of the largest tile.
constexpr int kMaxPairs = 6;
// Columns that share a chunk of interleaved rows: four panels.
constexpr std::int64_t kStripPanels = 4;
constexpr std::int64_t kStripColumns = kStripPanels * kPanelRows;
constexpr int kStripQuads = kStripColumns / 4;
// Values of k in a chunk.
constexpr std::int64_t kChunk = 512;

// The second row of pair p from i0 on; the first one again if there is none.
HONE_INLINE std::int64_t SecondRow(const IntGemmArgs& a, std::int64_t i0, int p) {
  return std::min(i0 + 2 * p + 1, a.m - 1);
}

// out[g][p]: eight values of both rows of pair p.
template <int kPairs>
HONE_INLINE void InterleaveRows(const IntGemmArgs& a, std::int64_t i0, std::int64_t k0,
                                std::int64_t groups, std::int8_t* out) {
  for (int p = 0; p < kPairs; ++p) {
    const std::int8_t* x0 = a.x + (i0 + 2 * p) * a.x_stride + k0;
    const std::int8_t* x1 = a.x + SecondRow(a, i0, p) * a.x_stride + k0;
    for (std::int64_t g = 0; g < groups; ++g) {
      std::memcpy(out + (g * kPairs + p) * 16, x0 + g * 8, 8);
      std::memcpy(out + (g * kPairs + p) * 16 + 8, x1 + g * 8, 8);
    }
  }
}

// [a, a, b, b]
HONE_INLINE int32x4_t PairOfInts(std::int32_t a, std::int32_t b) {
  return vcombine_s32(vdup_n_s32(a), vdup_n_s32(b));
}

// Two columns and two rows of x meet in a vector: [x0 c0, x0 c1, x1 c0, x1 c1]. The quad of row
// 0 or 1 from the vectors of columns 0, 1 and 2, 3.
template <int kRow>
HONE_INLINE int32x4_t QuadOfRow(int32x4_t c01, int32x4_t c23) {
  const int64x2_t a = vreinterpretq_s64_s32(c01), b = vreinterpretq_s64_s32(c23);
  return vreinterpretq_s32_s64(kRow == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b));
}

// The pairs of columns of a quad, given values 0 .. 3 and 4 .. 7 of its four columns.
struct ColumnPairs {
  int8x16_t c01, c23;
};
HONE_INLINE ColumnPairs PairColumns(int8x16_t low, int8x16_t high) {
  const int32x4_t a = vreinterpretq_s32_s8(low), b = vreinterpretq_s32_s8(high);
  return {vreinterpretq_s8_s32(vzip1q_s32(a, b)), vreinterpretq_s8_s32(vzip2q_s32(a, b))};
}

// acc[p][2 q], [p][2 q + 1] += pair p of interleaved rows times quad q.
template <int kPairs, int kQuads>
HONE_INLINE void AddColumns(const std::int8_t* pairs, const ColumnPairs (&w)[kQuads],
                            int32x4_t (&acc)[kPairs][2 * kQuads]) {
  for (int p = 0; p < kPairs; ++p) {
    const int8x16_t x = vld1q_s8(pairs + 16 * p);
    for (int q = 0; q < kQuads; ++q) {
      acc[p][2 * q] = vmmlaq_s32(acc[p][2 * q], x, w[q].c01);
      acc[p][2 * q + 1] = vmmlaq_s32(acc[p][2 * q + 1], x, w[q].c23);
    }
  }
}

}  // namespace
}  // namespace hone::kernels
