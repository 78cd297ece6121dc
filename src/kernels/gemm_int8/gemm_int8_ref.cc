// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_int8/gemm_int8.h"

namespace hone::kernels::gemm_int8 {

void Reference(const IntGemmArgs& a, const std::int8_t* codes, const float* scales) {
  for (std::int64_t i = 0; i < a.m; ++i) {
    for (std::int64_t r = 0; r < a.n; ++r) {
      std::int64_t sum = 0;
      for (std::int64_t j = 0; j < a.k; ++j) {
        sum += std::int64_t{codes[r * a.k + j]} * (a.x[i * a.x_stride + j] - a.x_zero[i]);
      }
      double y = static_cast<double>(sum) * a.x_scale[i] * scales[r];
      if (a.bias != nullptr) y += a.bias[r];
      a.y[i * a.y_stride + r] = static_cast<float>(y);
    }
  }
}

}  // namespace hone::kernels::gemm_int8
