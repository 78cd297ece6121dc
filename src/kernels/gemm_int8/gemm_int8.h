// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// y = x w^T + bias with 8-bit activations (asymmetric, one scale a row) and int8 weights with one
// scale a row: y[n] = sx sw[n] (sum w q - z sum w) + bias[n]. The bracket is exact in int32.
//
// A panel: its head, then for each group of 4 k the 4 codes of each of the 16 rows (64 bytes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu_info.h"
#include "kernels/int_gemm.h"

namespace hone::kernels::gemm_int8 {

// Sums stay inside int32 up to this depth for any codes and zero point.
inline constexpr std::int64_t kMaxDepth = 65536;

struct Kernel {
  const char* name;
  CpuTarget needs;
  bool offset_codes;  // panels hold code + 128 as unsigned bytes
  IntGemmFn fn;
  double tolerance;  // |y - twin| <= tolerance * |twin - bias| + 2^-23 |twin|
};

#define HONE_KERNEL(fn, needs, offset_codes, tolerance) void fn(const IntGemmArgs& args) noexcept;
#include "kernels/gemm_int8/kernels.inc"
#undef HONE_KERNEL

// All kernels of this build, the best first.
std::span<const Kernel> Kernels();
// The best one that this machine runs; there is always one.
const Kernel& Find();

inline std::int64_t PanelBytes(std::int64_t k) { return kPanelHeadBytes + CeilDiv(k, 4) * 64; }
// Packs rows [0, rows) of codes [*, k], with their scales, as one panel; rows is 1 to 16.
void PackPanel(const Kernel& kernel, const std::int8_t* codes, const float* scales,
               std::int64_t rows, std::int64_t k, std::byte* panel);

// Twin: row-major codes, int64 sums, one rounding at the end. args.w and panel_bytes are not read.
void Reference(const IntGemmArgs& args, const std::int8_t* codes, const float* scales);

}  // namespace hone::kernels::gemm_int8
