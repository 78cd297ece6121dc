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

namespace hone::kernels::gemm_int8 {
namespace {

constexpr int kMaxRows = 4;

// acc[i][q] are the sums of rows 4 q .. 4 q + 3 of the panel with row i of x.
template <int kRows>
HONE_INLINE void SumPanel(const IntGemmArgs& a, std::int64_t i0, const std::int8_t* codes,
                          int32x4_t acc[kRows][4]) {
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < 4; ++q) acc[i][q] = vdupq_n_s32(0);
  }
  for (std::int64_t g = 0; g < CeilDiv(a.k, 4); ++g, codes += 64) {
    int8x16_t w[4];
    for (int q = 0; q < 4; ++q) w[q] = vld1q_s8(codes + 16 * q);
    for (int i = 0; i < kRows; ++i) {
      std::int32_t four;
      std::memcpy(&four, a.x + (i0 + i) * a.x_stride + g * 4, 4);
      const int8x16_t x = vreinterpretq_s8_s32(vdupq_n_s32(four));
      for (int q = 0; q < 4; ++q) acc[i][q] = vdotq_s32(acc[i][q], w[q], x);
    }
  }
}

template <int kRows>
void Tile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel, const float* bias,
          std::int64_t n, float* y) {
  int32x4_t acc[kRows][4];
  SumPanel<kRows>(a, i0, reinterpret_cast<const std::int8_t*>(panel + kPanelHeadBytes), acc);
  const auto* w_sums = reinterpret_cast<const std::int32_t*>(panel);
  const auto* w_scales = reinterpret_cast<const float*>(panel + 64);
  float padded_bias[kPanelRows] = {};
  if (bias != nullptr) std::memcpy(padded_bias, bias, static_cast<std::size_t>(n) * sizeof(float));
  for (int i = 0; i < kRows; ++i) {
    float out[kPanelRows];
    for (int q = 0; q < 4; ++q) {
      const int32x4_t sum = vmlsq_n_s32(acc[i][q], vld1q_s32(w_sums + 4 * q), a.x_zero[i0 + i]);
      const float32x4_t scaled = vmulq_n_f32(vcvtq_f32_s32(sum), a.x_scale[i0 + i]);
      const float32x4_t scale = vld1q_f32(w_scales + 4 * q);
      vst1q_f32(out + 4 * q, bias == nullptr
                                 ? vmulq_f32(scaled, scale)
                                 : vfmaq_f32(vld1q_f32(padded_bias + 4 * q), scaled, scale));
    }
    std::memcpy(y + i * a.y_stride, out, static_cast<std::size_t>(n) * sizeof(float));
  }
}

}  // namespace

void gemm_i8_i8_f32__4x16c4__neon_dot(const IntGemmArgs& a) noexcept {
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

}  // namespace hone::kernels::gemm_int8

HONE_TARGET_END
