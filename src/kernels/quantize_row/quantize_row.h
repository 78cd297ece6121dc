// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A row of float32 activations to 8 bits, asymmetric, as XNNPACK's qd8: the range is widened to
// hold 0, q = clamp(rint(x * inverse) + zero_point, -128, 127) with inverse = 255 / (max - min) and
// scale = 1 / inverse, all in float32. Bit-equal on every target.
#pragma once

#include <cstdint>
#include <span>

#include "base/cpu_info.h"

namespace hone::kernels::quantize_row {

struct Params {
  float inverse = 1;
  float scale = 1;
  std::int32_t zero_point = 0;
};
// Defined for every input: an infinite range gives zero point -128, a NaN end counts as 0.
Params ParamsFromRange(float min, float max);

struct Args {
  const float* x = nullptr;  // [k]
  std::int64_t k = 0;
  std::int64_t padded = 0;                // a multiple of 64, at least k
  std::int8_t* q = nullptr;               // [padded], zeros after k
  std::uint8_t* q_offset = nullptr;       // [padded] q + 128, or null
  std::int32_t* block_offsets = nullptr;  // [padded / 32] -8 times sums of q, or null
  std::int32_t sum = 0;                   // out: sum of q
  Params params;                          // out
};
// A NaN becomes the largest code and does not count for the range.
using Fn = void (*)(Args& args) noexcept;

struct Kernel {
  const char* name;
  CpuTarget needs;
  Fn fn;
};

#define HONE_KERNEL(fn, needs) void fn(Args& args) noexcept;
#include "kernels/quantize_row/kernels.inc"
#undef HONE_KERNEL

std::span<const Kernel> Kernels();
const Kernel& Find();

// Twin: plain loops, rint of the C library.
void Reference(Args& args);

}  // namespace hone::kernels::quantize_row
