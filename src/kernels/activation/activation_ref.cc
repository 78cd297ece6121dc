// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/elementwise.h"

namespace hone::kernels {

void SiluMulReference(const float* gate, const float* up, std::int64_t n, float* y) {
  for (std::int64_t j = 0; j < n; ++j) {
    const double g = gate[j];
    y[j] = static_cast<float>(g / (1.0 + std::exp(-g)) * up[j]);
  }
}

void GeluTanhMulReference(const float* gate, const float* up, std::int64_t n, float* y) {
  const double root = std::sqrt(2.0 / std::acos(-1.0));
  for (std::int64_t j = 0; j < n; ++j) {
    const double g = gate[j];
    y[j] =
        static_cast<float>(0.5 * g * (1.0 + std::tanh(root * (g + 0.044715 * g * g * g))) * up[j]);
  }
}

void GeluErfMulReference(const float* gate, const float* up, std::int64_t n, float* y) {
  for (std::int64_t j = 0; j < n; ++j) {
    const double g = gate[j];
    y[j] = static_cast<float>(0.5 * g * (1.0 + std::erf(g / std::sqrt(2.0))) * up[j]);
  }
}

void SoftcapReference(float* x, float cap, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    x[j] = static_cast<float>(cap * std::tanh(static_cast<double>(x[j]) / cap));
  }
}

}  // namespace hone::kernels
