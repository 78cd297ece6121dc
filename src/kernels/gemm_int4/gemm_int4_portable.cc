// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/float16.h"
#include "kernels/gemm_int4/gemm_int4.h"

namespace hone::kernels::gemm_int4 {
namespace {

// sums[r] += sum of (code + 8) * x over groups of eight values.
void AddGroups(const std::uint8_t* codes, const std::int8_t* x, std::int64_t groups,
               std::int32_t* sums) {
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t r = 0; r < kPanelRows; ++r) {
      for (std::int64_t j = 0; j < 4; ++j) {
        const int pair = codes[g * 64 + r * 4 + j];
        sums[r] += (pair & 15) * x[g * 8 + j] + (pair >> 4) * x[g * 8 + j + 4];
      }
    }
  }
}

void RowWithRowScale(const IntGemmArgs& a, const std::byte* panel, std::int64_t i, float* y) {
  std::int32_t w_sums[kPanelRows];
  float w_scales[kPanelRows];
  std::memcpy(w_sums, panel, sizeof(w_sums));
  std::memcpy(w_scales, panel + sizeof(w_sums), sizeof(w_scales));
  std::int32_t sums[kPanelRows] = {};
  AddGroups(reinterpret_cast<const std::uint8_t*>(panel + kPanelHeadBytes), a.x + i * a.x_stride,
            CeilDiv(a.k, 8), sums);
  for (std::int64_t r = 0; r < kPanelRows; ++r) {
    const auto sum = static_cast<float>(sums[r] - 8 * a.x_sum[i] - a.x_zero[i] * w_sums[r]);
    y[r] = sum * a.x_scale[i] * w_scales[r];
  }
}

void RowWithBlockScales(const IntGemmArgs& a, const std::byte* panel, std::int64_t i, float* y) {
  const std::byte* scales = panel + kPanelHeadBytes;
  const auto* codes = reinterpret_cast<const std::uint8_t*>(scales + ScaleBytes(a.k, a.block));
  const auto zero = static_cast<float>(a.x_zero[i]);
  std::memcpy(y, panel, kPanelRows * 4);
  for (std::int64_t r = 0; r < kPanelRows; ++r) y[r] *= -zero;
  for (std::int64_t b = 0; b < a.k / a.block; ++b) {
    std::int32_t offset = 0;
    for (std::int64_t s = b * a.block / kSumBlock; s < (b + 1) * a.block / kSumBlock; ++s) {
      offset += a.x_block_offsets[i * a.offsets_stride + s];
    }
    std::int32_t sums[kPanelRows] = {};
    AddGroups(codes + b * a.block * 8, a.x + i * a.x_stride + b * a.block, a.block / 8, sums);
    for (std::int64_t r = 0; r < kPanelRows; ++r) {
      std::uint16_t scale;
      std::memcpy(&scale, scales + (b * kPanelRows + r) * 2, 2);
      y[r] += static_cast<float>(sums[r] + offset) * Fp16ToFloat(scale);
    }
  }
  for (std::int64_t r = 0; r < kPanelRows; ++r) y[r] *= a.x_scale[i];
}

}  // namespace

void gemm_i8_i4_f32__1x16c8__portable(const IntGemmArgs& a) noexcept {
  for (std::int64_t row = 0; row < a.n; row += kPanelRows) {
    const std::byte* panel = a.w + row / kPanelRows * a.panel_bytes;
    const std::int64_t n = std::min(kPanelRows, a.n - row);
    for (std::int64_t i = 0; i < a.m; ++i) {
      float y[kPanelRows];
      if (a.block == 0) {
        RowWithRowScale(a, panel, i, y);
      } else {
        RowWithBlockScales(a, panel, i, y);
      }
      for (std::int64_t r = 0; r < n; ++r) {
        a.y[i * a.y_stride + row + r] = a.bias == nullptr ? y[r] : y[r] + a.bias[row + r];
      }
    }
  }
}

}  // namespace hone::kernels::gemm_int4
