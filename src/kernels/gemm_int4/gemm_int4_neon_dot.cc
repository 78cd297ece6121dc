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

namespace hone::kernels::gemm_int4 {
namespace {

constexpr int kMaxRows = 4;

// acc[i][q] += sum of (code + 8) * x over groups of eight values, for rows 4 q .. 4 q + 3 of the
// panel. A code + 8 is at most 15, so the signed dot product takes it as it is.
template <int kRows>
HONE_INLINE void AddGroups(const std::uint8_t* codes, const std::int8_t* x, std::int64_t x_stride,
                           std::int64_t groups, int32x4_t acc[kRows][4]) {
  const uint8x16_t mask = vdupq_n_u8(15);
  for (std::int64_t g = 0; g < groups; ++g, codes += 64, x += 8) {
    int8x16_t low[4], high[4];
    for (int q = 0; q < 4; ++q) {
      const uint8x16_t pair = vld1q_u8(codes + 16 * q);
      low[q] = vreinterpretq_s8_u8(vandq_u8(pair, mask));
      high[q] = vreinterpretq_s8_u8(vshrq_n_u8(pair, 4));
    }
    for (int i = 0; i < kRows; ++i) {
      const int8x8_t eight = vld1_s8(x + i * x_stride);
      for (int q = 0; q < 4; ++q) {
        acc[i][q] = vdotq_lane_s32(acc[i][q], low[q], eight, 0);
        acc[i][q] = vdotq_lane_s32(acc[i][q], high[q], eight, 1);
      }
    }
  }
}

HONE_INLINE void StoreRow(const float32x4_t* values, const float* bias, std::int64_t n, float* y) {
  float out[kPanelRows];
  for (int q = 0; q < 4; ++q) vst1q_f32(out + 4 * q, values[q]);
  if (bias != nullptr) {
    for (std::int64_t r = 0; r < n; ++r) out[r] += bias[r];
  }
  std::memcpy(y, out, static_cast<std::size_t>(n) * sizeof(float));
}

template <int kRows>
void BlockTile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel, const float* bias,
               std::int64_t n, float* y) {
  const std::byte* scales = panel + kPanelHeadBytes;
  const auto* codes = reinterpret_cast<const std::uint8_t*>(scales + ScaleBytes(a.k, a.block));
  const auto* correction = reinterpret_cast<const float*>(panel);
  const std::int8_t* x = a.x + i0 * a.x_stride;
  const std::int32_t* offsets = a.x_block_offsets + i0 * a.offsets_stride;
  float32x4_t total[kRows][4];
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < 4; ++q) {
      total[i][q] =
          vmulq_n_f32(vld1q_f32(correction + 4 * q), -static_cast<float>(a.x_zero[i0 + i]));
    }
  }
  const std::int64_t parts = a.block / kSumBlock;
  for (std::int64_t b = 0; b < a.k / a.block; ++b) {
    int32x4_t acc[kRows][4];
    for (int i = 0; i < kRows; ++i) {
      std::int32_t offset = 0;
      for (std::int64_t p = 0; p < parts; ++p) offset += offsets[i * a.offsets_stride + p];
      for (int q = 0; q < 4; ++q) acc[i][q] = vdupq_n_s32(offset);
    }
    AddGroups<kRows>(codes, x, a.x_stride, a.block / 8, acc);
    codes += a.block * 8;
    x += a.block;
    offsets += parts;
    for (int q = 0; q < 4; ++q) {
      std::uint16_t half[4];
      std::memcpy(half, scales + q * 8, sizeof(half));
      const float32x4_t scale = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(half)));
      for (int i = 0; i < kRows; ++i) {
        total[i][q] = vfmaq_f32(total[i][q], vcvtq_f32_s32(acc[i][q]), scale);
      }
    }
    scales += kPanelRows * 2;
  }
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < 4; ++q) total[i][q] = vmulq_n_f32(total[i][q], a.x_scale[i0 + i]);
    StoreRow(total[i], bias, n, y + i * a.y_stride);
  }
}

template <int kRows>
void RowTile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel, const float* bias,
             std::int64_t n, float* y) {
  const auto* w_sums = reinterpret_cast<const std::int32_t*>(panel);
  const auto* w_scales = reinterpret_cast<const float*>(panel + 64);
  int32x4_t acc[kRows][4];
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < 4; ++q) acc[i][q] = vdupq_n_s32(-8 * a.x_sum[i0 + i]);
  }
  AddGroups<kRows>(reinterpret_cast<const std::uint8_t*>(panel + kPanelHeadBytes),
                   a.x + i0 * a.x_stride, a.x_stride, CeilDiv(a.k, 8), acc);
  for (int i = 0; i < kRows; ++i) {
    float32x4_t out[4];
    for (int q = 0; q < 4; ++q) {
      const int32x4_t sum = vmlsq_n_s32(acc[i][q], vld1q_s32(w_sums + 4 * q), a.x_zero[i0 + i]);
      const float32x4_t scaled = vmulq_n_f32(vcvtq_f32_s32(sum), a.x_scale[i0 + i]);
      out[q] = vmulq_f32(scaled, vld1q_f32(w_scales + 4 * q));
    }
    StoreRow(out, bias, n, y + i * a.y_stride);
  }
}

template <int kRows>
HONE_INLINE void Tile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel,
                      const float* bias, std::int64_t n, float* y) {
  if (a.block == 0) {
    RowTile<kRows>(a, i0, panel, bias, n, y);
  } else {
    BlockTile<kRows>(a, i0, panel, bias, n, y);
  }
}

}  // namespace

void gemm_i8_i4_f32__4x16c8__neon_dot(const IntGemmArgs& a) noexcept {
  const std::byte* panel = a.w;
  for (std::int64_t row = 0; row < a.n; row += kPanelRows, panel += a.panel_bytes) {
    const std::int64_t n = std::min(kPanelRows, a.n - row);
    const float* bias = a.bias == nullptr ? nullptr : a.bias + row;
    std::int64_t i = 0;
    for (; i + kMaxRows <= a.m; i += kMaxRows) {
      Tile<kMaxRows>(a, i, panel, bias, n, a.y + i * a.y_stride + row);
    }
    for (; i < a.m; ++i) Tile<1>(a, i, panel, bias, n, a.y + i * a.y_stride + row);
  }
}

}  // namespace hone::kernels::gemm_int4

HONE_TARGET_END
