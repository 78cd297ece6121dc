// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// y = x w^T + bias with 8-bit activations (asymmetric, one scale a row) and int4 weights, one scale
// for a block of the row (fp16) or for the whole row (float):
// y[n] = sx (sum over blocks b of sw[n,b] sum w q  -  z c[n]) + bias[n],
// c[n] = sum over b of sw[n,b] sum w. Sums inside a block are exact in int32; blocks are added in
// rising order, beginning with -z c[n]. With one scale a row it is the formula of gemm_int8.
//
// A panel: its head; with block scales the fp16 scales [blocks, 16], padded to 64 bytes; then for
// each group of 8 k 64 bytes, 4 for each of the 16 rows: byte i holds k i in the low and k i + 4 in
// the high half, as code + 8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu_info.h"
#include "kernels/int_gemm.h"

namespace hone::kernels::gemm_int4 {

inline constexpr std::int64_t kMaxDepth = 65536;

struct Kernel {
  const char* name;
  CpuTarget needs;
  IntGemmFn fn;
  double tolerance;  // |y - twin| <= tolerance * sx (sum |sw w q| + |z| sum |sw w|) + 2^-22 |twin|
};

#define HONE_KERNEL(fn, needs, tolerance) void fn(const IntGemmArgs& args) noexcept;
#include "kernels/gemm_int4/kernels.inc"
#undef HONE_KERNEL

// All kernels of this build, the best first.
std::span<const Kernel> Kernels();
// The best one that this machine runs; there is always one.
const Kernel& Find();

// Whether a kernel reads IntGemmArgs::x_offset, or x_block_offsets. Those of AVX-512 take x + 128
// as XNNPACK there; the others start from -8 sum q.
inline bool ReadsOffsetRows(const Kernel& kernel) { return kernel.needs == CpuTarget::kAvx512Vnni; }
inline bool ReadsBlockOffsets(const Kernel& kernel) { return !ReadsOffsetRows(kernel); }

// Whether the kernels take this block: 0 or a multiple of 32 that divides k.
inline bool TakesBlock(std::int64_t block, std::int64_t k) {
  return block == 0 || (block > 0 && block % kSumBlock == 0 && k % block == 0);
}
inline std::int64_t ScaleBytes(std::int64_t k, std::int64_t block) {
  return block == 0 ? 0 : CeilDiv(k / block * kPanelRows * 2, 64) * 64;
}
inline std::int64_t PanelBytes(std::int64_t k, std::int64_t block) {
  return kPanelHeadBytes + ScaleBytes(k, block) + CeilDiv(k, 8) * 64;
}
// Packs rows [0, rows) of codes [*, k / 2] (two's complement, low half first) as one panel; rows is
// 1 to 16, k even. scales: float [rows] if block is 0, fp16 [rows, k / block] else, any alignment.
void PackPanel(const std::byte* codes, const std::byte* scales, std::int64_t rows, std::int64_t k,
               std::int64_t block, std::byte* panel);

// Twin: canonical codes, int64 and double sums. args.w and panel_bytes are not read.
void Reference(const IntGemmArgs& args, const std::byte* codes, const std::byte* scales);

}  // namespace hone::kernels::gemm_int4
