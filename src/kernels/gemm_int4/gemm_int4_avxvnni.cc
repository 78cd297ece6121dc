// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int4/gemm_int4.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avxvnni)

namespace hone::kernels::gemm_int4 {
namespace {

// 3 x 2 integer and 3 x 2 float sums, two halves of the weights, a mask and a broadcast: all 16
// registers.
constexpr int kMaxRows = 3;
// Bytes ahead of the load that a panel is fetched: the hardware stops at page ends.
constexpr std::int64_t kAhead = 4608;

HONE_INLINE __m256i Broadcast4(const std::int8_t* x) {
  std::int32_t four;
  std::memcpy(&four, x, 4);
  return _mm256_set1_epi32(four);
}

// acc[i][h] += sum of (code + 8) * x over one group of eight values, for rows 8 h .. of the panel.
// The line at ahead is fetched.
template <int kRows>
HONE_INLINE void AddGroup(const std::byte* codes, const std::byte* ahead, const std::int8_t* x,
                          std::int64_t x_stride, __m256i acc[kRows][2]) {
  const __m256i mask = _mm256_set1_epi8(15);
  _mm_prefetch(ahead, _MM_HINT_T0);
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    const __m256i pair = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + h * 32));
    const __m256i low = _mm256_and_si256(pair, mask);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(pair, 4), mask);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const std::int8_t* xs = x + i * x_stride;
      acc[i][h] = _mm256_dpbusd_avx_epi32(acc[i][h], low, Broadcast4(xs));
      acc[i][h] = _mm256_dpbusd_avx_epi32(acc[i][h], high, Broadcast4(xs + 4));
    }
  }
}

HONE_INLINE void StoreRow(__m256 low, __m256 high, const float* bias, std::int64_t n, float* y) {
  float out[kPanelRows];
  _mm256_storeu_ps(out, low);
  _mm256_storeu_ps(out + 8, high);
  if (bias != nullptr) {
    for (std::int64_t r = 0; r < n; ++r) out[r] += bias[r];
  }
  std::memcpy(y, out, static_cast<std::size_t>(n) * sizeof(float));
}

template <int kRows>
void BlockTile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel, const float* bias,
               std::int64_t n, float* y) {
  const std::byte* scales = panel + kPanelHeadBytes;
  const std::byte* codes = scales + ScaleBytes(a.k, a.block);
  const std::int8_t* x = a.x + i0 * a.x_stride;
  const std::int32_t* offsets = a.x_block_offsets + i0 * a.offsets_stride;
  // Walks over all bytes of a panel, its scales too: lines that are left out cost a wait each.
  const std::byte* ahead = panel + kAhead;
  __m256 total[kRows][2];
  for (int i = 0; i < kRows; ++i) {
    const __m256 zero = _mm256_set1_ps(-static_cast<float>(a.x_zero[i0 + i]));
    const auto* correction = reinterpret_cast<const float*>(panel);
    for (int h = 0; h < 2; ++h) {
      total[i][h] = _mm256_mul_ps(_mm256_loadu_ps(correction + h * 8), zero);
    }
  }
  const std::int64_t parts = a.block / kSumBlock;
  for (std::int64_t b = 0; b < a.k / a.block; ++b) {
    __m256i acc[kRows][2];
    for (int i = 0; i < kRows; ++i) {
      std::int32_t offset = 0;
      for (std::int64_t p = 0; p < parts; ++p) offset += offsets[i * a.offsets_stride + p];
      acc[i][0] = acc[i][1] = _mm256_set1_epi32(offset);
    }
    for (std::int64_t p = 0; p < parts; ++p) {
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
        AddGroup<kRows>(codes + g * 64, ahead + g * 64, x + g * 8, a.x_stride, acc);
      }
      codes += 256;
      ahead += 256;
      x += kSumBlock;
    }
    _mm_prefetch(ahead, _MM_HINT_T0);
    ahead += kPanelRows * 2;
    offsets += parts;
    for (int h = 0; h < 2; ++h) {
      const __m256 scale =
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + h * 16)));
      for (int i = 0; i < kRows; ++i) {
        total[i][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc[i][h]), scale, total[i][h]);
      }
    }
    scales += kPanelRows * 2;
  }
  for (int i = 0; i < kRows; ++i) {
    const __m256 scale = _mm256_set1_ps(a.x_scale[i0 + i]);
    StoreRow(_mm256_mul_ps(total[i][0], scale), _mm256_mul_ps(total[i][1], scale), bias, n,
             y + i * a.y_stride);
  }
}

template <int kRows>
void RowTile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel, const float* bias,
             std::int64_t n, float* y) {
  const std::byte* codes = panel + kPanelHeadBytes;
  const std::int8_t* x = a.x + i0 * a.x_stride;
  __m256i acc[kRows][2];
  for (int i = 0; i < kRows; ++i) {
    acc[i][0] = acc[i][1] = _mm256_set1_epi32(-8 * a.x_sum[i0 + i]);
  }
  for (std::int64_t g = 0; g < CeilDiv(a.k, 8); ++g) {
    AddGroup<kRows>(codes + g * 64, codes + g * 64 + kAhead, x + g * 8, a.x_stride, acc);
  }
  for (int i = 0; i < kRows; ++i) {
    const __m256i zero = _mm256_set1_epi32(a.x_zero[i0 + i]);
    const __m256 x_scale = _mm256_set1_ps(a.x_scale[i0 + i]);
    __m256 out[2];
    for (int h = 0; h < 2; ++h) {
      const __m256i w_sum = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + h * 32));
      const __m256 w_scale = _mm256_loadu_ps(reinterpret_cast<const float*>(panel + 64 + h * 32));
      const __m256i sum = _mm256_sub_epi32(acc[i][h], _mm256_mullo_epi32(w_sum, zero));
      out[h] = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), x_scale), w_scale);
    }
    StoreRow(out[0], out[1], bias, n, y + i * a.y_stride);
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
  if (a.block == 0) {
    RowTile<kRows>(a, i0, panel, bias, n, y);
  } else {
    BlockTile<kRows>(a, i0, panel, bias, n, y);
  }
}

}  // namespace

void gemm_i8_i4_f32__3x16c8__avxvnni(const IntGemmArgs& a) noexcept {
  const std::byte* panel = a.w;
  for (std::int64_t row = 0; row < a.n; row += kPanelRows, panel += a.panel_bytes) {
    const std::int64_t n = std::min(kPanelRows, a.n - row);
    const float* bias = a.bias == nullptr ? nullptr : a.bias + row;
    for (std::int64_t i = 0; i < a.m; i += kMaxRows) {
      TileUpTo<kMaxRows>(a.m - i, a, i, panel, bias, n, a.y + i * a.y_stride + row);
    }
  }
}

}  // namespace hone::kernels::gemm_int4

HONE_TARGET_END
