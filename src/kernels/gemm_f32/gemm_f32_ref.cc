// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/float16.h"
#include "kernels/gemm_f32/gemm_f32.h"

namespace hone::kernels::gemm_f32 {
namespace {

double WeightAt(WeightKind weight, const std::byte* w, std::int64_t i) {
  if (weight == WeightKind::kF32) {
    float value;
    std::memcpy(&value, w + 4 * i, 4);
    return value;
  }
  std::uint16_t value;
  std::memcpy(&value, w + 2 * i, 2);
  return weight == WeightKind::kF16 ? Fp16ToFloat(value) : Bf16ToFloat(value);
}

}  // namespace

void Reference(WeightKind weight, const float* x, const std::byte* w, const float* bias,
               std::int64_t m, std::int64_t n, std::int64_t k, float* y) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t r = 0; r < n; ++r) {
      double sum = bias == nullptr ? 0 : bias[r];
      for (std::int64_t j = 0; j < k; ++j) {
        sum += static_cast<double>(x[i * k + j]) * WeightAt(weight, w, r * k + j);
      }
      y[i * n + r] = static_cast<float>(sum);
    }
  }
}

}  // namespace hone::kernels::gemm_f32
