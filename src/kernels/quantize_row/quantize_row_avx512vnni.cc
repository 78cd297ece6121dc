// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <cstdint>

#include "kernels/quantize_row/quantize_row.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avx512vnni)

namespace hone::kernels::quantize_row {
namespace {

// The lanes of 64 values from j that are left of k.
HONE_INLINE __mmask64 Left(std::int64_t k, std::int64_t j) {
  const std::int64_t n = k - j;
  return n >= 64 ? ~__mmask64{0} : n <= 0 ? 0 : (__mmask64{1} << n) - 1;
}

// Values j + 16 part .. of the row; zeros for lanes that are not in the mask.
HONE_INLINE __m512 LoadPart(const float* x, __mmask64 mask, int part) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> (16 * part)), x + 16 * part);
}

Params RowParams(const Args& a) {
  __m512 lo[2], hi[2];
  for (int c = 0; c < 2; ++c) lo[c] = hi[c] = _mm512_setzero_ps();
  for (std::int64_t j = 0; j < a.k; j += 64) {
    const __mmask64 mask = Left(a.k, j);
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      // The second operand wins where the first is NaN.
      const __m512 x = LoadPart(a.x + j, mask, part);
      lo[part % 2] = _mm512_min_ps(x, lo[part % 2]);
      hi[part % 2] = _mm512_max_ps(x, hi[part % 2]);
    }
  }
  return ParamsFromRange(_mm512_reduce_min_ps(_mm512_min_ps(lo[0], lo[1])),
                         _mm512_reduce_max_ps(_mm512_max_ps(hi[0], hi[1])));
}

void BlockOffsets(const Args& a) {
  const __m256i ones = _mm256_set1_epi8(1);
  for (std::int64_t j = 0; j < a.padded; j += 32) {
    const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a.q + j));
    const __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), ones, q);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
    a.block_offsets[j / 32] = -8 * _mm_cvtsi128_si32(sum);
  }
}

}  // namespace

void quantize_row_f32_i8__avx512vnni(Args& a) noexcept {
  a.params = RowParams(a);
  const std::int32_t zero_point = a.params.zero_point;
  const __m512 inverse = _mm512_set1_ps(a.params.inverse);
  const __m512 most = _mm512_set1_ps(static_cast<float>(127 - zero_point));
  const __m512 least = _mm512_set1_ps(static_cast<float>(-128 - zero_point));
  const __m512i zero = _mm512_set1_epi32(zero_point);
  const __m512i ones = _mm512_set1_epi8(1);
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  // Packing works in quarters of a register: this puts fours of values back in order.
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  __m512i sums = _mm512_setzero_si512();
  for (std::int64_t j = 0; j < a.padded; j += 64) {
    const __mmask64 mask = Left(a.k, j);
    __m512i n[4];
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      const __m512 x = _mm512_mul_ps(LoadPart(a.x + j, mask, part), inverse);
      n[part] =
          _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_max_ps(_mm512_min_ps(x, most), least)), zero);
    }
    const __m512i packed =
        _mm512_packs_epi16(_mm512_packs_epi32(n[0], n[1]), _mm512_packs_epi32(n[2], n[3]));
    const __m512i q = _mm512_maskz_mov_epi8(mask, _mm512_permutexvar_epi32(order, packed));
    _mm512_storeu_si512(a.q + j, q);
    if (a.q_offset != nullptr) _mm512_storeu_si512(a.q_offset + j, _mm512_xor_si512(q, sign));
    sums = _mm512_dpbusd_epi32(sums, ones, q);
  }
  a.sum = _mm512_reduce_add_epi32(sums);
  if (a.block_offsets != nullptr) BlockOffsets(a);
}

}  // namespace hone::kernels::quantize_row

HONE_TARGET_END
