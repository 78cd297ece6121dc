// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rmsnorm/rmsnorm.h"

#include "kernels/registry.h"

namespace hone::kernels::rmsnorm {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(fn, needs) {#fn, CpuTarget::needs, &fn},
#include "kernels/rmsnorm/kernels.inc"
#undef HONE_KERNEL
};

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() { return FirstSupported(Kernels()); }

}  // namespace hone::kernels::rmsnorm
