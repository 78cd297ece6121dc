// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int8/gemm_int8.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(neon_dot)

// After the headers that it uses.
#include "kernels/int_gemm_neon.h"

namespace hone::kernels::gemm_int8 {
namespace {

constexpr int kMaxRows = 8;
// Columns of the strip that all rows pass over before the next one: two panels.
constexpr std::int64_t kStripColumns = 2 * kPanelRows;

// Quads of columns that a tile of so many rows computes at once: at least eight independent sums to
// hide the latency of the dot product, at most sixteen. A single row takes two panels, so that two
// streams are in flight.
constexpr int Quads(int rows) { return rows == 1 ? 8 : rows <= 4 ? 4 : 2; }

// One group of four values; kLane is its place in the vectors of x.
template <int kLane, int kRows, int kQuads>
HONE_INLINE void AddGroup(const std::int8_t* codes, std::int64_t panel_bytes,
                          const int8x16_t (&x)[kRows], int32x4_t (&acc)[kRows][kQuads]) {
  for (int q = 0; q < kQuads; ++q) {
    const int8x16_t w = vld1q_s8(codes + QuadOffset(q, panel_bytes));
    for (int i = 0; i < kRows; ++i) acc[i][q] = vdotq_laneq_s32(acc[i][q], w, x[i], kLane);
  }
}

// acc[i][q] += the sums of the columns of quad q with row i of x.
template <int kRows, int kQuads>
HONE_INLINE void AddGroups(const std::int8_t* codes, std::int64_t panel_bytes, const std::int8_t* x,
                           std::int64_t x_stride, std::int64_t groups,
                           int32x4_t (&acc)[kRows][kQuads]) {
  int8x16_t sixteen[kRows];
  std::int64_t g = 0;
  for (; g + 4 <= groups; g += 4, codes += 256, x += 16) {
    if constexpr (kRows == 1) {
      PrefetchPanels<kQuads>(codes, panel_bytes);
      PrefetchPanels<kQuads>(codes + 128, panel_bytes);
    }
    for (int i = 0; i < kRows; ++i) sixteen[i] = vld1q_s8(x + i * x_stride);
    AddGroup<0>(codes, panel_bytes, sixteen, acc);
    AddGroup<1>(codes + 64, panel_bytes, sixteen, acc);
    AddGroup<2>(codes + 128, panel_bytes, sixteen, acc);
    AddGroup<3>(codes + 192, panel_bytes, sixteen, acc);
  }
  for (; g < groups; ++g, codes += 64, x += 4) {
    for (int i = 0; i < kRows; ++i) {
      std::int32_t four;
      std::memcpy(&four, x + i * x_stride, 4);
      sixteen[i] = vreinterpretq_s8_s32(vdupq_n_s32(four));
    }
    AddGroup<0>(codes, panel_bytes, sixteen, acc);
  }
}

// out[i][4 q] and so on: kRows rows from i0 on times the quads of columns from `first` on.
template <int kRows, int kQuads>
HONE_INLINE void Tile(const IntGemmArgs& a, std::int64_t i0, std::int64_t first,
                      const std::byte* panel, const float* bias, float (*out)[kStripColumns]) {
  const std::byte* head = panel + first % 4 * 16;
  int32x4_t acc[kRows][kQuads];
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < kQuads; ++q) acc[i][q] = vdupq_n_s32(0);
  }
  AddGroups<kRows, kQuads>(reinterpret_cast<const std::int8_t*>(head + kPanelHeadBytes),
                           a.panel_bytes, a.x + i0 * a.x_stride, a.x_stride, CeilDiv(a.k, 4), acc);
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < kQuads; ++q) {
      const std::byte* at = head + QuadOffset(q, a.panel_bytes);
      const float32x4_t scaled = ScaledSum(acc[i][q], at, a.x_zero[i0 + i], a.x_scale[i0 + i]);
      StoreScaled(scaled, at, bias, 4 * (first + q), out[i]);
    }
  }
}

// kRows rows times the n columns from `row` on, at most a strip. Not inlined: the compiler allots
// registers for one tile at a time, and tools/check_instructions.py finds each by its name.
template <int kRows>
__attribute__((noinline)) void Strip(const IntGemmArgs& a, std::int64_t i0, std::int64_t row,
                                     std::int64_t n, const float* bias) {
  const std::byte* panel = a.w + row / kPanelRows * a.panel_bytes;
  float out[kRows][kStripColumns];
  if (kRows == 1 && n <= kPanelRows) {
    Tile<kRows, 4>(a, i0, 0, panel, bias, out);
  } else {
    for (std::int64_t first = 0; first * 4 < n; first += Quads(kRows)) {
      Tile<kRows, Quads(kRows)>(a, i0, first, panel + first / 4 * a.panel_bytes, bias, out);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    std::memcpy(a.y + (i0 + i) * a.y_stride + row, out[i],
                static_cast<std::size_t>(n) * sizeof(float));
  }
}

// The same for 1 to kRows rows; says how many.
template <int kRows>
HONE_INLINE std::int64_t StripUpTo(const IntGemmArgs& a, std::int64_t i0, std::int64_t row,
                                   std::int64_t n, const float* bias) {
  if constexpr (kRows > 1) {
    if (a.m - i0 < kRows) return StripUpTo<kRows - 1>(a, i0, row, n, bias);
  }
  Strip<kRows>(a, i0, row, n, bias);
  return kRows;
}

}  // namespace

void gemm_i8_i8_f32__8x8c4__neon_dot(const IntGemmArgs& a) noexcept {
  for (std::int64_t row = 0; row < a.n; row += kStripColumns) {
    const std::int64_t n = std::min(kStripColumns, a.n - row);
    float padded[kStripColumns] = {};
    if (a.bias != nullptr) {
      std::memcpy(padded, a.bias + row, static_cast<std::size_t>(n) * sizeof(float));
    }
    const float* bias = a.bias == nullptr ? nullptr : padded;
    for (std::int64_t i = 0; i < a.m;) i += StripUpTo<kMaxRows>(a, i, row, n, bias);
  }
}

}  // namespace hone::kernels::gemm_int8

HONE_TARGET_END
