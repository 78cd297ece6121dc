// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int8/gemm_int8.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avx2)

namespace hone::kernels::gemm_int8 {
namespace {

constexpr int kMaxRows = 2;
// Bytes ahead of the load that a panel is fetched: the hardware stops at page ends.
constexpr std::int64_t kAhead = 4608;

// Products go through 16 bits: the 8-bit multiply-add of AVX2 would saturate. acc[i][q] holds, for
// rows 4 q .. 4 q + 3 of the panel, two partial sums each.
template <int kRows>
HONE_INLINE void SumPanel(const IntGemmArgs& a, std::int64_t i0, const std::byte* codes,
                          __m256i acc[kRows][4]) {
  for (int i = 0; i < kRows; ++i) {
    for (int q = 0; q < 4; ++q) acc[i][q] = _mm256_setzero_si256();
  }
  const std::int8_t* x = a.x + i0 * a.x_stride;
  for (std::int64_t g = 0; g < CeilDiv(a.k, 4); ++g) {
    _mm_prefetch(codes + g * 64 + kAhead, _MM_HINT_T0);
    __m256i w[4];
    for (int q = 0; q < 4; ++q) {
      w[q] = _mm256_cvtepi8_epi16(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + g * 64 + q * 16)));
    }
    for (int i = 0; i < kRows; ++i) {
      std::int32_t four;
      std::memcpy(&four, x + i * a.x_stride + g * 4, 4);
      const __m256i xs = _mm256_cvtepi8_epi16(_mm_set1_epi32(four));
      for (int q = 0; q < 4; ++q) {
        acc[i][q] = _mm256_add_epi32(acc[i][q], _mm256_madd_epi16(w[q], xs));
      }
    }
  }
}

// The sums of rows 8 h .. 8 h + 7.
HONE_INLINE __m256i Rows8(const __m256i* acc, int h) {
  return _mm256_permute4x64_epi64(_mm256_hadd_epi32(acc[2 * h], acc[2 * h + 1]), 0xd8);
}

template <int kRows>
void Tile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel, const float* bias,
          std::int64_t n, float* y) {
  __m256i acc[kRows][4];
  SumPanel<kRows>(a, i0, panel + kPanelHeadBytes, acc);
  float padded_bias[kPanelRows] = {};
  if (bias != nullptr) std::memcpy(padded_bias, bias, static_cast<std::size_t>(n) * sizeof(float));
  for (int i = 0; i < kRows; ++i) {
    float out[kPanelRows];
    for (int h = 0; h < 2; ++h) {
      const __m256i w_sum = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + h * 32));
      const __m256 w_scale = _mm256_loadu_ps(reinterpret_cast<const float*>(panel + 64 + h * 32));
      const __m256i zero = _mm256_set1_epi32(a.x_zero[i0 + i]);
      const __m256i sum = _mm256_sub_epi32(Rows8(acc[i], h), _mm256_mullo_epi32(w_sum, zero));
      __m256 result = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(a.x_scale[i0 + i]));
      result = bias == nullptr
                   ? _mm256_mul_ps(result, w_scale)
                   : _mm256_fmadd_ps(result, w_scale, _mm256_loadu_ps(padded_bias + h * 8));
      _mm256_storeu_ps(out + h * 8, result);
    }
    std::memcpy(y + i * a.y_stride, out, static_cast<std::size_t>(n) * sizeof(float));
  }
}

}  // namespace

void gemm_i8_i8_f32__2x16c4__avx2(const IntGemmArgs& a) noexcept {
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
