// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int4/gemm_int4.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avx512vnni)

namespace hone::kernels::gemm_int4 {
namespace {

// 12 integer and 12 float sums, two halves of the weights, a mask and a scale: 28 registers.
constexpr int kMaxRows = 12;
// Bytes ahead of the load that the panel is fetched when one row of x reads it once: the hardware
// stops at page ends.
constexpr std::int64_t kAhead = 4608;

template <typename Byte>
HONE_INLINE __m512i Broadcast4(const Byte* x) {
  std::int32_t four;
  std::memcpy(&four, x, 4);
  return _mm512_set1_epi32(four);
}

// acc[i] += sum of (code + 8) * x over one group of eight values. vpdpbusd takes the unsigned
// operand first, so the nibbles stay unsigned and x is broadcast from memory.
template <int kRows>
HONE_INLINE void AddGroup(const std::byte* codes, const std::int8_t* x, std::int64_t x_stride,
                          __m512i* acc) {
  if constexpr (kRows == 1) _mm_prefetch(codes + kAhead, _MM_HINT_T0);
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i pair = _mm512_loadu_si512(codes);
  const __m512i low = _mm512_and_si512(pair, mask);
  const __m512i high = _mm512_and_si512(_mm512_srli_epi32(pair, 4), mask);
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    acc[i] = _mm512_dpbusd_epi32(acc[i], low, Broadcast4(x + i * x_stride));
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    acc[i] = _mm512_dpbusd_epi32(acc[i], high, Broadcast4(x + i * x_stride + 4));
  }
}

// acc[i] += 16 times sum of code * (x + 128) over one group of eight values. The codes are left in
// the upper halves of their bytes, where they are signed.
template <int kRows>
HONE_INLINE void AddOffsetGroup(const std::byte* codes, const std::uint8_t* x,
                                std::int64_t x_stride, __m512i* acc) {
  if constexpr (kRows == 1) _mm_prefetch(codes + kAhead, _MM_HINT_T0);
  const __m512i upper = _mm512_set1_epi8(static_cast<char>(0xf0));
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  constexpr int kAndXor = 0x6a;  // (a & b) ^ c
  const __m512i pair = _mm512_loadu_si512(codes);
  const __m512i low = _mm512_ternarylogic_epi32(_mm512_slli_epi32(pair, 4), upper, sign, kAndXor);
  const __m512i high = _mm512_ternarylogic_epi32(pair, upper, sign, kAndXor);
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    acc[i] = _mm512_dpbusd_epi32(acc[i], Broadcast4(x + i * x_stride), low);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    acc[i] = _mm512_dpbusd_epi32(acc[i], Broadcast4(x + i * x_stride + 4), high);
  }
}

HONE_INLINE void StoreRow(__m512 y, const float* bias, std::int64_t n, float* out) {
  const auto mask = static_cast<__mmask16>((1U << n) - 1U);
  if (bias != nullptr) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, bias));
  _mm512_mask_storeu_ps(out, mask, y);
}

// With x + 128 and zero points to match, as XNNPACK on this instruction set: terms of a block are
// larger than with x, but round as they do there. kOnePart: blocks of 32.
template <int kRows, bool kOnePart>
void BlockTile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel, const float* bias,
               std::int64_t n, float* y) {
  const std::byte* scales = panel + kPanelHeadBytes;
  const std::byte* codes = scales + ScaleBytes(a.k, a.block);
  const std::uint8_t* x = a.x_offset + i0 * a.x_stride;
  const __m512 correction = _mm512_loadu_ps(panel);
  __m512 total[kRows];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    const auto zero = static_cast<float>(a.x_zero[i0 + i] + 128);
    total[i] = _mm512_mul_ps(correction, _mm512_set1_ps(-zero));
  }
  const std::int64_t parts = kOnePart ? 1 : a.block / kSumBlock;
  for (std::int64_t b = 0; b < a.k / a.block; ++b) {
    __m512i acc[kRows];
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) acc[i] = _mm512_setzero_si512();
    for (std::int64_t p = 0; p < parts; ++p) {
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
        AddOffsetGroup<kRows>(codes + g * 64, x + g * 8, a.x_stride, acc);
      }
      codes += 256;
      x += kSumBlock;
    }
    if constexpr (kRows == 1) _mm_prefetch(scales + kAhead / 8, _MM_HINT_T0);
    const __m512 scale =
        _mm512_mul_ps(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales))),
                      _mm512_set1_ps(1.0f / 16));
    scales += kPanelRows * 2;
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      total[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[i]), scale, total[i]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    StoreRow(_mm512_mul_ps(total[i], _mm512_set1_ps(a.x_scale[i0 + i])), bias, n,
             y + i * a.y_stride);
  }
}

template <int kRows>
void RowTile(const IntGemmArgs& a, std::int64_t i0, const std::byte* panel, const float* bias,
             std::int64_t n, float* y) {
  const __m512i w_sum = _mm512_loadu_si512(panel);
  const __m512 w_scale = _mm512_loadu_ps(panel + 64);
  const std::byte* codes = panel + kPanelHeadBytes;
  const std::int8_t* x = a.x + i0 * a.x_stride;
  __m512i acc[kRows];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) acc[i] = _mm512_set1_epi32(-8 * a.x_sum[i0 + i]);
  for (std::int64_t g = 0; g < CeilDiv(a.k, 8); ++g) {
    AddGroup<kRows>(codes + g * 64, x + g * 8, a.x_stride, acc);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    const __m512i zero = _mm512_set1_epi32(a.x_zero[i0 + i]);
    const __m512i sum = _mm512_sub_epi32(acc[i], _mm512_mullo_epi32(w_sum, zero));
    const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(a.x_scale[i0 + i]));
    StoreRow(_mm512_mul_ps(scaled, w_scale), bias, n, y + i * a.y_stride);
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
  } else if (a.block == kSumBlock) {
    BlockTile<kRows, true>(a, i0, panel, bias, n, y);
  } else {
    BlockTile<kRows, false>(a, i0, panel, bias, n, y);
  }
}

}  // namespace

void gemm_i8_i4_f32__12x16c8__avx512vnni(const IntGemmArgs& a) noexcept {
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
