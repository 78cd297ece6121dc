// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/elementwise.h"

namespace hone::kernels {

void RmsNormReference(const float* x, const float* weight, float epsilon, std::int64_t m,
                      std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < m; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += static_cast<double>(x[i * n + j]) * x[i * n + j];
    const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(n) + epsilon);
    for (std::int64_t j = 0; j < n; ++j) {
      y[i * n + j] = static_cast<float>(x[i * n + j] * inverse * weight[j]);
    }
  }
}

}  // namespace hone::kernels
