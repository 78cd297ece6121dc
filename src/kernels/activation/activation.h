// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// silu(gate) * up, gelu(gate) * up, soft caps, x += y. Bit-equal on every target.
#pragma once

#include <cstdint>
#include <span>

#include "base/cpu_info.h"

namespace hone::kernels::activation {

struct Kernel {
  const char* name;
  CpuTarget needs;
  // y = gate / (1 + exp(-gate)) * up, n values; y may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, std::int64_t n, float* y) noexcept;
  // y = gelu(gate) * up, n values; y may be gate or up.
  void (*gelu_tanh_mul)(const float* gate, const float* up, std::int64_t n, float* y) noexcept;
  void (*gelu_erf_mul)(const float* gate, const float* up, std::int64_t n, float* y) noexcept;
  // x = cap * tanh(x / cap), n values.
  void (*softcap)(float* x, float cap, std::int64_t n) noexcept;
  // x *= factor, n values.
  void (*scale)(float* x, float factor, std::int64_t n) noexcept;
  // x += y, n values.
  void (*add)(float* x, const float* y, std::int64_t n) noexcept;
  // y = exp(x), n values, at most 2 ulp off; y may be x.
  void (*exp)(const float* x, std::int64_t n, float* y) noexcept;
};

#define HONE_KERNEL(isa, needs)                                                                    \
  void silu_mul_f32__##isa(const float* gate, const float* up, std::int64_t n, float* y) noexcept; \
  void gelu_tanh_mul_f32__##isa(const float* gate, const float* up, std::int64_t n,                \
                                float* y) noexcept;                                                \
  void gelu_erf_mul_f32__##isa(const float* gate, const float* up, std::int64_t n,                 \
                               float* y) noexcept;                                                 \
  void softcap_f32__##isa(float* x, float cap, std::int64_t n) noexcept;                           \
  void scale_f32__##isa(float* x, float factor, std::int64_t n) noexcept;                          \
  void add_f32__##isa(float* x, const float* y, std::int64_t n) noexcept;                          \
  void exp_f32__##isa(const float* x, std::int64_t n, float* y) noexcept;
#include "kernels/activation/kernels.inc"
#undef HONE_KERNEL

std::span<const Kernel> Kernels();
const Kernel& Find();

}  // namespace hone::kernels::activation
