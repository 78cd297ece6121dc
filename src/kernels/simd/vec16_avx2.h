// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Vec16 of vec16_portable.h in two AVX2 registers. Include inside HONE_TARGET_BEGIN(avx2), after
// <immintrin.h>.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/target.h"

namespace hone::kernels {
namespace {

struct Vec16 {
  __m256 lo, hi;
  static constexpr int kGemmRows = 3;

  static HONE_INLINE Vec16 Set1(float x) {
    const __m256 s = _mm256_set1_ps(x);
    return {s, s};
  }
  static HONE_INLINE Vec16 Load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  static HONE_INLINE Vec16 LoadF16(const std::uint16_t* p) {
    const auto* h = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
  }
  static HONE_INLINE Vec16 LoadBf16(const std::uint16_t* p) {
    const auto* h = reinterpret_cast<const __m128i*>(p);
    const __m256i a = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(h)), 16);
    const __m256i b = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(h + 1)), 16);
    return {_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)};
  }
  static HONE_INLINE Vec16 LoadI8(const std::int8_t* p) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
  }
  template <int kByte>
  static HONE_INLINE Vec16 LoadI8Of4(const std::int8_t* p) {
    const auto* quads = reinterpret_cast<const __m256i*>(p);
    const __m256i a = _mm256_slli_epi32(_mm256_loadu_si256(quads), 24 - 8 * kByte);
    const __m256i b = _mm256_slli_epi32(_mm256_loadu_si256(quads + 1), 24 - 8 * kByte);
    return {_mm256_cvtepi32_ps(_mm256_srai_epi32(a, 24)),
            _mm256_cvtepi32_ps(_mm256_srai_epi32(b, 24))};
  }
  HONE_INLINE void Store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  HONE_INLINE void StoreF16(std::uint16_t* p) const {
    auto* h = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(h, _mm256_cvtps_ph(lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128(h + 1, _mm256_cvtps_ph(hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static HONE_INLINE Vec16 Add(Vec16 a, Vec16 b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
  }
  static HONE_INLINE Vec16 Sub(Vec16 a, Vec16 b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
  }
  static HONE_INLINE Vec16 Mul(Vec16 a, Vec16 b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
  }
  static HONE_INLINE Vec16 Div(Vec16 a, Vec16 b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
  }
  static HONE_INLINE Vec16 Min(Vec16 a, Vec16 b) {
    return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
  }
  static HONE_INLINE Vec16 Max(Vec16 a, Vec16 b) {
    return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
  }
  static HONE_INLINE Vec16 MulAdd(Vec16 a, Vec16 b, Vec16 c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  static HONE_INLINE Vec16 Fused(Vec16 a, Vec16 b, Vec16 c) { return MulAdd(a, b, c); }
  static HONE_INLINE Vec16 Lookup32(const float* table, Vec16 i) {
    const __m256i mask = _mm256_set1_epi32(31);
    return {_mm256_i32gather_ps(table, _mm256_and_si256(_mm256_castps_si256(i.lo), mask), 4),
            _mm256_i32gather_ps(table, _mm256_and_si256(_mm256_castps_si256(i.hi), mask), 4)};
  }
  static HONE_INLINE __m256 FloorHalf(__m256 t) {
    const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(0x48c00000));
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_srai_epi32(n, 5), _mm256_set1_epi32(0x4b400000)));
  }
  static HONE_INLINE Vec16 FloorOf32nds(Vec16 t) { return {FloorHalf(t.lo), FloorHalf(t.hi)}; }
  static HONE_INLINE Vec16 NegativeAbs(Vec16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(x.lo, sign), _mm256_or_ps(x.hi, sign)};
  }
  static HONE_INLINE Vec16 IfNegative(Vec16 x, Vec16 negative, Vec16 other) {
    return {_mm256_blendv_ps(other.lo, negative.lo, x.lo),
            _mm256_blendv_ps(other.hi, negative.hi, x.hi)};
  }
  static HONE_INLINE __m256 ScaleHalf(__m256 p, __m256 t) {
    const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(0x4b400000));
    const __m256i half = _mm256_srai_epi32(n, 1);
    const __m256i rest = _mm256_sub_epi32(n, half);
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    const __m256 b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(p, a), b);
  }
  static HONE_INLINE Vec16 ScaleByPow2(Vec16 p, Vec16 t) {
    return {ScaleHalf(p.lo, t.lo), ScaleHalf(p.hi, t.hi)};
  }
  HONE_INLINE void StoreRounded(std::int32_t offset, std::int8_t* out) const {
    const __m256i o = _mm256_set1_epi32(offset);
    const __m256i a = _mm256_add_epi32(_mm256_cvtps_epi32(lo), o);
    const __m256i b = _mm256_add_epi32(_mm256_cvtps_epi32(hi), o);
    // packs works per 128-bit half: put the quarters back in order before the last step.
    const __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                     _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
  }
  static HONE_INLINE float InverseSqrt(float x) {
    return _mm_cvtss_f32(_mm_div_ss(_mm_set_ss(1.0f), _mm_sqrt_ss(_mm_set_ss(x))));
  }
  HONE_INLINE __m128 Fold() const {
    const __m256 s = _mm256_add_ps(lo, hi);
    return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  }
  HONE_INLINE float ReduceAdd() const {
    const __m128 s = Fold();
    const __m128 t = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_shuffle_ps(t, t, 1)));
  }
  static HONE_INLINE void ReduceAdd4(Vec16 a, Vec16 b, Vec16 c, Vec16 d, float* out) {
    const __m128 x = a.Fold(), y = b.Fold(), z = c.Fold(), w = d.Fold();
    const __m128 s = _mm_add_ps(_mm_unpacklo_ps(x, y), _mm_unpackhi_ps(x, y));
    const __m128 t = _mm_add_ps(_mm_unpacklo_ps(z, w), _mm_unpackhi_ps(z, w));
    _mm_storeu_ps(out, _mm_add_ps(_mm_movelh_ps(s, t), _mm_movehl_ps(t, s)));
  }
  // Rows 0 .. 7 of eight columns.
  static HONE_INLINE void Transpose8(const __m256* rows, float* out, std::int64_t out_stride) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
      a[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
      a[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int g = 0; g < 8; g += 4) {
      for (int h = 0; h < 2; ++h) {
        b[g + 2 * h] = _mm256_shuffle_ps(a[g + h], a[g + h + 2], 0x44);
        b[g + 2 * h + 1] = _mm256_shuffle_ps(a[g + h], a[g + h + 2], 0xee);
      }
    }
    for (int c = 0; c < 4; ++c) {
      _mm256_storeu_ps(out + c * out_stride, _mm256_permute2f128_ps(b[c], b[c + 4], 0x20));
      _mm256_storeu_ps(out + (c + 4) * out_stride, _mm256_permute2f128_ps(b[c], b[c + 4], 0x31));
    }
  }
  static HONE_INLINE void Transpose(const Vec16* rows, float* out, std::int64_t out_stride) {
    __m256 low[8], high[8];
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 8; ++i) {
        low[i] = rows[8 * half + i].lo;
        high[i] = rows[8 * half + i].hi;
      }
      Transpose8(low, out + 8 * half, out_stride);
      Transpose8(high, out + 8 * out_stride + 8 * half, out_stride);
    }
  }
  HONE_INLINE float ReduceMax() const {
    const __m256 s = _mm256_max_ps(lo, hi);
    __m128 t = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_max_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_max_ss(t, _mm_shuffle_ps(t, t, 1)));
  }
};

}  // namespace
}  // namespace hone::kernels
