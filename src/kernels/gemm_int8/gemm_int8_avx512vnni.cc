// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int8/gemm_int8.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avx512vnni)

namespace hone::kernels::gemm_int8 {
namespace {

constexpr int kMaxRows = 12;
// Bytes ahead of the load that the panel is fetched when one row of x reads it once: the hardware
// stops at page ends.
constexpr std::int64_t kAhead = 4608;

HONE_INLINE __m512i Broadcast4(const std::int8_t* x) {
  std::int32_t four;
  std::memcpy(&four, x, 4);
  return _mm512_set1_epi32(four);
}

template <int kRows>
void Tile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel, const float* bias,
          std::int64_t n, float* y) {
  // Two chains hide the latency where few rows are in flight; the sums are exact in any order.
  constexpr int kChains = kRows <= 6 ? 2 : 1;
  const __m512i w_sum = _mm512_loadu_si512(panel);
  const __m512 w_scale = _mm512_loadu_ps(panel + 64);
  const std::byte* codes = panel + kPanelHeadBytes;
  const std::int8_t* x = a.x + i0 * a.x_stride;
  __m512i acc[kChains][kRows];
  for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) acc[c][i] = _mm512_setzero_si512();
  }
  const std::int64_t groups = CeilDiv(a.k, 4);
  std::int64_t g = 0;
  for (; g + kChains <= groups; g += kChains) {
    for (int c = 0; c < kChains; ++c) {
      if constexpr (kRows == 1) _mm_prefetch(codes + (g + c) * 64 + kAhead, _MM_HINT_T0);
      const __m512i w = _mm512_loadu_si512(codes + (g + c) * 64);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        acc[c][i] = _mm512_dpbusd_epi32(acc[c][i], w, Broadcast4(x + i * a.x_stride + (g + c) * 4));
      }
    }
  }
  for (; g < groups; ++g) {
    const __m512i w = _mm512_loadu_si512(codes + g * 64);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      acc[0][i] = _mm512_dpbusd_epi32(acc[0][i], w, Broadcast4(x + i * a.x_stride + g * 4));
    }
  }
  const auto mask = static_cast<__mmask16>((1U << n) - 1U);
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    __m512i sum = acc[0][i];
    for (int c = 1; c < kChains; ++c) sum = _mm512_add_epi32(sum, acc[c][i]);
    // sum w q = sum (w + 128) q - 128 sum q.
    sum = _mm512_sub_epi32(sum, _mm512_set1_epi32(128 * a.x_sum[i0 + i]));
    const __m512i zero = _mm512_set1_epi32(a.x_zero[i0 + i]);
    sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(w_sum, zero));
    __m512 result = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(a.x_scale[i0 + i]));
    result = bias == nullptr ? _mm512_mul_ps(result, w_scale)
                             : _mm512_fmadd_ps(result, w_scale, _mm512_maskz_loadu_ps(mask, bias));
    _mm512_mask_storeu_ps(y + i * a.y_stride, mask, result);
  }
}

template <int kRows>
void TileUpTo(std::int64_t rows, const IntGemmArgs& a, std::int64_t i0, const std::byte* panel,
              const float* bias, std::int64_t n, float* y) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      TileUpTo<kRows - 1>(rows, a, i0, panel, bias, n, y);
      return;
    }
  }
  Tile<kRows>(a, i0, panel, bias, n, y);
}

}  // namespace

void gemm_i8_i8_f32__12x16c4__avx512vnni(const IntGemmArgs& a) noexcept {
  const std::byte* panel = a.w;
  for (std::int64_t row = 0; row < a.n; row += kPanelRows, panel += a.panel_bytes) {
    const std::int64_t n = std::min(kPanelRows, a.n - row);
    const float* bias = a.bias == nullptr ? nullptr : a.bias + row;
    for (std::int64_t i = 0; i < a.m; i += kMaxRows) {
      TileUpTo<kMaxRows>(a.m - i, a, i, panel, bias, n, a.y + i * a.y_stride + row);
    }
  }
}

}  // namespace hone::kernels::gemm_int8

HONE_TARGET_END
