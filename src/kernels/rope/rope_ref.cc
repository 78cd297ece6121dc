// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

namespace hone::kernels {

void ApplyRopeReference(float* x, const float* cos, const float* sin, std::int64_t m,
                        std::int64_t heads, std::int64_t head_dim, std::int64_t half) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t h = 0; h < heads; ++h) {
      float* head = x + (i * heads + h) * head_dim;
      for (std::int64_t j = 0; j < half; ++j) {
        const double a = head[j], b = head[half + j];
        const double c = cos[i * half + j], s = sin[i * half + j];
        head[j] = static_cast<float>(a * c - b * s);
        head[half + j] = static_cast<float>(b * c + a * s);
      }
    }
  }
}

}  // namespace hone::kernels
