// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the int8 and int4 matrix kernels share: their arguments and the head of a panel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tile.h"

namespace hone::kernels {

// Values of a row of x that share one entry of x_block_offsets.
inline constexpr std::int64_t kSumBlock = 32;

// Panels and rows of x may begin at any address, the other arrays at any of their type.
struct IntGemmArgs {
  const std::int8_t* x = nullptr;  // [m, x_stride], zeros after k up to a multiple of 64
  // [m, x_stride] x + 128, also after k. Null where no kernel of the machine reads it.
  const std::uint8_t* x_offset = nullptr;
  std::int64_t x_stride = 0;
  const float* x_scale = nullptr;        // [m]
  const std::int32_t* x_zero = nullptr;  // [m] zero points
  const std::int32_t* x_sum = nullptr;   // [m] sums of a row of x
  // [m, offsets_stride] -8 times the sums of 32 values each: int4 codes are stored as code + 8, and
  // sum w q = sum (w + 8) q - 8 sum q. Null where no kernel of the machine reads them.
  const std::int32_t* x_block_offsets = nullptr;
  std::int64_t offsets_stride = 0;
  const std::byte* w = nullptr;  // panels, panel_bytes each
  std::int64_t panel_bytes = 0;
  const float* bias = nullptr;  // [n] or null
  float* y = nullptr;           // [m, n] with row stride y_stride
  std::int64_t m = 0, n = 0, k = 0, y_stride = 0;
  std::int64_t block = 0;  // values that share a weight scale; 0: the whole row
};
using IntGemmFn = void (*)(const IntGemmArgs& args) noexcept;

// A panel begins with these 128 bytes. With one scale a row: the sums of the row's codes (int32)
// and the scales. With block scales: sum over blocks of scale * sum of codes (float), then unused.
inline constexpr std::int64_t kPanelHeadBytes = 128;

}  // namespace hone::kernels
