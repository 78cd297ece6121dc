// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation/activation.h"

#include "kernels/registry.h"

namespace hone::kernels::activation {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(isa, needs)                                                  \
  {                                                                              \
      "activation_f32__" #isa,   CpuTarget::needs,         &silu_mul_f32__##isa, \
      &gelu_tanh_mul_f32__##isa, &gelu_erf_mul_f32__##isa, &softcap_f32__##isa,  \
      &scale_f32__##isa,         &add_f32__##isa,          &exp_f32__##isa,      \
  },
#include "kernels/activation/kernels.inc"
#undef HONE_KERNEL
};

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() { return FirstSupported(Kernels()); }

}  // namespace hone::kernels::activation
