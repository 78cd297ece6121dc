// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// y = x w^T + bias with float32 activations and float weights of three widths.
//
// A panel holds 16 output rows, k major: for each k the 16 weights of the rows, in the stored
// width. Each output is the sum of two chains, over even and over odd k in rising order, added at
// the end; so it does not depend on m, on threads or on the tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu_info.h"
#include "kernels/tile.h"

namespace hone::kernels::gemm_f32 {

enum class WeightKind : std::uint8_t { kF32, kF16, kBf16 };

struct Args {
  const float* x = nullptr;  // [m, k], row stride k
  // Panels, PanelBytes(kind, k) each, at any address of their type.
  const std::byte* w = nullptr;
  const float* bias = nullptr;  // [n] or null
  float* y = nullptr;           // [m, n] with row stride y_stride
  std::int64_t m = 0, n = 0, k = 0, y_stride = 0;
};
using Fn = void (*)(const Args& args) noexcept;

struct Kernel {
  const char* name;
  CpuTarget needs;
  WeightKind weight;
  Fn fn;
  double tolerance;  // |y - twin| <= tolerance * sum |x w|
};

#define HONE_KERNEL(fn, needs, weight, tolerance) void fn(const Args& args) noexcept;
#include "kernels/gemm_f32/kernels.inc"
#undef HONE_KERNEL

// All kernels of this build, the best first.
std::span<const Kernel> Kernels();
// The best one that this machine runs; there is always one.
const Kernel& Find(WeightKind weight);

inline std::int64_t WeightBytes(WeightKind weight) { return weight == WeightKind::kF32 ? 4 : 2; }
inline std::int64_t PanelBytes(WeightKind weight, std::int64_t k) {
  return kPanelRows * WeightBytes(weight) * k;
}
// Packs rows [0, rows) of a row-major matrix [*, k] as one panel; rows is 1 to 16.
void PackPanel(WeightKind weight, const std::byte* w, std::int64_t rows, std::int64_t k,
               std::byte* panel);

// Twin: row-major weights, double sums.
void Reference(WeightKind weight, const float* x, const std::byte* w, const float* bias,
               std::int64_t m, std::int64_t n, std::int64_t k, float* y);

}  // namespace hone::kernels::gemm_f32
