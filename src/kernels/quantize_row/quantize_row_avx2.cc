// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/quantize_row/quantize_row.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avx2)

namespace hone::kernels::quantize_row {
namespace {

HONE_INLINE float ReduceMax(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

Params RowParams(const float* x, std::int64_t k) {
  __m256 lo = _mm256_setzero_ps(), hi = lo;
  float rest[8] = {};
  for (std::int64_t j = 0; j < k; j += 8) {
    if (j + 8 > k) std::memcpy(rest, x + j, static_cast<std::size_t>(k - j) * sizeof(float));
    // The second operand wins where the first is NaN.
    const __m256 v = _mm256_loadu_ps(j + 8 > k ? rest : x + j);
    lo = _mm256_min_ps(v, lo);
    hi = _mm256_max_ps(v, hi);
  }
  return ParamsFromRange(-ReduceMax(_mm256_sub_ps(_mm256_setzero_ps(), lo)), ReduceMax(hi));
}

// 32 values to codes.
HONE_INLINE __m256i Codes(const float* x, const Params& params) {
  const __m256 inverse = _mm256_set1_ps(params.inverse);
  const __m256 most = _mm256_set1_ps(static_cast<float>(127 - params.zero_point));
  const __m256 least = _mm256_set1_ps(static_cast<float>(-128 - params.zero_point));
  const __m256i zero = _mm256_set1_epi32(params.zero_point);
  __m256i n[4];
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
    const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + 8 * part), inverse);
    n[part] =
        _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(v, most), least)), zero);
  }
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
  // Packing works in halves of a register: this puts fours of values back in order.
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

}  // namespace

void quantize_row_f32_i8__avx2(Args& a) noexcept {
  a.params = RowParams(a.x, a.k);
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
  a.sum = 0;
  for (std::int64_t j = 0; j < a.padded; j += 32) {
    __m256i q = _mm256_setzero_si256();
    if (j + 32 <= a.k) {
      q = Codes(a.x + j, a.params);
    } else if (j < a.k) {
      const auto n = static_cast<std::size_t>(a.k - j);
      float rest[32] = {};
      std::int8_t codes[32];
      std::memcpy(rest, a.x + j, n * sizeof(float));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), Codes(rest, a.params));
      std::memset(codes + n, 0, 32 - n);
      q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(a.q + j), q);
    const __m256i offset = _mm256_xor_si256(q, sign);
    if (a.q_offset != nullptr) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(a.q_offset + j), offset);
    }
    // Sums of eight codes + 128 each.
    const __m256i eights = _mm256_sad_epu8(offset, _mm256_setzero_si256());
    const __m128i two =
        _mm_add_epi32(_mm256_castsi256_si128(eights), _mm256_extracti128_si256(eights, 1));
    const std::int32_t sum = _mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 2) - 32 * 128;
    if (a.block_offsets != nullptr) a.block_offsets[j / 32] = -8 * sum;
    a.sum += sum;
  }
}

}  // namespace hone::kernels::quantize_row

HONE_TARGET_END
