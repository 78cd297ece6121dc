// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_int8/gemm_int8.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/registry.h"
#include "kernels/simd/u32x4.h"

namespace hone::kernels::gemm_int8 {
namespace {

using simd::AddBytePairs;
using simd::AddHalves;
using simd::LoadU32x4;
using simd::StoreU32x4;
using simd::Transpose4x4;
using simd::U32x4;

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(fn, needs, offset_codes, tolerance) \
  {#fn, CpuTarget::needs, offset_codes, &fn, tolerance},
#include "kernels/gemm_int8/kernels.inc"
#undef HONE_KERNEL
};

constexpr std::int64_t kQuadColumns = 16;

// 16 codes of 4 rows: 4 groups, 64 bytes apart. sums += the rows' sums.
HONE_INLINE void PackQuad(const std::int8_t* codes, std::int64_t stride, std::uint32_t offset,
                          std::byte* out, std::int32_t* sums) {
  U32x4 v[4];
  for (int i = 0; i < 4; ++i) v[i] = LoadU32x4(codes + i * stride);
  Transpose4x4(v);
  U32x4 pairs = {};
  for (int g = 0; g < 4; ++g) {
    pairs += AddBytePairs(v[g] ^ 0x80808080U);  // of code + 128, so that nothing is negative
    StoreU32x4(v[g] ^ offset, out + g * 64);
  }
  const U32x4 total = AddHalves(pairs) - static_cast<std::uint32_t>(kQuadColumns) * 128U;
  StoreU32x4(LoadU32x4(sums) + total, sums);
}

// Codes [first, k) of one row, zeros after them.
void PackRow(const std::int8_t* row, std::int64_t first, std::int64_t k, std::uint32_t offset,
             std::byte* out, std::int32_t* sum) {
  for (std::int64_t j = first; j < k; j += 4) {
    const std::int64_t count = std::min<std::int64_t>(4, k - j);
    std::uint32_t four = 0;
    std::memcpy(&four, row + j, static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) *sum += row[j + i];
    four ^= offset;
    std::memcpy(out + j * 16, &four, 4);
  }
}

void PackEmptyRow(std::int64_t k, std::uint32_t offset, std::byte* out) {
  for (std::int64_t j = 0; j < k; j += 4) std::memcpy(out + j * 16, &offset, 4);
}

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() { return FirstSupported(Kernels()); }

void PackPanel(const Kernel& kernel, const std::int8_t* codes, const float* scales,
               std::int64_t rows, std::int64_t k, std::byte* panel) {
  HONE_DCHECK(rows >= 1 && rows <= kPanelRows && k >= 1 && k <= kMaxDepth);
  const std::uint32_t offset = kernel.offset_codes ? 0x80808080U : 0;
  std::int32_t sums[kPanelRows] = {};
  std::byte* out = panel + kPanelHeadBytes;
  // A cache line of each row at a time: rows a power of two apart would push each other out.
  constexpr std::int64_t kLine = 64;
  const std::int64_t whole_rows = rows / 4 * 4;
  const std::int64_t whole = k / kQuadColumns * kQuadColumns;
  for (std::int64_t line = 0; line < whole; line += kLine) {
    const std::int64_t end = std::min(line + kLine, whole);
    for (std::int64_t r = 0; r < whole_rows; r += 4) {
      for (std::int64_t j = line; j < end; j += kQuadColumns) {
        PackQuad(codes + r * k + j, k, offset, out + j * 16 + r * 4, sums + r);
      }
    }
  }
  for (std::int64_t r = 0; r < whole_rows; ++r) {
    PackRow(codes + r * k, whole, k, offset, out + r * 4, sums + r);
  }
  for (std::int64_t r = whole_rows; r < rows; ++r) {
    PackRow(codes + r * k, 0, k, offset, out + r * 4, sums + r);
  }
  for (std::int64_t r = rows; r < kPanelRows; ++r) PackEmptyRow(k, offset, out + r * 4);
  float row_scales[kPanelRows] = {};
  std::memcpy(row_scales, scales, static_cast<std::size_t>(rows) * 4);
  std::memcpy(panel, sums, sizeof(sums));
  std::memcpy(panel + sizeof(sums), row_scales, sizeof(row_scales));
}

}  // namespace hone::kernels::gemm_int8
