// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rmsnorm/rmsnorm.h"

#include "base/check.h"

namespace hone::kernels::rmsnorm {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(fn, needs) {#fn, CpuTarget::needs, &fn},
#include "kernels/rmsnorm/kernels.inc"
#undef HONE_KERNEL
};

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() {
  for (const Kernel& kernel : kKernels) {
    if (CpuSupports(kernel.needs)) return kernel;
  }
  HONE_CHECK(!"no portable kernel");
  return kKernels[0];
}

}  // namespace hone::kernels::rmsnorm
