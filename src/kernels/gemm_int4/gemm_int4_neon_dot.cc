// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int4/gemm_int4.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(neon_dot)

// After the headers that it uses.
#include "kernels/int_gemm_neon.h"

namespace hone::kernels::gemm_int4 {
namespace {

constexpr int kMaxRows = 8;
// Columns of the strip that all rows pass over before the next one: two panels.
constexpr std::int64_t kStripColumns = 2 * kPanelRows;

// Quads of columns that a tile of so many rows computes at once: enough independent sums to hide
// the latency of the dot product, few enough that they and their totals stay in registers. A single
// row takes two panels, so that two streams are in flight.
constexpr int Quads(int rows) { return rows == 1 ? 8 : rows == 2 ? 4 : rows <= 4 ? 2 : 1; }

// acc[i][q] += sum of (code + 8) * x over groups of eight values. A code + 8 is at most 15, so the
// signed dot product takes it as it is.
template <int kRows, int kQuads>
HONE_INLINE void AddGroups(const std::uint8_t* codes, std::int64_t panel_bytes,
                           const std::int8_t* x, std::int64_t x_stride, std::int64_t groups,
                           int32x4_t (&acc)[kRows][kQuads]) {
  const uint8x16_t mask = vdupq_n_u8(15);
  std::int64_t g = 0;
  for (; g + 2 <= groups; g += 2, codes += 128, x += 16) {
    if constexpr (kRows == 1) PrefetchPanels<kQuads>(codes, panel_bytes);
    int8x16_t sixteen[kRows];
    for (int i = 0; i < kRows; ++i) sixteen[i] = vld1q_s8(x + i * x_stride);
    for (int q = 0; q < kQuads; ++q) {
      const std::uint8_t* quad = codes + QuadOffset(q, panel_bytes);
      const uint8x16_t first = vld1q_u8(quad), second = vld1q_u8(quad + 64);
      const int8x16_t w0 = vreinterpretq_s8_u8(vandq_u8(first, mask));
      const int8x16_t w1 = vreinterpretq_s8_u8(vshrq_n_u8(first, 4));
      const int8x16_t w2 = vreinterpretq_s8_u8(vandq_u8(second, mask));
      const int8x16_t w3 = vreinterpretq_s8_u8(vshrq_n_u8(second, 4));
      for (int i = 0; i < kRows; ++i) acc[i][q] = vdotq_laneq_s32(acc[i][q], w0, sixteen[i], 0);
      for (int i = 0; i < kRows; ++i) acc[i][q] = vdotq_laneq_s32(acc[i][q], w1, sixteen[i], 1);
      for (int i = 0; i < kRows; ++i) acc[i][q] = vdotq_laneq_s32(acc[i][q], w2, sixteen[i], 2);
      for (int i = 0; i < kRows; ++i) acc[i][q] = vdotq_laneq_s32(acc[i][q], w3, sixteen[i], 3);
    }
  }
  if (g == groups) return;
  for (int q = 0; q < kQuads; ++q) {
    const uint8x16_t pair = vld1q_u8(codes + QuadOffset(q, panel_bytes));
    const int8x16_t w0 = vreinterpretq_s8_u8(vandq_u8(pair, mask));
    const int8x16_t w1 = vreinterpretq_s8_u8(vshrq_n_u8(pair, 4));
    for (int i = 0; i < kRows; ++i) {
      const int8x8_t eight = vld1_s8(x + i * x_stride);
      acc[i][q] = vdotq_lane_s32(vdotq_lane_s32(acc[i][q], w0, eight, 0), w1, eight, 1);
    }
  }
}

// out[i][4 q] and so on: kRows rows from i0 on times the quads of columns from `first` on.
template <int kRows, int kQuads>
HONE_INLINE void BlockTile(const IntGemmArgs& a, std::int64_t i0, std::int64_t first,
                           const std::byte* panel, float (*out)[kStripColumns]) {
  const std::byte* scales = panel + kPanelHeadBytes + first % 4 * 8;
  const auto* codes = reinterpret_cast<const std::uint8_t*>(
      panel + kPanelHeadBytes + ScaleBytes(a.k, a.block) + first % 4 * 16);
  const std::byte* corrections = panel + first % 4 * 16;
  const std::int8_t* x = a.x + i0 * a.x_stride;
  const std::int32_t* offsets = a.x_block_offsets + i0 * a.offsets_stride;
  float32x4_t total[kRows][kQuads];
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < kQuads; ++q) {
      total[i][q] = vmulq_n_f32(LoadFloats(corrections + QuadOffset(q, a.panel_bytes)),
                                -static_cast<float>(a.x_zero[i0 + i]));
    }
  }
  const std::int64_t parts = a.block / kSumBlock;
  for (std::int64_t b = 0; b < a.k / a.block; ++b) {
    int32x4_t acc[kRows][kQuads];
    for (int i = 0; i < kRows; ++i) {
      std::int32_t offset = offsets[i * a.offsets_stride];
      for (std::int64_t p = 1; p < parts; ++p) offset += offsets[i * a.offsets_stride + p];
      for (int q = 0; q < kQuads; ++q) acc[i][q] = vdupq_n_s32(offset);
    }
    AddGroups<kRows, kQuads>(codes, a.panel_bytes, x, a.x_stride, a.block / 8, acc);
    codes += a.block * 8;
    x += a.block;
    offsets += parts;
    for (int q = 0; q < kQuads; ++q) {
      const float32x4_t scale = LoadHalves(scales + q / 4 * a.panel_bytes + q % 4 * 8);
      for (int i = 0; i < kRows; ++i) {
        total[i][q] = vfmaq_f32(total[i][q], vcvtq_f32_s32(acc[i][q]), scale);
      }
    }
    scales += kPanelRows * 2;
  }
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < kQuads; ++q) {
      vst1q_f32(out[i] + 4 * (first + q), vmulq_n_f32(total[i][q], a.x_scale[i0 + i]));
    }
  }
}

