// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_int4/gemm_int4.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(neon_i8mm)

// After the headers that it uses.
#include "kernels/int_gemm_i8mm.h"

namespace hone::kernels::gemm_int4 {
namespace {

// Sums of a strip, for each pair of rows two vectors a quad: int32 with one scale a row, float with
// block scales.
using Sums = int32x4_t[kMaxPairs][2 * kStripQuads];
using Totals = float32x4_t[kMaxPairs][2 * kStripQuads];

// Quads of columns that a tile of so many pairs of rows computes at once: enough independent sums
// to hide the latency; they stay in registers, with block scales together with their totals.
constexpr int BlockQuads(int pairs) { return pairs == 1 ? 4 : pairs == 2 ? 2 : 1; }
constexpr int RowQuads(int pairs) { return pairs == 1 ? 4 : 2; }

// acc += groups of eight values; codes is the first quad.
template <int kPairs, int kQuads>
HONE_INLINE void AddGroups(const std::uint8_t* codes, const std::int8_t* pairs, std::int64_t groups,
                           int32x4_t (&acc)[kPairs][2 * kQuads]) {
  const uint8x16_t mask = vdupq_n_u8(15);
  for (std::int64_t g = 0; g < groups; ++g, codes += 64, pairs += 16 * kPairs) {
    ColumnPairs w[kQuads];
    for (int q = 0; q < kQuads; ++q) {
      const uint8x16_t both = vld1q_u8(codes + 16 * q);
      w[q] = PairColumns(vreinterpretq_s8_u8(vandq_u8(both, mask)),
                         vreinterpretq_s8_u8(vshrq_n_u8(both, 4)));
    }
    AddColumns<kPairs, kQuads>(pairs, w, acc);
  }
}

// A chunk of whole blocks of x for the pairs of rows.
template <int kPairs>
struct Chunk {
  alignas(16) std::int8_t pairs[kChunk * 2 * kPairs];
  int32x4_t offsets[kChunk / kSumBlock][kPairs];  // what the sums of a block start from

