// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int4/gemm_int4.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avx2)

namespace hone::kernels::gemm_int4 {
namespace {

constexpr int kMaxRows = 4;
// Bytes ahead of the load that a panel is fetched: the hardware stops at page ends.
constexpr std::int64_t kAhead = 4608;

HONE_INLINE __m256i Broadcast4(const std::int8_t* x) {
  std::int32_t four;
  std::memcpy(&four, x, 4);
  return _mm256_set1_epi32(four);
}

// acc[i][h] += sum of (code + 8) * x over up to four groups of eight values, for rows 8 h .. of the
// panel. ahead is fetched, as many bytes as the codes are. maddubs gives at most 2 * 15 * 128 =
// 3840, so eight of its results fit in 16 bits.
template <int kRows>
HONE_INLINE void AddGroups(const std::byte* codes, const std::byte* ahead, const std::int8_t* x,
                           std::int64_t x_stride, std::int64_t groups, __m256i acc[kRows][2]) {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i small[kRows][2];
  for (int i = 0; i < kRows; ++i) small[i][0] = small[i][1] = _mm256_setzero_si256();
  for (std::int64_t g = 0; g < groups; ++g) {
    _mm_prefetch(ahead + g * 64, _MM_HINT_T0);
    for (int h = 0; h < 2; ++h) {
      const __m256i pair =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + g * 64 + h * 32));
      const __m256i low = _mm256_and_si256(pair, mask);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(pair, 4), mask);
      for (int i = 0; i < kRows; ++i) {
        const std::int8_t* xs = x + i * x_stride + g * 8;
        small[i][h] = _mm256_add_epi16(small[i][h], _mm256_maddubs_epi16(low, Broadcast4(xs)));
        small[i][h] = _mm256_add_epi16(small[i][h], _mm256_maddubs_epi16(high, Broadcast4(xs + 4)));
      }
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int h = 0; h < 2; ++h) {
      acc[i][h] = _mm256_add_epi32(acc[i][h], _mm256_madd_epi16(small[i][h], ones));
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
    for (int i = 0; i < kRows; ++i) acc[i][0] = acc[i][1] = _mm256_setzero_si256();
    for (std::int64_t p = 0; p < parts;
         ++p, ++offsets, codes += 256, ahead += 256, x += kSumBlock) {
      for (int i = 0; i < kRows; ++i) {
        const __m256i offset = _mm256_set1_epi32(offsets[i * a.offsets_stride]);
        for (int h = 0; h < 2; ++h) acc[i][h] = _mm256_add_epi32(acc[i][h], offset);
      }
      AddGroups<kRows>(codes, ahead, x, a.x_stride, 4, acc);
    }
    _mm_prefetch(ahead, _MM_HINT_T0);
    ahead += kPanelRows * 2;
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
  const std::int64_t groups = CeilDiv(a.k, 8);
  for (std::int64_t g = 0; g < groups; g += 4) {
    AddGroups<kRows>(codes + g * 64, codes + g * 64 + kAhead, x + g * 8, a.x_stride,
                     std::min<std::int64_t>(4, groups - g), acc);
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

void gemm_i8_i4_f32__4x16c8__avx2(const IntGemmArgs& a) noexcept {
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
