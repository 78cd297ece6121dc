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

}  // namespace hone::kernels