  HONE_INLINE void Load(const IntGemmArgs& a, std::int64_t i0, std::int64_t b0,
                        std::int64_t blocks) {
    InterleaveRows<kPairs>(a, i0, b0 * a.block, blocks * a.block / 8, pairs);
    const std::int64_t parts = a.block / kSumBlock;
    for (int p = 0; p < kPairs; ++p) {
      const std::int32_t* x0 = a.x_block_offsets + (i0 + 2 * p) * a.offsets_stride + b0 * parts;
      const std::int32_t* x1 =
          a.x_block_offsets + SecondRow(a, i0, p) * a.offsets_stride + b0 * parts;
      for (std::int64_t b = 0; b < blocks; ++b) {
        std::int32_t sum0 = 0, sum1 = 0;
        for (std::int64_t s = b * parts; s < (b + 1) * parts; ++s) {
          sum0 += x0[s];
          sum1 += x1[s];
        }
        offsets[b][p] = PairOfInts(sum0, sum1);
      }
    }
  }
};

// totals += blocks of the chunk for the quads from `first` on; codes and scales are their first.
template <int kPairs, int kQuads>
HONE_INLINE void AddBlocks(const IntGemmArgs& a, const Chunk<kPairs>& chunk, std::int64_t blocks,
                           const std::uint8_t* codes, const std::byte* scales, std::int64_t first,
                           Totals& totals) {
  float32x4_t total[kPairs][2 * kQuads];
  for (int p = 0; p < kPairs; ++p) {
    for (int v = 0; v < 2 * kQuads; ++v) total[p][v] = totals[p][2 * first + v];
  }
  const std::int8_t* pairs = chunk.pairs;
  for (std::int64_t b = 0; b < blocks; ++b) {
    int32x4_t acc[kPairs][2 * kQuads];
    for (int p = 0; p < kPairs; ++p) {
      for (int v = 0; v < 2 * kQuads; ++v) acc[p][v] = chunk.offsets[b][p];
    }
    AddGroups<kPairs, kQuads>(codes, pairs, a.block / 8, acc);
    codes += a.block * 8;
    pairs += a.block * 2 * kPairs;
    for (int q = 0; q < kQuads; ++q) {
      const float32x4_t scale = LoadHalves(scales + 8 * q);
      const float32x4_t c01 = vcombine_f32(vget_low_f32(scale), vget_low_f32(scale));
      const float32x4_t c23 = vcombine_f32(vget_high_f32(scale), vget_high_f32(scale));
      for (int p = 0; p < kPairs; ++p) {
        total[p][2 * q] = vfmaq_f32(total[p][2 * q], vcvtq_f32_s32(acc[p][2 * q]), c01);
        total[p][2 * q + 1] = vfmaq_f32(total[p][2 * q + 1], vcvtq_f32_s32(acc[p][2 * q + 1]), c23);
      }
    }
    scales += kPanelRows * 2;
  }
  for (int p = 0; p < kPairs; ++p) {
    for (int v = 0; v < 2 * kQuads; ++v) totals[p][2 * first + v] = total[p][v];
  }
}

HONE_INLINE void StoreValues(const IntGemmArgs& a, std::int64_t i, std::int64_t row, std::int64_t n,
                             const float* values) {
  float* y = a.y + i * a.y_stride + row;
  for (std::int64_t r = 0; r < n; ++r) {
    y[r] = a.bias == nullptr ? values[r] : values[r] + a.bias[row + r];
  }
}

template <int kRow>
HONE_INLINE void StoreTotals(const IntGemmArgs& a, std::int64_t i, std::int64_t row, std::int64_t n,
                             const float32x4_t* totals) {
  float out[kStripColumns];
  for (std::int64_t q = 0; q * 4 < n; ++q) {
    const float32x4_t total = vreinterpretq_f32_s32(QuadOfRow<kRow>(
        vreinterpretq_s32_f32(totals[2 * q]), vreinterpretq_s32_f32(totals[2 * q + 1])));
    vst1q_f32(out + 4 * q, vmulq_n_f32(total, a.x_scale[i]));
  }
  StoreValues(a, i, row, n, out);
}

template <int kRow>
HONE_INLINE void StoreSums(const IntGemmArgs& a, std::int64_t i, std::int64_t row, std::int64_t n,
                           const int32x4_t* sums) {
  float out[kStripColumns];
  for (std::int64_t q = 0; q * 4 < n; ++q) {
    const std::byte* head = a.w + (row / kPanelRows + q / 4) * a.panel_bytes + q % 4 * 16;
    const int32x4_t sum = QuadOfRow<kRow>(sums[2 * q], sums[2 * q + 1]);
    const float32x4_t scaled = ScaledSum(sum, head, a.x_zero[i], a.x_scale[i]);
    vst1q_f32(out + 4 * q, vmulq_f32(scaled, LoadFloats(head + 64)));
  }
  StoreValues(a, i, row, n, out);
}

// kPairs pairs of rows times the n columns from `row` on, at most a strip; blocks fit in a chunk.
template <int kPairs>
__attribute__((noinline)) void BlockStrip(const IntGemmArgs& a, std::int64_t i0, std::int64_t row,
                                          std::int64_t n) {
  Chunk<kPairs> chunk;
  Totals totals;
  const std::int64_t quads = CeilDiv(n, 4);
  const std::byte* panels = a.w + row / kPanelRows * a.panel_bytes;
  for (int p = 0; p < kPairs; ++p) {
    const float z0 = -static_cast<float>(a.x_zero[i0 + 2 * p]);
    const float z1 = -static_cast<float>(a.x_zero[SecondRow(a, i0, p)]);
    const float32x4_t zeros = vcombine_f32(vdup_n_f32(z0), vdup_n_f32(z1));
    for (std::int64_t q = 0; q < NumPanels(n) * 4; ++q) {
      const float32x4_t c = LoadFloats(panels + q / 4 * a.panel_bytes + q % 4 * 16);
      totals[p][2 * q] = vmulq_f32(vcombine_f32(vget_low_f32(c), vget_low_f32(c)), zeros);
      totals[p][2 * q + 1] = vmulq_f32(vcombine_f32(vget_high_f32(c), vget_high_f32(c)), zeros);
    }
  }
  const std::int64_t blocks = a.k / a.block, step = kChunk / a.block;
  for (std::int64_t b = 0; b < blocks; b += step) {
    const std::int64_t count = std::min(step, blocks - b);
    chunk.Load(a, i0, b, count);
    for (std::int64_t first = 0; first < quads; first += BlockQuads(kPairs)) {
      const std::byte* scales = panels + first / 4 * a.panel_bytes + kPanelHeadBytes;
      const std::byte* codes = scales + ScaleBytes(a.k, a.block) + b * a.block * 8 + first % 4 * 16;
      AddBlocks<kPairs, BlockQuads(kPairs)>(
          a, chunk, count, reinterpret_cast<const std::uint8_t*>(codes),
          scales + b * kPanelRows * 2 + first % 4 * 8, first, totals);
    }
  }
  for (int p = 0; p < kPairs; ++p) {
    const std::int64_t i = i0 + 2 * p;
    StoreTotals<0>(a, i, row, n, totals[p]);
    if (i + 1 < a.m) StoreTotals<1>(a, i + 1, row, n, totals[p]);
  }
}

// The same with one scale a row.
template <int kPairs>
__attribute__((noinline)) void RowStrip(const IntGemmArgs& a, std::int64_t i0, std::int64_t row,
                                        std::int64_t n) {
  constexpr int kQuads = RowQuads(kPairs);
  alignas(16) std::int8_t pairs[kChunk * 2 * kPairs];
  Sums sums;
  for (int p = 0; p < kPairs; ++p) {
    const int32x4_t offset =
        PairOfInts(-8 * a.x_sum[i0 + 2 * p], -8 * a.x_sum[SecondRow(a, i0, p)]);
    for (int32x4_t& sum : sums[p]) sum = offset;
  }
  for (std::int64_t k0 = 0; k0 < a.k; k0 += kChunk) {
    const std::int64_t groups = CeilDiv(std::min(kChunk, a.k - k0), 8);
    InterleaveRows<kPairs>(a, i0, k0, groups, pairs);
    for (std::int64_t first = 0; first * 4 < n; first += kQuads) {
      const std::byte* codes = a.w + (row / kPanelRows + first / 4) * a.panel_bytes +
                               kPanelHeadBytes + k0 * 8 + first % 4 * 16;
      int32x4_t acc[kPairs][2 * kQuads];
      for (int p = 0; p < kPairs; ++p) {
        for (int v = 0; v < 2 * kQuads; ++v) acc[p][v] = sums[p][2 * first + v];
      }
      AddGroups<kPairs, kQuads>(reinterpret_cast<const std::uint8_t*>(codes), pairs, groups, acc);
      for (int p = 0; p < kPairs; ++p) {
        for (int v = 0; v < 2 * kQuads; ++v) sums[p][2 * first + v] = acc[p][v];
      }
    }
  }
  for (int p = 0; p < kPairs; ++p) {
    const std::int64_t i = i0 + 2 * p;
    StoreSums<0>(a, i, row, n, sums[p]);
    if (i + 1 < a.m) StoreSums<1>(a, i + 1, row, n, sums[p]);
  }
}

// The same for 1 to kPairs pairs; says how many rows.
template <int kPairs>
HONE_INLINE std::int64_t StripUpTo(const IntGemmArgs& a, std::int64_t i0, std::int64_t row,
                                   std::int64_t n) {
  if constexpr (kPairs > 1) {
    if (CeilDiv(a.m - i0, 2) < kPairs) return StripUpTo<kPairs - 1>(a, i0, row, n);
  }
  if (a.block == 0) {
    RowStrip<kPairs>(a, i0, row, n);
  } else {
    BlockStrip<kPairs>(a, i0, row, n);
  }
  return 2 * kPairs;
}

}  // namespace

void gemm_i8_i4_f32__12x4c8__neon_i8mm(const IntGemmArgs& a) noexcept {
  // One row is read-bound; blocks longer than a chunk are rare. The sums are the same.
  if (a.m == 1 || a.block > kChunk) {
    gemm_i8_i4_f32__8x4c8__neon_dot(a);
    return;
  }
  for (std::int64_t row = 0; row < a.n; row += kStripColumns) {
    const std::int64_t n = std::min(kStripColumns, a.n - row);
    for (std::int64_t i = 0; i < a.m;) i += StripUpTo<kMaxPairs>(a, i, row, n);
  }
}

}  // namespace hone::kernels::gemm_int4

HONE_TARGET_END
