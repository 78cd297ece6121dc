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

// Rows of x in one pass over a packed panel; rows that two panels share in one pass.
constexpr int kMaxRows = 12;
constexpr int kPairRows = 6;
// From here on, codes are unpacked once for all rows instead of once a tile.
constexpr std::int64_t kUnpackRows = 48;
// Bytes ahead of the load that a panel is fetched: the hardware stops at page ends.
constexpr std::int64_t kAhead = 4608;

template <typename Byte>
HONE_INLINE __m512i Broadcast4(const Byte* x) {
  std::int32_t four;
  std::memcpy(&four, x, 4);
  return _mm512_set1_epi32(four);
}

HONE_INLINE void Fetch(const std::byte* p) { _mm_prefetch(p, _MM_HINT_T0); }

HONE_INLINE void StoreRow(__m512 y, const float* bias, std::int64_t n, float* out) {
  const auto mask = static_cast<__mmask16>((1U << n) - 1U);
  if (bias != nullptr) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, bias));
  _mm512_mask_storeu_ps(out, mask, y);
}

// Columns of the panel that begins at column 16 * panel.
HONE_INLINE std::int64_t PanelCols(const IntGemmArgs& a, std::int64_t panel) {
  return std::min(kPanelRows, a.n - panel * kPanelRows);
}

// --- Block scales ---
// With x + 128 and zero points to match, as XNNPACK on this instruction set: terms of a block are
// larger than with x, but round as they do there. The codes stay in the upper halves of their
// bytes, where they are signed, so sums are 16 times too large; the scales make up for it.

struct Nibbles {
  __m512i low, high;
};

HONE_INLINE Nibbles SignedNibbles(const std::byte* codes) {
  const __m512i upper = _mm512_set1_epi8(static_cast<char>(0xf0));
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  constexpr int kAndXor = 0x6a;  // (a & b) ^ c
  const __m512i pair = _mm512_loadu_si512(codes);
  return {_mm512_ternarylogic_epi32(_mm512_slli_epi32(pair, 4), upper, sign, kAndXor),
          _mm512_ternarylogic_epi32(pair, upper, sign, kAndXor)};
}

HONE_INLINE __m512 BlockScale(const std::byte* scales) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales));
  return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(1.0f / 16));
}

HONE_INLINE __m512 Correction(const IntGemmArgs& a, const std::byte* panel, std::int64_t i) {
  const auto zero = static_cast<float>(a.x_zero[i] + 128);
  return _mm512_mul_ps(_mm512_loadu_ps(panel), _mm512_set1_ps(-zero));
}

// Rows i0 .. of x times kPanels packed panels, which are panel_step panels apart. kOnePart: blocks
// of 32. kFetch: the panels come from memory.
template <int kPanels, int kRows, bool kOnePart, bool kFetch>
void BlockTile(const IntGemmArgs& a, std::int64_t i0, std::int64_t panel, std::int64_t panel_step) {
  const std::byte* head = a.w + panel * a.panel_bytes;
  const std::int64_t step = panel_step * a.panel_bytes;
  const std::byte* scales = head + kPanelHeadBytes;
  const std::byte* codes = scales + ScaleBytes(a.k, a.block);
  const std::uint8_t* x = a.x_offset + i0 * a.x_stride;
  // Walks over all bytes of a panel, its scales too: lines that are left out cost a wait each.
  const std::byte* ahead = head + kAhead;
  __m512 total[kPanels][kRows];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) total[p][i] = Correction(a, head + p * step, i0 + i);
  }
  const std::int64_t parts = kOnePart ? 1 : a.block / kSumBlock;
  for (std::int64_t b = 0; b < a.k / a.block; ++b) {
    __m512i acc[kPanels][kRows];
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) acc[p][i] = _mm512_setzero_si512();
    }
    for (std::int64_t part = 0; part < parts; ++part) {
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p) {
          const std::byte* at = codes + p * step + g * 64;
          if constexpr (kFetch) Fetch(ahead + p * step + g * 64);
          const Nibbles w = SignedNibbles(at);
#pragma GCC unroll 12
          for (int i = 0; i < kRows; ++i) {
            acc[p][i] =
                _mm512_dpbusd_epi32(acc[p][i], Broadcast4(x + i * a.x_stride + g * 8), w.low);
          }
#pragma GCC unroll 12
          for (int i = 0; i < kRows; ++i) {
            acc[p][i] =
                _mm512_dpbusd_epi32(acc[p][i], Broadcast4(x + i * a.x_stride + g * 8 + 4), w.high);
          }
        }
      }
      codes += 256;
      ahead += 256;
      x += kSumBlock;
    }
    if constexpr (kFetch) {
      if ((b & 1) != 0) {
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p) Fetch(ahead + p * step);
      }
    }
    ahead += 32;
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      const __m512 scale = BlockScale(scales + p * step);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        total[p][i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[p][i]), scale, total[p][i]);
      }
    }
    scales += kPanelRows * 2;
  }
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
    const std::int64_t col = (panel + p * panel_step) * kPanelRows;
    const float* bias = a.bias == nullptr ? nullptr : a.bias + col;
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      StoreRow(_mm512_mul_ps(total[p][i], _mm512_set1_ps(a.x_scale[i0 + i])), bias,
               PanelCols(a, panel + p * panel_step), a.y + (i0 + i) * a.y_stride + col);
    }
  }
}

