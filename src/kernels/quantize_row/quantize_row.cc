// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantize_row/quantize_row.h"

#include <cmath>

#include "kernels/registry.h"

namespace hone::kernels::quantize_row {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(fn, needs) {#fn, CpuTarget::needs, &fn},
#include "kernels/quantize_row/kernels.inc"
#undef HONE_KERNEL
};

}  // namespace

Params ParamsFromRange(float min, float max) {
  const float lo = min < 0 ? min : 0.0f;
  const float hi = max > 0 ? max : 0.0f;
  Params params;
  params.inverse = lo == hi ? 1.0f : 255.0f / (hi - lo);
  const float scaled_lo = lo * params.inverse;
  const float scaled_hi = hi * params.inverse;
  // The end with the smaller rounding error decides.
  const float error_lo = -128.0f + scaled_lo;
  const float error_hi = 127.0f + scaled_hi;
  float zero = error_lo + error_hi > 0 ? -128.0f - scaled_lo : 127.0f - scaled_hi;
  zero = zero > -128.0f ? zero : -128.0f;  // also when it is NaN
  zero = zero < 127.0f ? zero : 127.0f;
  params.zero_point = static_cast<std::int32_t>(std::nearbyint(zero));
  params.scale = 1.0f / params.inverse;
  return params;
}

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() { return FirstSupported(Kernels()); }

}  // namespace hone::kernels::quantize_row
