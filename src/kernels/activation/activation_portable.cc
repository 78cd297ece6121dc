// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/activation/activation.h"
#include "kernels/simd/vec16_portable.h"
#include "kernels/target.h"
// After the Vec16 that it uses.
#include "kernels/activation/activation_body.h"

namespace hone::kernels::activation {

void silu_mul_f32__portable(const float* gate, const float* up, std::int64_t n, float* y) noexcept {
  SiluMulValues(gate, up, n, y);
}
void add_f32__portable(float* x, const float* y, std::int64_t n) noexcept { AddValues(x, y, n); }
void exp_f32__portable(const float* x, std::int64_t n, float* y) noexcept { ExpValues(x, n, y); }

}  // namespace hone::kernels::activation