// Codes as signed bytes (times 16) and scales as floats of kPanels neighbours, for some blocks.
constexpr int kUnpackedDepth = 512;
template <int kPanels>
struct Unpacked {
  alignas(64) std::byte codes[kUnpackedDepth / 4][kPanels][64];
  alignas(64) float scales[kUnpackedDepth / kSumBlock][kPanels][kPanelRows];
};

template <int kPanels>
void Unpack(const IntGemmArgs& a, const std::byte* panel, std::int64_t first_block,
            std::int64_t blocks, Unpacked<kPanels>& out) {
  const std::int64_t groups = a.block / 8;
  const std::byte* scales = panel + kPanelHeadBytes + first_block * kPanelRows * 2;
  const std::byte* codes =
      panel + kPanelHeadBytes + ScaleBytes(a.k, a.block) + first_block * groups * 64;
  for (int p = 0; p < kPanels; ++p) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      if ((b & 1) == 0) Fetch(scales + b * kPanelRows * 2 + kAhead);
      _mm512_store_ps(out.scales[b][p], BlockScale(scales + b * kPanelRows * 2));
    }
    for (std::int64_t g = 0; g < blocks * groups; ++g) {
      Fetch(codes + g * 64 + kAhead);
      const Nibbles w = SignedNibbles(codes + g * 64);
      _mm512_store_si512(out.codes[2 * g][p], w.low);
      _mm512_store_si512(out.codes[2 * g + 1][p], w.high);
    }
    scales += a.panel_bytes;
    codes += a.panel_bytes;
  }
}

// totals [kRows][kPanels][16] += terms of the unpacked blocks.
template <int kPanels, int kRows>
void UnpackedTile(const Unpacked<kPanels>& w, std::int64_t blocks, std::int64_t parts,
                  const std::uint8_t* x, std::int64_t x_stride, float* totals) {
  __m512 total[kPanels][kRows];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      total[p][i] = _mm512_load_ps(totals + (i * kPanels + p) * kPanelRows);
    }
  }
  const std::byte* codes = w.codes[0][0];
  for (std::int64_t b = 0; b < blocks; ++b) {
    __m512i acc[kPanels][kRows];
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) acc[p][i] = _mm512_setzero_si512();
    }
    for (std::int64_t part = 0; part < parts; ++part) {
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g) {
        __m512i v[kPanels];
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p) v[p] = _mm512_load_si512(codes + (g * kPanels + p) * 64);
#pragma GCC unroll 12
        for (int i = 0; i < kRows; ++i) {
          const __m512i four = Broadcast4(x + i * x_stride + g * 4);
#pragma GCC unroll 2
          for (int p = 0; p < kPanels; ++p) {
            acc[p][i] = _mm512_dpbusd_epi32(acc[p][i], four, v[p]);
          }
        }
      }
      codes += 8 * kPanels * 64;
      x += kSumBlock;
    }
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      const __m512 scale = _mm512_load_ps(w.scales[b][p]);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        total[p][i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[p][i]), scale, total[p][i]);
      }
    }
  }
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      _mm512_store_ps(totals + (i * kPanels + p) * kPanelRows, total[p][i]);
    }
  }
}

template <int kPanels, int kRows>
void UnpackedUpTo(std::int64_t rows, const Unpacked<kPanels>& w, std::int64_t blocks,
                  std::int64_t parts, const std::uint8_t* x, std::int64_t x_stride, float* totals) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      UnpackedUpTo<kPanels, kRows - 1>(rows, w, blocks, parts, x, x_stride, totals);
      return;
    }
  }
  UnpackedTile<kPanels, kRows>(w, blocks, parts, x, x_stride, totals);
}

// Up to kPassRows rows of x, whole tiles of 12, times kPanels neighbours.
constexpr std::int64_t kPassRows = 288;
template <int kPanels>
void ManyRows(const IntGemmArgs& a, std::int64_t i0, std::int64_t rows, std::int64_t panel) {
  constexpr int kRows = kPanels == 2 ? kPairRows : kMaxRows;
  Unpacked<kPanels> w;
  alignas(64) float totals[kPassRows * kPanels * kPanelRows];
  const std::byte* head = a.w + panel * a.panel_bytes;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (int p = 0; p < kPanels; ++p) {
      _mm512_store_ps(totals + (i * kPanels + p) * kPanelRows,
                      Correction(a, head + p * a.panel_bytes, i0 + i));
    }
  }
  const std::int64_t blocks = a.k / a.block, chunk = kUnpackedDepth / a.block;
  for (std::int64_t b = 0; b < blocks; b += chunk) {
    const std::int64_t some = std::min(chunk, blocks - b);
    Unpack<kPanels>(a, head, b, some, w);
    for (std::int64_t i = 0; i < rows; i += kRows) {
      UnpackedUpTo<kPanels, kRows>(rows - i, w, some, a.block / kSumBlock,
                                   a.x_offset + (i0 + i) * a.x_stride + b * a.block, a.x_stride,
                                   totals + i * kPanels * kPanelRows);
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const __m512 x_scale = _mm512_set1_ps(a.x_scale[i0 + i]);
    for (int p = 0; p < kPanels; ++p) {
      const std::int64_t col = (panel + p) * kPanelRows;
      StoreRow(_mm512_mul_ps(_mm512_load_ps(totals + (i * kPanels + p) * kPanelRows), x_scale),
               a.bias == nullptr ? nullptr : a.bias + col, PanelCols(a, panel + p),
               a.y + (i0 + i) * a.y_stride + col);
    }
  }
}

