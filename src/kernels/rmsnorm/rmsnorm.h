// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// y = x / sqrt(mean(x^2) + epsilon) * weight for a row. Squares are summed in 16 lanes (lane i mod
// 16, rising), then halves are added; bit-equal on every target.
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
