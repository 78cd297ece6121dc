// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_int4/gemm_int4.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/float16.h"
#include "kernels/registry.h"

namespace hone::kernels::gemm_int4 {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(fn, needs, tolerance) {#fn, CpuTarget::needs, &fn, tolerance},
#include "kernels/gemm_int4/kernels.inc"
#undef HONE_KERNEL
};

// The low 16 bits as four bytes with one code each.
std::uint32_t Spread(std::uint32_t v) {
  v = (v | (v << 8)) & 0x00ff00ffU;
  return (v | (v << 4)) & 0x0f0f0f0fU;
}

// Sum of the codes of eight values, given as code + 8.
std::int32_t SumOfEight(std::uint32_t offset_codes) {
  std::uint32_t v = (offset_codes & 0x0f0f0f0fU) + ((offset_codes >> 4) & 0x0f0f0f0fU);
  v = (v & 0x00ff00ffU) + ((v >> 8) & 0x00ff00ffU);
  return static_cast<std::int32_t>((v & 0xffffU) + (v >> 16)) - 64;
}

void PackHead(const std::byte* scales, std::int64_t rows, std::int64_t k, std::int64_t block,
              const std::int32_t* sums, std::byte* panel) {
  float tail[kPanelRows] = {};
  if (block == 0) {
    std::memcpy(panel, sums, kPanelRows * 4);
    std::memcpy(tail, scales, static_cast<std::size_t>(rows) * 4);
    std::memcpy(panel + 64, tail, sizeof(tail));
    return;
  }
  const std::int64_t blocks = k / block;
  std::byte* out = panel + kPanelHeadBytes;
  std::memset(out, 0, static_cast<std::size_t>(ScaleBytes(k, block)));
  float corrections[kPanelRows] = {};
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      std::uint16_t scale;
      std::memcpy(&scale, scales + (r * blocks + b) * 2, 2);
      std::memcpy(out + (b * kPanelRows + r) * 2, &scale, 2);
      corrections[r] += Fp16ToFloat(scale) * static_cast<float>(sums[b * kPanelRows + r]);
    }
  }
  std::memcpy(panel, corrections, sizeof(corrections));
  std::memcpy(panel + 64, tail, sizeof(tail));
}

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() { return FirstSupported(Kernels()); }

void PackPanel(const std::byte* codes, const std::byte* scales, std::int64_t rows, std::int64_t k,
               std::int64_t block, std::byte* panel) {
  HONE_DCHECK(rows >= 1 && rows <= kPanelRows && k % 2 == 0 && TakesBlock(block, k));
  std::int32_t sums[kMaxDepth / kSumBlock][kPanelRows];
  const std::int64_t blocks = block == 0 ? 1 : k / block;
  std::memset(sums, 0, static_cast<std::size_t>(blocks) * sizeof(sums[0]));
  std::byte* out = panel + kPanelHeadBytes + ScaleBytes(k, block);
  const std::int64_t row_bytes = k / 2;
  for (std::int64_t r = 0; r < kPanelRows; ++r) {
    for (std::int64_t g = 0; g * 8 < k; ++g) {
      std::uint32_t eight = 0;
      if (r < rows) {
        std::memcpy(&eight, codes + r * row_bytes + g * 4,
                    static_cast<std::size_t>(std::min<std::int64_t>(4, row_bytes - g * 4)));
      }
      eight ^= 0x88888888U;
      sums[block == 0 ? 0 : g * 8 / block][r] += SumOfEight(eight);
      const std::uint32_t packed = Spread(eight & 0xffffU) | (Spread(eight >> 16) << 4);
      std::memcpy(out + g * 64 + r * 4, &packed, 4);
    }
  }
  PackHead(scales, rows, k, block, &sums[0][0], panel);
}

}  // namespace hone::kernels::gemm_int4