// The same with one scale a row.
template <int kRows, int kQuads>
HONE_INLINE void RowTile(const IntGemmArgs& a, std::int64_t i0, std::int64_t first,
                         const std::byte* panel, float (*out)[kStripColumns]) {
  const std::byte* head = panel + first % 4 * 16;
  int32x4_t acc[kRows][kQuads];
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < kQuads; ++q) acc[i][q] = vdupq_n_s32(-8 * a.x_sum[i0 + i]);
  }
  AddGroups<kRows, kQuads>(reinterpret_cast<const std::uint8_t*>(head + kPanelHeadBytes),
                           a.panel_bytes, a.x + i0 * a.x_stride, a.x_stride, CeilDiv(a.k, 8), acc);
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < kQuads; ++q) {
      const std::byte* at = head + QuadOffset(q, a.panel_bytes);
      const float32x4_t scaled = ScaledSum(acc[i][q], at, a.x_zero[i0 + i], a.x_scale[i0 + i]);
      vst1q_f32(out[i] + 4 * (first + q), vmulq_f32(scaled, LoadFloats(at + 64)));
    }
  }
}

template <int kRows, int kQuads>
HONE_INLINE void Tile(const IntGemmArgs& a, std::int64_t i0, std::int64_t first,
                      const std::byte* panel, float (*out)[kStripColumns]) {
  if (a.block == 0) {
    RowTile<kRows, kQuads>(a, i0, first, panel, out);
  } else {
    BlockTile<kRows, kQuads>(a, i0, first, panel, out);
  }
}

// kRows rows times the n columns from `row` on, at most a strip.
template <int kRows>
__attribute__((noinline)) void Strip(const IntGemmArgs& a, std::int64_t i0, std::int64_t row,
                                     std::int64_t n) {
  const std::byte* panel = a.w + row / kPanelRows * a.panel_bytes;
  float out[kRows][kStripColumns];
  if (kRows == 1 && n <= kPanelRows) {
    Tile<kRows, 4>(a, i0, 0, panel, out);
  } else {
    for (std::int64_t first = 0; first * 4 < n; first += Quads(kRows)) {
      Tile<kRows, Quads(kRows)>(a, i0, first, panel + first / 4 * a.panel_bytes, out);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    float* y = a.y + (i0 + i) * a.y_stride + row;
    for (std::int64_t r = 0; r < n; ++r)
      y[r] = a.bias == nullptr ? out[i][r] : out[i][r] + a.bias[row + r];
  }
}

// The same for 1 to kRows rows; says how many.
template <int kRows>
HONE_INLINE std::int64_t StripUpTo(const IntGemmArgs& a, std::int64_t i0, std::int64_t row,
                                   std::int64_t n) {
  if constexpr (kRows > 1) {
    if (a.m - i0 < kRows) return StripUpTo<kRows - 1>(a, i0, row, n);
  }
  Strip<kRows>(a, i0, row, n);
  return kRows;
}

}  // namespace

void gemm_i8_i4_f32__8x4c8__neon_dot(const IntGemmArgs& a) noexcept {
  for (std::int64_t row = 0; row < a.n; row += kStripColumns) {
    const std::int64_t n = std::min(kStripColumns, a.n - row);
    for (std::int64_t i = 0; i < a.m;) i += StripUpTo<kMaxRows>(a, i, row, n);
  }
}

}  // namespace hone::kernels::gemm_int4

HONE_TARGET_END
