// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Rotate-half of the first 2 * half dimensions of each head: x1' = x1 cos - x2 sin,
// x2' = x2 cos + x1 sin, where x1 is the first half of them; the others stay. No fused operations:
// bit-equal on every target.
#pragma once

#include <cstdint>
#include <span>

#include "base/cpu_info.h"

namespace hone::kernels::rope {

// x is [heads, head_dim], changed in place; cos and sin are [half].
using Fn = void (*)(float* x, const float* cos, const float* sin, std::int64_t heads,
                    std::int64_t head_dim, std::int64_t half) noexcept;

struct Kernel {
  const char* name;
  CpuTarget needs;
  Fn fn;
};

#define HONE_KERNEL(fn, needs)                                                                     \
  void fn(float* x, const float* cos, const float* sin, std::int64_t heads, std::int64_t head_dim, \
          std::int64_t half) noexcept;
#include "kernels/rope/kernels.inc"
#undef HONE_KERNEL

std::span<const Kernel> Kernels();
const Kernel& Find();

}  // namespace hone::kernels::rope
