// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Vec16 of vec16_portable.h in one AVX-512 register. Include inside HONE_TARGET_BEGIN(avx512vnni),
// after <immintrin.h>.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/target.h"

namespace hone::kernels {
namespace {

struct Vec16 {
  __m512 v;
  static constexpr int kGemmRows = 12;

  static HONE_INLINE Vec16 Set1(float x) { return {_mm512_set1_ps(x)}; }
  static HONE_INLINE Vec16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static HONE_INLINE Vec16 LoadF16(const std::uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static HONE_INLINE Vec16 LoadBf16(const std::uint16_t* p) {
    const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16))};
  }
  // 16 signed bytes.
  static HONE_INLINE Vec16 LoadI8(const std::int8_t* p) {
    return {_mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  // Signed byte kByte of each of 16 groups of four.
  template <int kByte>
  static HONE_INLINE Vec16 LoadI8Of4(const std::int8_t* p) {
    const __m512i x = _mm512_slli_epi32(_mm512_loadu_si512(p), 24 - 8 * kByte);
    return {_mm512_cvtepi32_ps(_mm512_srai_epi32(x, 24))};
  }
  HONE_INLINE void Store(float* p) const { _mm512_storeu_ps(p, v); }
  HONE_INLINE void StoreF16(std::uint16_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static HONE_INLINE Vec16 Add(Vec16 a, Vec16 b) { return {_mm512_add_ps(a.v, b.v)}; }
  static HONE_INLINE Vec16 Sub(Vec16 a, Vec16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static HONE_INLINE Vec16 Mul(Vec16 a, Vec16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static HONE_INLINE Vec16 Div(Vec16 a, Vec16 b) { return {_mm512_div_ps(a.v, b.v)}; }
  static HONE_INLINE Vec16 Min(Vec16 a, Vec16 b) { return {_mm512_min_ps(a.v, b.v)}; }
  static HONE_INLINE Vec16 Max(Vec16 a, Vec16 b) { return {_mm512_max_ps(a.v, b.v)}; }
  static HONE_INLINE Vec16 MulAdd(Vec16 a, Vec16 b, Vec16 c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
  }
  // a * b + c, rounded once on every target.
  static HONE_INLINE Vec16 Fused(Vec16 a, Vec16 b, Vec16 c) { return MulAdd(a, b, c); }
  // table[i & 31], i the low bits of each lane.
  static HONE_INLINE Vec16 Lookup32(const float* table, Vec16 i) {
    return {_mm512_permutex2var_ps(_mm512_loadu_ps(table), _mm512_castps_si512(i.v),
                                   _mm512_loadu_ps(table + 16))};
  }
  // 1.5 * 2^23 + floor of t - 1.5 * 2^18, for t near 1.5 * 2^18.
  static HONE_INLINE Vec16 FloorOf32nds(Vec16 t) {
    const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(t.v), _mm512_set1_epi32(0x48c00000));
    return {_mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_srai_epi32(n, 5), _mm512_set1_epi32(0x4b400000)))};
  }
  static HONE_INLINE Vec16 NegativeAbs(Vec16 x) {
    return {_mm512_or_ps(x.v, _mm512_set1_ps(-0.0f))};
  }
  // negative where x has its sign bit set, else other.
  static HONE_INLINE Vec16 IfNegative(Vec16 x, Vec16 negative, Vec16 other) {
    return {
        _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x.v)), other.v, negative.v)};
  }
  static HONE_INLINE Vec16 ScaleByPow2(Vec16 p, Vec16 t) {
    return {_mm512_scalef_ps(p.v, _mm512_sub_ps(t.v, _mm512_set1_ps(12582912.0f)))};
  }
  HONE_INLINE void StoreRounded(std::int32_t offset, std::int8_t* out) const {
    const __m512i n = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(offset));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(n));
  }
  // The 14-bit estimate and one Newton step, as XNNPACK: at most an ulp or two from 1 / sqrt(x).
  static HONE_INLINE float InverseSqrt(float x) {
    const __m128 v = _mm_set_ss(x);
    const float y = _mm_cvtss_f32(_mm_rsqrt14_ss(v, v));
    // An infinite x gives 0.
    return y == 0 ? 0 : y - (x * (y * y) - 1.0f) * (0.5f * y);
  }
  HONE_INLINE __m128 Fold() const {
    const __m256 s = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
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
  // out[c * out_stride + r] = row r [c] for 16 rows of 16 values.
  static HONE_INLINE void Transpose(const Vec16* rows, float* out, std::int64_t out_stride) {
    __m512 a[16], b[16];
    for (int i = 0; i < 16; i += 2) {
      a[i] = _mm512_unpacklo_ps(rows[i].v, rows[i + 1].v);
      a[i + 1] = _mm512_unpackhi_ps(rows[i].v, rows[i + 1].v);
    }
    // b[4 g + c]: column c of each quarter, rows 4 g .. 4 g + 3.
    for (int g = 0; g < 16; g += 4) {
      for (int h = 0; h < 2; ++h) {
        const __m512d low = _mm512_castps_pd(a[g + h]), high = _mm512_castps_pd(a[g + h + 2]);
        b[g + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
        b[g + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
      }
    }
    for (int c = 0; c < 4; ++c) {
      const __m512 even01 = _mm512_shuffle_f32x4(b[c], b[c + 4], 0x88);
      const __m512 odd01 = _mm512_shuffle_f32x4(b[c], b[c + 4], 0xdd);
      const __m512 even23 = _mm512_shuffle_f32x4(b[c + 8], b[c + 12], 0x88);
      const __m512 odd23 = _mm512_shuffle_f32x4(b[c + 8], b[c + 12], 0xdd);
      _mm512_storeu_ps(out + c * out_stride, _mm512_shuffle_f32x4(even01, even23, 0x88));
      _mm512_storeu_ps(out + (c + 4) * out_stride, _mm512_shuffle_f32x4(odd01, odd23, 0x88));
      _mm512_storeu_ps(out + (c + 8) * out_stride, _mm512_shuffle_f32x4(even01, even23, 0xdd));
      _mm512_storeu_ps(out + (c + 12) * out_stride, _mm512_shuffle_f32x4(odd01, odd23, 0xdd));
    }
  }
  HONE_INLINE float ReduceMax() const { return _mm512_reduce_max_ps(v); }
};

}  // namespace
}  // namespace hone::kernels
