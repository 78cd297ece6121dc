// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_f32/gemm_f32.h"

#include <cstring>

#include "base/check.h"

namespace hone::kernels::gemm_f32 {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(fn, needs, weight, tolerance) \
  {#fn, CpuTarget::needs, WeightKind::weight, &fn, tolerance},
#include "kernels/gemm_f32/kernels.inc"
#undef HONE_KERNEL
};

template <typename T>
void Interleave(const std::byte* w, std::int64_t rows, std::int64_t k, std::byte* panel) {
  for (std::int64_t r = 0; r < kPanelRows; ++r) {
    for (std::int64_t j = 0; j < k; ++j) {
      T value{};
      if (r < rows) std::memcpy(&value, w + (r * k + j) * std::int64_t{sizeof(T)}, sizeof(T));
      std::memcpy(panel + (j * kPanelRows + r) * std::int64_t{sizeof(T)}, &value, sizeof(T));
    }
  }
}

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find(WeightKind weight) {
  for (const Kernel& kernel : kKernels) {
    if (kernel.weight == weight && CpuSupports(kernel.needs)) return kernel;
  }
  HONE_CHECK(false);  // the list has a portable kernel for every width
  return kKernels[0];
}

void PackPanel(WeightKind weight, const std::byte* w, std::int64_t rows, std::int64_t k,
               std::byte* panel) {
  if (weight == WeightKind::kF32) {
    Interleave<std::uint32_t>(w, rows, k, panel);
  } else {
    Interleave<std::uint16_t>(w, rows, k, panel);
  }
}

}  // namespace hone::kernels::gemm_f32
