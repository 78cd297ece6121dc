// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Scores of int8 keys by AVX-512 VNNI dot products. Include after attention_tiles.h, inside the
// same target region.
//
// A query becomes integers of 15 bits, 128 high + low with two signed bytes, so that its rounding
// (2^-15 of its largest value) is far below that of the keys. The keys' codes become unsigned by
// adding 128; the sums begin with what that adds.
#pragma once

#include <immintrin.h>

namespace hone::kernels {
namespace {

// What a unit keeps for its scores of int8 keys; memory: floats [queries, padded / 2 + 16], aligned
// to 64 bytes.
class Int8Scores {
 public:
  Int8Scores(const float* q, std::int64_t queries, std::int64_t dim, float* memory)
      : dim_(dim), stride_((dim + 15) / 16 * 16) {
    high_ = reinterpret_cast<std::int8_t*>(memory);
    low_ = high_ + queries * stride_;
    starts_ = reinterpret_cast<std::int32_t*>(low_ + queries * stride_);
    scales_ = reinterpret_cast<float*>(starts_ + 2 * queries);
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
    constexpr int kChunks = kQueries > 4 ? 1 : 2;
    std::int64_t p = first / 16 * 16;
    for (; p + 16 * kChunks <= last; p += 16 * kChunks) {
      ScoreGroups<kQueries, kChunks>(t, p, ahead, scores + p);
    }
    for (; p < last; p += 16) ScoreGroups<kQueries, 1>(t, p, ahead, scores + p);
  }

 private:
  // sums += the products of each four unsigned codes and the same four signed bytes. As text, since
  // GCC 12 copies the sums of the intrinsic to other registers and back.
  static HONE_INLINE void AddDots(__m512i* sums, __m512i codes, const std::int8_t* four) {
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(*sums)
        : "v"(codes), "m"(*reinterpret_cast<const char (*)[4]>(four)));
  }

  // q has stride_ values, zeros behind dim.
  void Quantize(const float* q, std::int64_t t) {
    __m512 most = _mm512_setzero_ps(), nothing = _mm512_setzero_ps();
    for (std::int64_t j = 0; j < stride_; j += 16) {
      const __m512 x = _mm512_loadu_ps(q + j);
      most = _mm512_max_ps(_mm512_abs_ps(x), most);
      nothing = _mm512_fmadd_ps(x, _mm512_setzero_ps(), nothing);
    }
    const float largest = _mm512_reduce_max_ps(most);
    // NaN where a value is not finite.
    scales_[t] = largest * (1.0f / 16256) + Vec16{nothing}.ReduceAdd();
    const __m512 inverse = _mm512_set1_ps(largest < 1e-30f ? 0.0f : 16256.0f / largest);
    __m512i high_sum = _mm512_setzero_si512(), low_sum = _mm512_setzero_si512();
    for (std::int64_t j = 0; j < stride_; j += 16) {
      const __m512i n = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(q + j), inverse));
      const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(64)), 7);
      const __m512i low = _mm512_sub_epi32(n, _mm512_slli_epi32(high, 7));
      high_sum = _mm512_add_epi32(high_sum, high);
      low_sum = _mm512_add_epi32(low_sum, low);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(high_ + t * stride_ + j),
                       _mm512_cvtepi32_epi8(high));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(low_ + t * stride_ + j),
                       _mm512_cvtepi32_epi8(low));
    }
    starts_[2 * t] = _mm512_reduce_add_epi32(_mm512_slli_epi32(high_sum, 7));
    starts_[2 * t + 1] = _mm512_reduce_add_epi32(_mm512_slli_epi32(low_sum, 7));
  }

  template <int kQueries, int kChunks>
  HONE_INLINE void ScoreGroups(std::int64_t t, std::int64_t p, std::intptr_t ahead,
                               float* scores) const {
    const std::int64_t quads = (dim_ + 3) / 4;
    const std::int8_t* keys = codes_ + p * quads * 4;
    const std::int8_t* high = high_ + t * stride_;
    const std::int8_t* low = low_ + t * stride_;
    __m512i high_sums[kQueries][kChunks], low_sums[kQueries][kChunks];
    for (int i = 0; i < kQueries; ++i) {
      for (int c = 0; c < kChunks; ++c) {
        high_sums[i][c] = _mm512_set1_epi32(-starts_[2 * (t + i)]);
        low_sums[i][c] = _mm512_set1_epi32(-starts_[2 * (t + i) + 1]);
      }
    }
    for (std::int64_t d = 0; d < quads; ++d) {
      __m512i codes[kChunks];
      for (int c = 0; c < kChunks; ++c) {
        const std::int8_t* at = keys + (c * quads + d) * 64;
        FetchAhead(at, ahead);
        codes[c] = _mm512_xor_si512(_mm512_loadu_si512(at), _mm512_set1_epi8(-128));
      }
      for (int i = 0; i < kQueries; ++i) {
        for (int c = 0; c < kChunks; ++c) {
          AddDots(&high_sums[i][c], codes[c], high + i * stride_ + 4 * d);
          AddDots(&low_sums[i][c], codes[c], low + i * stride_ + 4 * d);
        }
      }
    }
    for (int c = 0; c < kChunks; ++c) {
      const __m512 key_scales = _mm512_loadu_ps(key_scales_ + p + 16 * c);
      for (int i = 0; i < kQueries; ++i) {
        const __m512 sum =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(high_sums[i][c]), _mm512_set1_ps(128.0f),
                            _mm512_cvtepi32_ps(low_sums[i][c]));
        const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(scales_[t + i]), key_scales);
        _mm512_storeu_ps(scores + i * kSegmentPositions + 16 * c, _mm512_mul_ps(sum, scale));
      }
    }
  }

  std::int64_t dim_, stride_;
  std::int8_t *high_, *low_;  // [queries, stride_]
  std::int32_t* starts_;      // [queries, 2] 128 times the sums of high and of low
  float* scales_;             // [queries]
  const std::int8_t* codes_ = nullptr;
  const float* key_scales_ = nullptr;
};

}  // namespace
}  // namespace hone::kernels
