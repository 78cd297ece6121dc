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
  static HONE_INLINE Vec16 ScaleByPow2(Vec16 p, Vec16 t) {
    const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(t.v), _mm512_set1_epi32(0x4b400000));
    const __m512i half = _mm512_srai_epi32(n, 1);
    const __m512i rest = _mm512_sub_epi32(n, half);
    const __m512i bias = _mm512_set1_epi32(127);
    const __m512 a = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(half, bias), 23));
    const __m512 b = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(rest, bias), 23));
    return {_mm512_mul_ps(_mm512_mul_ps(p.v, a), b)};
  }
  HONE_INLINE void StoreRounded(std::int32_t offset, std::int8_t* out) const {
    const __m512i n = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(offset));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(n));
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
  HONE_INLINE float ReduceMax() const { return _mm512_reduce_max_ps(v); }
};

}  // namespace
}  // namespace hone::kernels
