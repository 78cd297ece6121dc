// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Scores of int8 keys by AVX2 products of 16-bit pairs. Include after attention_tiles.h, inside the
// same target region.
//
// A query becomes integers of 15 bits and a sign, so that its rounding (2^-16 of its largest value)
// is far below that of the keys. Sums are exact.
#pragma once

#include <immintrin.h>

namespace hone::kernels {
namespace {

// What a unit keeps for its scores of int8 keys; memory: floats [queries, padded / 2 + 16].
class Int8Scores {
 public:
  Int8Scores(const float* q, std::int64_t queries, std::int64_t dim, float* memory)
      : dim_(dim),
        stride_((dim + 15) / 16 * 16),
        // No sum of dim products leaves 32 bits.
        most_(static_cast<float>(
            std::min<std::int64_t>(32767, std::numeric_limits<std::int32_t>::max() / 127 / dim))) {
    queries_ = reinterpret_cast<std::int16_t*>(memory);
    scales_ = reinterpret_cast<float*>(queries_ + queries * stride_);
    for (std::int64_t t = 0; t < queries; ++t) Quantize(q + t * stride_, t);
  }

  void StartPage(const std::byte* piece, std::int64_t /*used*/, float* /*tile*/) {
    codes_ = reinterpret_cast<const std::int8_t*>(piece);
    key_scales_ = reinterpret_cast<const float*>(piece + attention::Int8CodeBytes(dim_));
  }

  // Scores of queries from t on and positions [first, last) of the page, and up to 15 more.
  template <int kQueries>
  void Score(std::int64_t t, std::int64_t first, std::int64_t last, std::intptr_t ahead,
             float* scores) const {
    for (std::int64_t p = first / 16 * 16; p < last; p += 16) {
      ScoreGroup<kQueries>(t, p, ahead, scores + p);
    }
  }

 private:
  // q has stride_ values, zeros behind dim. Of each four, 0 and 2 come before 1 and 3.
  void Quantize(const float* q, std::int64_t t) {
    Vec16 most = Vec16::Set1(0), nothing = Vec16::Set1(0);
    for (std::int64_t j = 0; j < stride_; j += 16) {
      const Vec16 x = Vec16::Load(q + j);
      most = Vec16::Max(Vec16::Max(x, Vec16::Sub(Vec16::Set1(0), x)), most);
      nothing = Vec16::MulAdd(x, Vec16::Set1(0), nothing);
    }
    const float largest = most.ReduceMax();
    // NaN where a value is not finite.
    scales_[t] = largest / most_ + nothing.ReduceAdd();
    const Vec16 inverse = Vec16::Set1(largest < 1e-30f ? 0.0f : most_ / largest);
    for (std::int64_t j = 0; j < stride_; j += 16) {
      const Vec16 x = Vec16::Mul(Vec16::Load(q + j), inverse);
      __m256i n = _mm256_packs_epi32(_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi));
      n = _mm256_permute4x64_epi64(n, 0xd8);
      n = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(n, 0xd8), 0xd8);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(queries_ + t * stride_ + j), n);
    }
  }

  static HONE_INLINE __m256i Pair(const std::int16_t* two) {
    std::int32_t pair;
    std::memcpy(&pair, two, 4);
    return _mm256_set1_epi32(pair);
  }

  template <int kQueries>
  HONE_INLINE void ScoreGroup(std::int64_t t, std::int64_t p, std::intptr_t ahead,
                              float* scores) const {
    const std::int64_t quads = (dim_ + 3) / 4;
    const std::int8_t* keys = codes_ + p * quads * 4;
    const std::int16_t* queries = queries_ + t * stride_;
    __m256i sums[kQueries][2];
    for (int i = 0; i < kQueries; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_si256();
    for (std::int64_t d = 0; d < quads; ++d) {
      const auto* at = reinterpret_cast<const __m256i*>(keys + d * 64);
      FetchAhead(at, ahead);
      __m256i even[2], odd[2];
      for (int h = 0; h < 2; ++h) {
        const __m256i codes = _mm256_loadu_si256(at + h);
        even[h] = _mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 8);
        odd[h] = _mm256_srai_epi16(codes, 8);
      }
      for (int i = 0; i < kQueries; ++i) {
        const std::int16_t* four = queries + i * stride_ + 4 * d;
        const __m256i first = Pair(four), second = Pair(four + 2);
        for (int h = 0; h < 2; ++h) {
          const __m256i product = _mm256_madd_epi16(even[h], first);
          sums[i][h] = _mm256_add_epi32(
              sums[i][h], _mm256_add_epi32(product, _mm256_madd_epi16(odd[h], second)));
        }
      }
    }
    for (int h = 0; h < 2; ++h) {
      const __m256 key_scales = _mm256_loadu_ps(key_scales_ + p + 8 * h);
      for (int i = 0; i < kQueries; ++i) {
        const __m256 scale = _mm256_mul_ps(_mm256_set1_ps(scales_[t + i]), key_scales);
        _mm256_storeu_ps(scores + i * kSegmentPositions + 8 * h,
                         _mm256_mul_ps(_mm256_cvtepi32_ps(sums[i][h]), scale));
      }
    }
  }

  std::int64_t dim_, stride_;
  float most_;             // the integer of a query's largest value
  std::int16_t* queries_;  // [queries, stride_]
  float* scales_;          // [queries]
  const std::int8_t* codes_ = nullptr;
  const float* key_scales_ = nullptr;
};

}  // namespace
}  // namespace hone::kernels
