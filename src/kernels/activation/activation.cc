// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation/activation.h"

#include "base/check.h"

namespace hone::kernels::activation {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(isa, needs) \
  {"activation_f32__" #isa, CpuTarget::needs, &silu_mul_f32__##isa, &add_f32__##isa, &exp_f32__##isa},
#include "kernels/activation/kernels.inc"
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

}  // namespace hone::kernels::activation
