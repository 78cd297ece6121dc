// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/rope.h"

#include "kernels/registry.h"

namespace hone::kernels::rope {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(fn, needs) {#fn, CpuTarget::needs, &fn},
#include "kernels/rope/kernels.inc"
#undef HONE_KERNEL
};

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() { return FirstSupported(Kernels()); }

}  // namespace hone::kernels::rope
