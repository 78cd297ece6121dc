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

// What stands before a panel's codes. It is made while they are packed, from the rows' sums of each
// kSumBlock codes in rising order, so that a long row needs no more memory than a short one.
class PanelHead {
 public:
  PanelHead(const std::byte* scales, std::int64_t rows, std::int64_t k, std::int64_t block,
            std::byte* panel)
      : scales_(scales), rows_(rows), block_(block), panel_(panel) {
    if (block_ != 0) blocks_ = k / block_;
  }

  // The sums of the next kSumBlock codes of each row, or of what a row has left; sums is [16].
  void Add(const std::int32_t* sums) {
    for (int i = 0; i < kQuads; ++i) sums_[i] += LoadU32x4(sums + i * 4);
    in_block_ += kSumBlock;
    if (block_ != 0 && in_block_ == block_) EndBlock();
  }

  void Finish() {
    if (block_ == 0) {
      float row_scales[kPanelRows] = {};
      std::memcpy(row_scales, scales_, static_cast<std::size_t>(rows_) * 4);
      std::memcpy(panel_, sums_, sizeof(sums_));
      std::memcpy(panel_ + 64, row_scales, sizeof(row_scales));
      return;
    }
    const std::int64_t used = blocks_ * kPanelRows * 2;
    std::memset(panel_ + kPanelHeadBytes + used, 0,
                static_cast<std::size_t>(CeilDiv(used, 64) * 64 - used));
    std::memcpy(panel_, corrections_, sizeof(corrections_));
    std::memset(panel_ + 64, 0, 64);
  }

 private:
  static constexpr int kQuads = kPanelRows / 4;

  void EndBlock() {
    std::uint16_t halves[kPanelRows] = {};
    for (std::int64_t r = 0; r < rows_; ++r) {
      std::memcpy(&halves[r], scales_ + (r * blocks_ + done_) * 2, 2);
    }
    std::memcpy(panel_ + kPanelHeadBytes + done_ * kPanelRows * 2, halves, sizeof(halves));
    for (int i = 0; i < kQuads; ++i) {
      const std::uint16_t* h = halves + i * 4;
      corrections_[i] += HalfToFloat(U32x4{h[0], h[1], h[2], h[3]}) *
                         __builtin_convertvector(std::bit_cast<I32x4>(sums_[i]), F32x4);
      sums_[i] = U32x4{};
    }
    in_block_ = 0;
    ++done_;
  }

  const std::byte* scales_;
  std::int64_t rows_, block_;
  std::byte* panel_;
  std::int64_t blocks_ = 0, done_ = 0, in_block_ = 0;  // blocks of the row, that are done; codes
  U32x4 sums_[kQuads] = {};                            // of the block, or of the whole row
  F32x4 corrections_[kQuads] = {};
};

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() { return FirstSupported(Kernels()); }

void PackPanel(const std::byte* codes, const std::byte* scales, std::int64_t rows, std::int64_t k,
               std::int64_t block, std::byte* panel) {
  HONE_DCHECK(rows >= 1 && rows <= kPanelRows && k >= 2 && k % 2 == 0 && k <= kMaxDepth &&
              TakesBlock(block, k));
  std::byte* out = panel + kPanelHeadBytes + ScaleBytes(k, block);
  const std::int64_t row_bytes = k / 2;
  const PanelRows source(codes, rows, row_bytes);
  PanelHead head(scales, rows, k, block, panel);
  // A cache line of each row at a time: rows a power of two apart would push each other out.
  constexpr std::int64_t kLine = 128;
  const std::int64_t whole = k / kSumBlock * kSumBlock;
  for (std::int64_t line = 0; line < whole; line += kLine) {
    const std::int64_t end = std::min(line + kLine, whole);
    std::int32_t sums[kLine / kSumBlock][kPanelRows];
    for (std::int64_t r = 0; r < kPanelRows; r += 4) {
      for (std::int64_t j = line; j < end; j += kSumBlock) {
        PackQuad(source, r, j / 2, out + j * 8 + r * 4, sums[(j - line) / kSumBlock] + r);
      }
    }
    for (std::int64_t j = line; j < end; j += kSumBlock) head.Add(sums[(j - line) / kSumBlock]);
  }
  if (whole < k) {
    std::int32_t sums[kPanelRows] = {};
    for (std::int64_t j = whole; j < k; j += 8) {
      PackGroup(source, j / 2, row_bytes, out + j * 8, sums);
    }
    head.Add(sums);
  }
  head.Finish();
}

}  // namespace hone::kernels::gemm_int4
