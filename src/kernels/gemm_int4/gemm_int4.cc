// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_int4/gemm_int4.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/registry.h"
#include "kernels/simd/u32x4.h"

namespace hone::kernels::gemm_int4 {
namespace {

using simd::AddBytePairs;
using simd::AddHalves;
using simd::F32x4;
using simd::I32x4;
using simd::LoadU32x4;
using simd::StoreU32x4;
using simd::Transpose4x4;
using simd::U32x4;

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(fn, needs, tolerance) {#fn, CpuTarget::needs, &fn, tolerance},
#include "kernels/gemm_int4/kernels.inc"
#undef HONE_KERNEL
};

// The rows of one panel: a row that is not there reads the same zeros again and again.
struct PanelRows {
  PanelRows(const std::byte* codes, std::int64_t rows, std::int64_t row_bytes) {
    for (std::int64_t r = 0; r < kPanelRows; ++r) {
      begin[r] = r < rows ? codes + r * row_bytes : zeros;
      step[r] = r < rows ? 1 : 0;
    }
  }
  const std::byte* At(std::int64_t row, std::int64_t byte) const {
    return begin[row] + byte * step[row];
  }
  const std::byte* begin[kPanelRows];
  std::int64_t step[kPanelRows];
  std::byte zeros[16] = {};
};

// For each lane of 8 codes, given as low nibbles in lo and high ones in hi: byte i holds code i
// below and code i + 4 above.
HONE_INLINE U32x4 PairCodes(U32x4 lo, U32x4 hi) {
  const U32x4 even = lo | (lo >> 12);  // the low half: codes 0 and 4, codes 2 and 6
  const U32x4 odd = hi | (hi >> 12);   // 1 and 5, 3 and 7
  return (even & 0xffU) | ((even & 0xff00U) << 8) | ((odd & 0xffU) << 8) | ((odd & 0xff00U) << 16);
}

// kSumBlock codes of 4 rows: 4 groups, 64 bytes apart, and the rows' sums of codes.
HONE_INLINE void PackQuad(const PanelRows& rows, std::int64_t first_row, std::int64_t byte,
                          std::byte* out, std::int32_t* sums) {
  U32x4 v[4];
  for (int i = 0; i < 4; ++i) v[i] = LoadU32x4(rows.At(first_row + i, byte));
  Transpose4x4(v);
  U32x4 bytes = {};  // at most 8 x 15 each
  for (int g = 0; g < 4; ++g) {
    const U32x4 codes = v[g] ^ 0x88888888U;
    const U32x4 lo = codes & 0x0f0f0f0fU;
    const U32x4 hi = (codes >> 4) & 0x0f0f0f0fU;
    bytes += lo + hi;
    StoreU32x4(PairCodes(lo, hi), out + g * 64);
  }
  StoreU32x4(AddHalves(AddBytePairs(bytes)) - 32U * 8U, sums);
}

// The group of 8 codes or less that begins at a byte of each row. sums += the rows' sums of codes.
void PackGroup(const PanelRows& rows, std::int64_t byte, std::int64_t row_bytes, std::byte* out,
               std::int32_t* sums) {
  const auto size = static_cast<std::size_t>(std::min<std::int64_t>(4, row_bytes - byte));
  for (std::int64_t r = 0; r < kPanelRows; r += 4) {
    U32x4 codes = {};
    for (int i = 0; i < 4; ++i) {
      std::uint32_t eight = 0;
      std::memcpy(&eight, rows.At(r + i, byte), size);
      codes[i] = eight ^ 0x88888888U;
    }
    const U32x4 lo = codes & 0x0f0f0f0fU;
    const U32x4 hi = (codes >> 4) & 0x0f0f0f0fU;
    StoreU32x4(PairCodes(lo, hi), out + r * 4);
    StoreU32x4(LoadU32x4(sums + r) + AddHalves(AddBytePairs(lo + hi)) - 64U, sums + r);
  }
}

// Fp16ToFloat of the low half of each lane.
HONE_INLINE F32x4 HalfToFloat(U32x4 h) {
  const U32x4 sign = (h & 0x8000U) << 16;
  const U32x4 shifted = (h & 0x7fffU) << 13;
  // A float with this exponent and mantissa is 2^112 too small, subnormal values included.
  const F32x4 finite = std::bit_cast<F32x4>(shifted) * 0x1p112f;
  const U32x4 special = static_cast<U32x4>((h & 0x7c00U) == 0x7c00U);
  const U32x4 bits =
      (special & (shifted | 0x7f800000U)) | (~special & std::bit_cast<U32x4>(finite));
  return std::bit_cast<F32x4>(bits | sign);
}

// The sums of four rows over count blocks of kSumBlock codes. sums is [*, 16].
HONE_INLINE U32x4 AddSums(const std::int32_t* sums, std::int64_t count) {
  U32x4 total = {};
  for (std::int64_t i = 0; i < count; ++i) total += LoadU32x4(sums + i * kPanelRows);
  return total;
}

// sums is [count, 16].
void PackRowHead(const std::byte* scales, std::int64_t rows, const std::int32_t* sums,
                 std::int64_t count, std::byte* panel) {
  float row_scales[kPanelRows] = {};
  for (int r = 0; r < kPanelRows; r += 4) StoreU32x4(AddSums(sums + r, count), panel + r * 4);
  std::memcpy(row_scales, scales, static_cast<std::size_t>(rows) * 4);
  std::memcpy(panel + 64, row_scales, sizeof(row_scales));
}

// sums is [k / kSumBlock, 16].
void PackBlockHead(const std::byte* scales, std::int64_t rows, std::int64_t k, std::int64_t block,
                   const std::int32_t* sums, std::byte* panel) {
  const std::int64_t blocks = k / block;
  const std::int64_t scale_bytes = ScaleBytes(k, block);
  const std::int64_t count = block / kSumBlock;
  std::byte* out = panel + kPanelHeadBytes;
  std::memset(out + blocks * kPanelRows * 2, 0,
              static_cast<std::size_t>(scale_bytes - blocks * kPanelRows * 2));
  F32x4 corrections[kPanelRows / 4] = {};
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::uint16_t halves[kPanelRows] = {};
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(&halves[r], scales + (r * blocks + b) * 2, 2);
    }
    std::memcpy(out + b * kPanelRows * 2, halves, sizeof(halves));
    for (int i = 0; i < kPanelRows / 4; ++i) {
      const std::uint16_t* h = halves + i * 4;
      const auto sum = std::bit_cast<I32x4>(AddSums(sums + b * count * kPanelRows + i * 4, count));
      corrections[i] +=
          HalfToFloat(U32x4{h[0], h[1], h[2], h[3]}) * __builtin_convertvector(sum, F32x4);
    }
  }
  std::memcpy(panel, corrections, sizeof(corrections));
  std::memset(panel + 64, 0, 64);
}

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() { return FirstSupported(Kernels()); }