// --- One scale a row ---

// acc[i] += sum of (code + 8) * x over one group of eight values. vpdpbusd takes the unsigned
// operand first, so the nibbles stay unsigned and x is broadcast from memory.
template <int kRows>
HONE_INLINE void AddGroup(const std::byte* codes, const std::int8_t* x, std::int64_t x_stride,
                          __m512i* acc) {
  Fetch(codes + kAhead);
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

template <int kRows>
void RowTile(const IntGemmArgs& a, std::int64_t i0, std::int64_t panel) {
  const std::byte* head = a.w + panel * a.panel_bytes;
  const __m512i w_sum = _mm512_loadu_si512(head);
  const __m512 w_scale = _mm512_loadu_ps(head + 64);
  const std::byte* codes = head + kPanelHeadBytes;
  const std::int8_t* x = a.x + i0 * a.x_stride;
  __m512i acc[kRows];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) acc[i] = _mm512_set1_epi32(-8 * a.x_sum[i0 + i]);
  for (std::int64_t g = 0; g < CeilDiv(a.k, 8); ++g) {
    AddGroup<kRows>(codes + g * 64, x + g * 8, a.x_stride, acc);
  }
  const std::int64_t col = panel * kPanelRows;
  const float* bias = a.bias == nullptr ? nullptr : a.bias + col;
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    const __m512i zero = _mm512_set1_epi32(a.x_zero[i0 + i]);
    const __m512i sum = _mm512_sub_epi32(acc[i], _mm512_mullo_epi32(w_sum, zero));
    const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(a.x_scale[i0 + i]));
    StoreRow(_mm512_mul_ps(scaled, w_scale), bias, PanelCols(a, panel),
             a.y + (i0 + i) * a.y_stride + col);
  }
}

// --- Choice of tiles ---

template <int kPanels, int kRows>
void Tile(const IntGemmArgs& a, std::int64_t i0, std::int64_t panel, std::int64_t panel_step,
          bool fetch) {
  if (a.block == kSumBlock) {
    if (fetch) {
      BlockTile<kPanels, kRows, true, true>(a, i0, panel, panel_step);
    } else {
      BlockTile<kPanels, kRows, true, false>(a, i0, panel, panel_step);
    }
  } else {
    BlockTile<kPanels, kRows, false, true>(a, i0, panel, panel_step);
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
  if (a.block != 0) {
    Tile<kPanels, kRows>(a, i0, panel, panel_step, i0 == 0);
    return;
  }
  for (int p = 0; p < kPanels; ++p) RowTile<kRows>(a, i0, panel + p * panel_step);
}

}  // namespace

void gemm_i8_i4_f32__12x16c8__avx512vnni(const IntGemmArgs& a) noexcept {
  if (a.m <= 0) return;
  const std::int64_t panels = NumPanels(a.n);
  std::int64_t p = 0;
  if (a.m >= kUnpackRows && a.block != 0 && a.block <= kUnpackedDepth) {
    // Passes of equal height, whole tiles each.
    const std::int64_t pass = CeilDiv(CeilDiv(a.m, CeilDiv(a.m, kPassRows)), kMaxRows) * kMaxRows;
    for (std::int64_t i = 0; i < a.m; i += pass) {
      const std::int64_t rows = std::min(pass, a.m - i);
      for (p = 0; p + 2 <= panels; p += 2) ManyRows<2>(a, i, rows, p);
      if (p < panels) ManyRows<1>(a, i, rows, p);
    }
    return;
  }
  if (a.m <= kPairRows) {
    // Two streams through memory, each forward.
    const std::int64_t half = panels / 2;
    for (; p < half; ++p) TileUpTo<2, kPairRows>(a.m, a, 0, p, half);
    p = 2 * half;
  }
  // Tiles of equal height.
  const std::int64_t rows = CeilDiv(a.m, CeilDiv(a.m, kMaxRows));
  for (; p < panels; ++p) {
    for (std::int64_t i = 0; i < a.m; i += rows) {
      TileUpTo<1, kMaxRows>(std::min(rows, a.m - i), a, i, p, 0);
    }
  }
}

}  // namespace hone::kernels::gemm_int4

HONE_TARGET_END
