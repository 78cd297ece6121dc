// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int8/gemm_int8.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(neon_i8mm)

// After the headers that it uses.
#include "kernels/int_gemm_i8mm.h"

namespace hone::kernels::gemm_int8 {
namespace {

// Sums of a strip: for each pair of rows two vectors a quad.
using Sums = int32x4_t[kMaxPairs][2 * kStripQuads];

// Quads of columns that a tile of so many pairs of rows computes at once: enough independent sums
// to hide the latency, and they stay in registers.
constexpr int Quads(int pairs) { return pairs == 1 ? 4 : 2; }

// sums += a chunk of groups of eight values for the quads from `first` on; codes is their first
// quad. Of the last group only half is there if `half`.
template <int kPairs, int kQuads>
HONE_INLINE void AddChunk(const std::int8_t* codes, const std::int8_t* pairs, std::int64_t groups,
                          bool half, std::int64_t first, Sums& sums) {
  int32x4_t acc[kPairs][2 * kQuads];
  for (int p = 0; p < kPairs; ++p) {
    for (int v = 0; v < 2 * kQuads; ++v) acc[p][v] = sums[p][2 * first + v];
  }
  ColumnPairs w[kQuads];
  for (std::int64_t g = 0; g < groups - half; ++g, codes += 128, pairs += 16 * kPairs) {
    for (int q = 0; q < kQuads; ++q) {
      w[q] = PairColumns(vld1q_s8(codes + 16 * q), vld1q_s8(codes + 64 + 16 * q));
    }
    AddColumns<kPairs, kQuads>(pairs, w, acc);
  }
  if (half) {
    for (int q = 0; q < kQuads; ++q) {
      w[q] = PairColumns(vld1q_s8(codes + 16 * q), vdupq_n_s8(0));
    }
    AddColumns<kPairs, kQuads>(pairs, w, acc);
  }
  for (int p = 0; p < kPairs; ++p) {
    for (int v = 0; v < 2 * kQuads; ++v) sums[p][2 * first + v] = acc[p][v];
  }
}

// A row of a strip from its sums.
template <int kRow>
HONE_INLINE void StoreRow(const IntGemmArgs& a, std::int64_t i, std::int64_t row, std::int64_t n,
                          const int32x4_t* sums, const float* bias) {
  float out[kStripColumns];
  for (std::int64_t q = 0; q * 4 < n; ++q) {
    const std::byte* head = a.w + (row / kPanelRows + q / 4) * a.panel_bytes + q % 4 * 16;
    const int32x4_t sum = QuadOfRow<kRow>(sums[2 * q], sums[2 * q + 1]);
    StoreScaled(ScaledSum(sum, head, a.x_zero[i], a.x_scale[i]), head, bias, 4 * q, out);
  }
  std::memcpy(a.y + i * a.y_stride + row, out, static_cast<std::size_t>(n) * sizeof(float));
}

// kPairs pairs of rows times the n columns from `row` on, at most a strip.
template <int kPairs>
__attribute__((noinline)) void Strip(const IntGemmArgs& a, std::int64_t i0, std::int64_t row,
                                     std::int64_t n, const float* bias) {
  alignas(16) std::int8_t pairs[kChunk * 2 * kPairs];
  Sums sums;
  for (int p = 0; p < kPairs; ++p) {
    for (int32x4_t& sum : sums[p]) sum = vdupq_n_s32(0);
  }
  for (std::int64_t k0 = 0; k0 < a.k; k0 += kChunk) {
    const std::int64_t depth = std::min(kChunk, a.k - k0), groups = CeilDiv(depth, 8);
    InterleaveRows<kPairs>(a, i0, k0, groups, pairs);
    for (std::int64_t first = 0; first * 4 < n; first += Quads(kPairs)) {
      const std::byte* codes = a.w + (row / kPanelRows + first / 4) * a.panel_bytes +
                               kPanelHeadBytes + k0 * kPanelRows + first % 4 * 16;
      AddChunk<kPairs, Quads(kPairs)>(reinterpret_cast<const std::int8_t*>(codes), pairs, groups,
                                      CeilDiv(depth, 4) % 2 != 0, first, sums);
    }
  }
  for (int p = 0; p < kPairs; ++p) {
    const std::int64_t i = i0 + 2 * p;
    StoreRow<0>(a, i, row, n, sums[p], bias);
    if (i + 1 < a.m) StoreRow<1>(a, i + 1, row, n, sums[p], bias);
  }
}

// The same for 1 to kPairs pairs; says how many rows.
template <int kPairs>
HONE_INLINE std::int64_t StripUpTo(const IntGemmArgs& a, std::int64_t i0, std::int64_t row,
                                   std::int64_t n, const float* bias) {
  if constexpr (kPairs > 1) {
    if (CeilDiv(a.m - i0, 2) < kPairs) return StripUpTo<kPairs - 1>(a, i0, row, n, bias);
  }
  Strip<kPairs>(a, i0, row, n, bias);
  return 2 * kPairs;
}

}  // namespace

void gemm_i8_i8_f32__12x8c8__neon_i8mm(const IntGemmArgs& a) noexcept {
  if (a.m == 1) {
    gemm_i8_i8_f32__8x8c4__neon_dot(a);
    return;
  }
  for (std::int64_t row = 0; row < a.n; row += kStripColumns) {
    const std::int64_t n = std::min(kStripColumns, a.n - row);
    float padded[kStripColumns] = {};
    if (a.bias != nullptr) {
      std::memcpy(padded, a.bias + row, static_cast<std::size_t>(n) * sizeof(float));
    }
    const float* bias = a.bias == nullptr ? nullptr : padded;
    for (std::int64_t i = 0; i < a.m;) i += StripUpTo<kMaxPairs>(a, i, row, n, bias);
  }
}

}  // namespace hone::kernels::gemm_int8

HONE_TARGET_END
