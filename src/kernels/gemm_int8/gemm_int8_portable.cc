// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "kernels/gemm_int8/gemm_int8.h"

namespace hone::kernels::gemm_int8 {

void gemm_i8_i8_f32__1x16c4__portable(const IntGemmArgs& a) noexcept {
  const std::int64_t groups = CeilDiv(a.k, 4);
  for (std::int64_t row = 0; row < a.n; row += kPanelRows) {
    const std::byte* panel = a.w + row / kPanelRows * a.panel_bytes;
    std::int32_t w_sums[kPanelRows];
    float w_scales[kPanelRows];
    std::memcpy(w_sums, panel, sizeof(w_sums));
    std::memcpy(w_scales, panel + sizeof(w_sums), sizeof(w_scales));
    const auto* codes = reinterpret_cast<const std::int8_t*>(panel + kPanelHeadBytes);
    const std::int64_t n = std::min(kPanelRows, a.n - row);
    for (std::int64_t i = 0; i < a.m; ++i) {
      const std::int8_t* x = a.x + i * a.x_stride;
      std::int32_t sums[kPanelRows] = {};
      for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t r = 0; r < kPanelRows; ++r) {
          for (std::int64_t j = 0; j < 4; ++j) {
            sums[r] += codes[g * 64 + r * 4 + j] * x[g * 4 + j];
          }
        }
      }
      for (std::int64_t r = 0; r < n; ++r) {
        const auto sum = static_cast<float>(sums[r] - a.x_zero[i] * w_sums[r]);
        const float y = sum * a.x_scale[i] * w_scales[r];
        a.y[i * a.y_stride + row + r] = a.bias == nullptr ? y : y + a.bias[row + r];
      }
    }
  }
}

}  // namespace hone::kernels::gemm_int8
