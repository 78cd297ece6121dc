// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// y = x / sqrt(mean(x^2) + epsilon) * weight for a row. Squares are summed with fused operations in
// 64 lanes (lane i mod 64, rising; what is left behind the last 64 in the lanes it comes to), then
// halves are added: the same bits on every target. The inverse square root is that of XNNPACK on
// AVX-512 (an estimate and a Newton step) and 1 / sqrt elsewhere: the two differ by an ulp or two.
#pragma once

#include <cstdint>
#include <span>

#include "base/cpu_info.h"

namespace hone::kernels::rmsnorm {

// x, weight and y are [n]; y may be x.
using Fn = void (*)(const float* x, const float* weight, float epsilon, std::int64_t n,
                    float* y) noexcept;

struct Kernel {
  const char* name;
  CpuTarget needs;
  Fn fn;
};

#define HONE_KERNEL(fn, needs) \
  void fn(const float* x, const float* weight, float epsilon, std::int64_t n, float* y) noexcept;
#include "kernels/rmsnorm/kernels.inc"
#undef HONE_KERNEL

std::span<const Kernel> Kernels();
const Kernel& Find();

}  // namespace hone::kernels::rmsnorm
