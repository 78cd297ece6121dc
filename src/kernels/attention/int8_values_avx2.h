// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The AVX2 part of int8_values_integer.h: products of 16-bit pairs. Include after attention_body.h,
// inside the same target region.
#pragma once

#include <immintrin.h>

namespace hone::kernels {
namespace {

// Columns of values that SumColumns takes at once.
constexpr std::int64_t kSumColumns = 16;

// All bits of the lanes 8 part .. of a page that are seen.
HONE_INLINE __m256i SeenLanes(const Range& seen, int part) {
  const __m256i lane =
      _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(8 * part));
  const __m256i first = _mm256_set1_epi32(static_cast<int>(seen.first) - 1);
  const __m256i last = _mm256_set1_epi32(static_cast<int>(seen.last));
  return _mm256_and_si256(_mm256_cmpgt_epi32(lane, first), _mm256_cmpgt_epi32(last, lane));
}

// integers[kPagePositions] times the result are the probabilities times the scales; 0 for positions
// that are not seen. The result is NaN where a weight is not finite.
float QuantizeWeights(const Range& seen, const float* probabilities, const float* scales,
                      std::int16_t* integers) {
  __m256 weights[8];
  Vec16 most = Vec16::Set1(0), nothing = Vec16::Set1(0);
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
#pragma GCC unroll 2
    for (int part = 2 * c; part < 2 * c + 2; ++part) {
      const __m256i mask = SeenLanes(seen, part);
      weights[part] = _mm256_mul_ps(_mm256_maskload_ps(probabilities + 8 * part, mask),
                                    _mm256_maskload_ps(scales + 8 * part, mask));
    }
    const Vec16 both = {weights[2 * c], weights[2 * c + 1]};
    most = Vec16::Max(both, most);
    nothing = Vec16::MulAdd(both, Vec16::Set1(0), nothing);
  }
  const float largest = most.ReduceMax();
  const __m256 inverse = _mm256_set1_ps(largest < 1e-30f ? 0.0f : 32767.0f / largest);
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(weights[2 * c], inverse));
    const __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(weights[2 * c + 1], inverse));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(integers + 16 * c),
                        _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8));
  }
  return largest * (1.0f / 32767) + nothing.ReduceAdd();
}

// Columns j .. of a row as 16 bits; n of them are there, zeros follow.
template <bool kWhole>
HONE_INLINE __m256i LoadColumns(const std::int8_t* row, std::int64_t n) {
  if constexpr (kWhole) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)));
  } else {
    alignas(16) std::int8_t some[16] = {};
    std::memcpy(some, row, static_cast<std::size_t>(n));
    return _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(some)));
  }
}

template <int kQueries, bool kWhole>
HONE_INLINE void SumColumns(const Int8Weights& weights, std::int64_t t, const Range& seen,
                            const std::int8_t* codes, std::intptr_t ahead, std::int64_t dim,
                            std::int64_t j, float* v) {
  const std::int64_t padded = (dim + 15) / 16 * 16;
  __m256i sums[kQueries][2];
  for (int i = 0; i < kQueries; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_si256();
  for (std::int64_t p = seen.first / 2 * 2; p < seen.last; p += 2) {
    const std::int8_t* row = codes + p * dim + j;
    FetchAhead(row, ahead);
    FetchAhead(row + dim, ahead);
    const __m256i a = LoadColumns<kWhole>(row, dim - j);
    const __m256i b = LoadColumns<kWhole>(row + dim, dim - j);
    // Pairs of positions: columns 0 to 3 of each eight in one vector, 4 to 7 in the other.
    const __m256i low = _mm256_unpacklo_epi16(a, b), high = _mm256_unpackhi_epi16(a, b);
    for (int i = 0; i < kQueries; ++i) {
      const __m256i pair = _mm256_set1_epi32(weights.Pair(t + i, p));
      sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(low, pair));
      sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(high, pair));
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    const Vec16 sum = {_mm256_cvtepi32_ps(_mm256_permute2x128_si256(sums[i][0], sums[i][1], 0x20)),
                       _mm256_cvtepi32_ps(_mm256_permute2x128_si256(sums[i][0], sums[i][1], 0x31))};
    float* at = v + i * padded + j;
    Vec16::MulAdd(sum, Vec16::Set1(weights.scale(t + i)), Vec16::Load(at)).Store(at);
  }
}

}  // namespace
}  // namespace hone::kernels
