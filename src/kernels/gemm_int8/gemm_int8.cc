// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_int8/gemm_int8.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/registry.h"

namespace hone::kernels::gemm_int8 {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(fn, needs, offset_codes, tolerance) \
  {#fn, CpuTarget::needs, offset_codes, &fn, tolerance},
#include "kernels/gemm_int8/kernels.inc"
#undef HONE_KERNEL
};

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() { return FirstSupported(Kernels()); }

void PackPanel(const Kernel& kernel, const std::int8_t* codes, const float* scales,
               std::int64_t rows, std::int64_t k, std::byte* panel) {
  HONE_DCHECK(rows >= 1 && rows <= kPanelRows && k >= 1 && k <= kMaxDepth);
  const std::uint32_t offset = kernel.offset_codes ? 0x80808080U : 0;
  std::int32_t sums[kPanelRows] = {};
  float row_scales[kPanelRows] = {};
  std::byte* out = panel + kPanelHeadBytes;
  for (std::int64_t r = 0; r < kPanelRows; ++r) {
    if (r < rows) {
      row_scales[r] = scales[r];
      for (std::int64_t j = 0; j < k; ++j) sums[r] += codes[r * k + j];
    }
    for (std::int64_t j = 0; j < k; j += 4) {
      std::uint32_t four = 0;
      if (r < rows) {
        std::memcpy(&four, codes + r * k + j,
                    static_cast<std::size_t>(std::min<std::int64_t>(4, k - j)));
      }
      four ^= offset;
      std::memcpy(out + (j / 4) * 64 + r * 4, &four, 4);
    }
  }
  std::memcpy(panel, sums, sizeof(sums));
  std::memcpy(panel + sizeof(sums), row_scales, sizeof(row_scales));
}

}  // namespace hone::kernels::gemm_int8
