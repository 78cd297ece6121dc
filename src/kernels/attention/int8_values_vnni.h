// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The AVX-512 VNNI part of int8_values_integer.h: dot products of two positions each. Include after
// attention_body.h, inside the same target region.
#pragma once

#include <immintrin.h>

namespace hone::kernels {
namespace {

// Columns of values that SumColumns takes at once.
constexpr std::int64_t kSumColumns = 32;

HONE_INLINE std::uint64_t LanesBelow(std::int64_t n) {
  return n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
}

// integers[kPagePositions] times the result are the probabilities times the scales; 0 for positions
// that are not seen. The result is NaN where a weight is not finite.
float QuantizeWeights(const Range& seen, const float* probabilities, const float* scales,
                      std::int16_t* integers) {
  const std::uint64_t lanes = LanesBelow(seen.last) & ~LanesBelow(seen.first);
  __m512 weights[4], most = _mm512_setzero_ps(), nothing = _mm512_setzero_ps();
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const auto mask = static_cast<__mmask16>(lanes >> (16 * c));
    weights[c] = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, probabilities + 16 * c),
                               _mm512_maskz_loadu_ps(mask, scales + 16 * c));
    most = _mm512_max_ps(weights[c], most);
    nothing = _mm512_fmadd_ps(weights[c], _mm512_setzero_ps(), nothing);
  }
  const float largest = _mm512_reduce_max_ps(most);
  const __m512 inverse = _mm512_set1_ps(largest < 1e-30f ? 0.0f : 32767.0f / largest);
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i n = _mm512_cvtps_epi32(_mm512_mul_ps(weights[c], inverse));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(integers + 16 * c), _mm512_cvtsepi32_epi16(n));
  }
  return largest * (1.0f / 32767) + Vec16{nothing}.ReduceAdd();
}

// v[i][j ..] += the weighted sums of kSumColumns columns of the rows seen, kQueries queries from t
// on. Unless kWhole, `dim - j` columns are there, and v goes on to a multiple of 16.
template <int kQueries, bool kWhole>
HONE_INLINE void SumColumns(const Int8Weights& weights, std::int64_t t, const Range& seen,
                            const std::int8_t* codes, std::intptr_t ahead, std::int64_t dim,
                            std::int64_t j, float* v) {
  const std::int64_t padded = (dim + 15) / 16 * 16;
  const auto mask = static_cast<__mmask32>(kWhole ? ~0U : (1U << (dim - j)) - 1U);
  __m512i sums[kQueries][2];
  for (int i = 0; i < kQueries; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_si512();
  for (std::int64_t p = seen.first / 2 * 2; p < seen.last; p += 2) {
    const std::int8_t* row = codes + p * dim + j;
    __m256i even, odd;
    if constexpr (kWhole) {
      even = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
      odd = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + dim));
    } else {
      even = _mm256_maskz_loadu_epi8(mask, row);
      odd = _mm256_maskz_loadu_epi8(mask, row + dim);
    }
    FetchAhead(row, ahead);
    FetchAhead(row + dim, ahead);
    const __m512i a = _mm512_cvtepi8_epi16(even), b = _mm512_cvtepi8_epi16(odd);
    // Pairs of positions: columns 0 to 3 of each eight in one vector, 4 to 7 in the other.
    const __m512i low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
    for (int i = 0; i < kQueries; ++i) {
      const __m512i pair = _mm512_set1_epi32(weights.Pair(t + i, p));
      sums[i][0] = _mm512_dpwssd_epi32(sums[i][0], low, pair);
      sums[i][1] = _mm512_dpwssd_epi32(sums[i][1], high, pair);
    }
  }
  const __m512i first = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  for (int i = 0; i < kQueries; ++i) {
    const __m512 scale = _mm512_set1_ps(weights.scale(t + i));
    for (int c = 0; c < 2; ++c) {
      if (!kWhole && j + 16 * c >= padded) break;
      const __m512i sum =
          _mm512_permutex2var_epi32(sums[i][0], c == 0 ? first : second, sums[i][1]);
      float* at = v + i * padded + j + 16 * c;
      _mm512_storeu_ps(at, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, _mm512_loadu_ps(at)));
    }
  }
}

}  // namespace
}  // namespace hone::kernels
