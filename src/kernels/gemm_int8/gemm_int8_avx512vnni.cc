// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int8/gemm_int8.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avx512vnni)

namespace hone::kernels::gemm_int8 {
namespace {

// Times two panels: 16 sums. With 24 the compiler begins to spill.
constexpr int kMaxRows = 8;
// Up to here one spilling tile beats reading the panels twice.
constexpr int kFewRows = 12;
// Bytes ahead of the load that a panel is fetched: the hardware stops at page ends.
constexpr std::int64_t kAhead = 4608;

HONE_INLINE __m512i Broadcast4(const std::int8_t* x) {
  std::int32_t four;
  std::memcpy(&four, x, 4);
  return _mm512_set1_epi32(four);
}

// acc[p][i] += sum of (code + 128) * x over one group of four values; panels are step bytes apart.
template <int kPanels, int kRows, bool kFetch>
HONE_INLINE void AddGroup(const std::byte* codes, std::int64_t step, const std::int8_t* x,
                          std::int64_t x_stride, __m512i acc[kPanels][kRows]) {
  __m512i w[kPanels];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
    if constexpr (kFetch) _mm_prefetch(codes + p * step + kAhead, _MM_HINT_T0);
    w[p] = _mm512_loadu_si512(codes + p * step);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    const __m512i four = Broadcast4(x + i * x_stride);
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) acc[p][i] = _mm512_dpbusd_epi32(acc[p][i], w[p], four);
  }
}

HONE_INLINE void StoreRow(const IntGemmArgs& a, std::int64_t i, std::int64_t panel, __m512i sum) {
  const std::byte* head = a.w + panel * a.panel_bytes;
  const std::int64_t col = panel * kPanelRows;
  const auto mask = static_cast<__mmask16>((1U << std::min(kPanelRows, a.n - col)) - 1U);
  // sum w q = sum (w + 128) q - 128 sum q.
  sum = _mm512_sub_epi32(sum, _mm512_set1_epi32(128 * a.x_sum[i]));
  const __m512i zero = _mm512_set1_epi32(a.x_zero[i]);
  sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(_mm512_loadu_si512(head), zero));
  const __m512 w_scale = _mm512_loadu_ps(head + 64);
  __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(a.x_scale[i]));
  y = a.bias == nullptr ? _mm512_mul_ps(y, w_scale)
                        : _mm512_fmadd_ps(y, w_scale, _mm512_maskz_loadu_ps(mask, a.bias + col));
  _mm512_mask_storeu_ps(a.y + i * a.y_stride + col, mask, y);
}

// Rows i0 .. of x times kPanels panels, which are panel_step panels apart.
template <int kPanels, int kRows, bool kFetch>
void Tile(const IntGemmArgs& a, std::int64_t i0, std::int64_t panel, std::int64_t panel_step) {
  // Two chains hide the latency where few sums are in flight; they are exact in any order.
  constexpr int kChains = kRows * kPanels <= 6 ? 2 : 1;
  const std::byte* codes = a.w + panel * a.panel_bytes + kPanelHeadBytes;
  const std::int64_t step = panel_step * a.panel_bytes;
  const std::int8_t* x = a.x + i0 * a.x_stride;
  __m512i acc[kChains][kPanels][kRows];
#pragma GCC unroll 2
  for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) acc[c][p][i] = _mm512_setzero_si512();
    }
  }
  const std::int64_t groups = CeilDiv(a.k, 4);
  std::int64_t g = 0;
  for (; g + kChains <= groups; g += kChains) {
#pragma GCC unroll 2
    for (int c = 0; c < kChains; ++c) {
      AddGroup<kPanels, kRows, kFetch>(codes + (g + c) * 64, step, x + (g + c) * 4, a.x_stride,
                                       acc[c]);
    }
  }
  for (; g < groups; ++g) {
    AddGroup<kPanels, kRows, kFetch>(codes + g * 64, step, x + g * 4, a.x_stride, acc[0]);
  }
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      __m512i sum = acc[0][p][i];
      if constexpr (kChains == 2) sum = _mm512_add_epi32(sum, acc[1][p][i]);
      StoreRow(a, i0 + i, panel + p * panel_step, sum);
    }
  }
}

template <int kPanels, int kRows>
void TileUpTo(std::int64_t rows, const IntGemmArgs& a, std::int64_t i0, std::int64_t panel,
              std::int64_t panel_step) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      TileUpTo<kPanels, kRows - 1>(rows, a, i0, panel, panel_step);
      return;
    }
  }
  // The first rows bring the panel from memory.
  if (i0 == 0) {
    Tile<kPanels, kRows, true>(a, i0, panel, panel_step);
  } else {
    Tile<kPanels, kRows, false>(a, i0, panel, panel_step);
  }
}

}  // namespace

void gemm_i8_i8_f32__8x32c4__avx512vnni(const IntGemmArgs& a) noexcept {
  if (a.m <= 0) return;
  const std::int64_t panels = NumPanels(a.n);
  const std::int64_t pairs = panels / 2;
  // Few rows: one tile, two streams through memory, each forward. Many: tiles of equal height, two
  // neighbours in cache.
  const bool few = a.m <= kFewRows;
  const std::int64_t rows = few ? a.m : CeilDiv(a.m, CeilDiv(a.m, kMaxRows));
  for (std::int64_t p = 0; p < pairs; ++p) {
    for (std::int64_t i = 0; i < a.m; i += rows) {
      TileUpTo<2, kFewRows>(std::min(rows, a.m - i), a, i, few ? p : 2 * p, few ? pairs : 1);
    }
  }
  for (std::int64_t p = 2 * pairs; p < panels; ++p) {
    for (std::int64_t i = 0; i < a.m; i += rows) {
      TileUpTo<1, kFewRows>(std::min(rows, a.m - i), a, i, p, 0);
    }
  }
}

}  // namespace hone::kernels::gemm_int8

HONE_TARGET_END
