// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int8/gemm_int8.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avxvnni)

namespace hone::kernels::gemm_int8 {
namespace {

constexpr int kMaxRows = 6;
// Bytes ahead of the load that a panel is fetched: the hardware stops at page ends.
constexpr std::int64_t kAhead = 4608;

// acc[i][h] += sum of (code + 128) * x over one group of four values, for rows 8 h .. of the panel.
template <int kRows>
HONE_INLINE void AddGroup(const std::byte* codes, const std::int8_t* x, std::int64_t x_stride,
                          __m256i acc[kRows][2]) {
  _mm_prefetch(codes + kAhead, _MM_HINT_T0);
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 32));
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    std::int32_t four;
    std::memcpy(&four, x + i * x_stride, 4);
    const __m256i xs = _mm256_set1_epi32(four);
    acc[i][0] = _mm256_dpbusd_avx_epi32(acc[i][0], low, xs);
    acc[i][1] = _mm256_dpbusd_avx_epi32(acc[i][1], high, xs);
  }
}

template <int kRows>
void Tile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel, const float* bias,
          std::int64_t n, float* y) {
  // Two chains hide the latency where few sums are in flight; they are exact in any order.
  constexpr int kChains = kRows <= 2 ? 2 : 1;
  const std::byte* codes = panel + kPanelHeadBytes;
  const std::int8_t* x = a.x + i0 * a.x_stride;
  __m256i acc[kChains][kRows][2];
  for (int c = 0; c < kChains; ++c) {
    for (int i = 0; i < kRows; ++i) acc[c][i][0] = acc[c][i][1] = _mm256_setzero_si256();
  }
  const std::int64_t groups = CeilDiv(a.k, 4);
  std::int64_t g = 0;
  for (; g + kChains <= groups; g += kChains) {
#pragma GCC unroll 2
    for (int c = 0; c < kChains; ++c) {
      AddGroup<kRows>(codes + (g + c) * 64, x + (g + c) * 4, a.x_stride, acc[c]);
    }
  }
  for (; g < groups; ++g) AddGroup<kRows>(codes + g * 64, x + g * 4, a.x_stride, acc[0]);
  float padded_bias[kPanelRows] = {};
  if (bias != nullptr) std::memcpy(padded_bias, bias, static_cast<std::size_t>(n) * sizeof(float));
  for (int i = 0; i < kRows; ++i) {
    float out[kPanelRows];
    // sum w q = sum (w + 128) q - 128 sum q.
    const __m256i offset = _mm256_set1_epi32(128 * a.x_sum[i0 + i]);
    const __m256i zero = _mm256_set1_epi32(a.x_zero[i0 + i]);
    for (int h = 0; h < 2; ++h) {
      const __m256i w_sum = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + h * 32));
      const __m256 w_scale = _mm256_loadu_ps(reinterpret_cast<const float*>(panel + 64 + h * 32));
      __m256i sum = acc[0][i][h];
      if constexpr (kChains == 2) sum = _mm256_add_epi32(sum, acc[1][i][h]);
      sum = _mm256_sub_epi32(_mm256_sub_epi32(sum, offset), _mm256_mullo_epi32(w_sum, zero));
      __m256 result = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(a.x_scale[i0 + i]));
      result = bias == nullptr
                   ? _mm256_mul_ps(result, w_scale)
                   : _mm256_fmadd_ps(result, w_scale, _mm256_loadu_ps(padded_bias + h * 8));
      _mm256_storeu_ps(out + h * 8, result);
    }
    std::memcpy(y + i * a.y_stride, out, static_cast<std::size_t>(n) * sizeof(float));
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

void gemm_i8_i8_f32__6x16c4__avxvnni(const IntGemmArgs& a) noexcept {
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