void PackPanel(const std::byte* codes, const std::byte* scales, std::int64_t rows, std::int64_t k,
               std::int64_t block, std::byte* panel) {
  HONE_DCHECK(rows >= 1 && rows <= kPanelRows && k % 2 == 0 && TakesBlock(block, k));
  std::int32_t sums[kMaxDepth / kSumBlock * kPanelRows];  // of kSumBlock codes each
  std::byte* out = panel + kPanelHeadBytes + ScaleBytes(k, block);
  const std::int64_t row_bytes = k / 2;
  const PanelRows source(codes, rows, row_bytes);
  // A cache line of each row at a time: rows a power of two apart would push each other out.
  constexpr std::int64_t kLine = 128;
  const std::int64_t whole = k / kSumBlock * kSumBlock;
  for (std::int64_t line = 0; line < whole; line += kLine) {
    const std::int64_t end = std::min(line + kLine, whole);
    for (std::int64_t r = 0; r < kPanelRows; r += 4) {
      for (std::int64_t j = line; j < end; j += kSumBlock) {
        PackQuad(source, r, j / 2, out + j * 8 + r * 4, sums + j / kSumBlock * kPanelRows + r);
      }
    }
  }
  std::int32_t* rest = sums + whole / kSumBlock * kPanelRows;
  if (whole < k) std::fill_n(rest, kPanelRows, 0);
  for (std::int64_t j = whole; j < k; j += 8) {
    PackGroup(source, j / 2, row_bytes, out + j * 8, rest);
  }
  if (block == 0) {
    PackRowHead(scales, rows, sums, CeilDiv(k, kSumBlock), panel);
  } else {
    PackBlockHead(scales, rows, k, block, sums, panel);
  }
}

}  // namespace hone::kernels::gemm_int4
