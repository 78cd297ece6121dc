// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rmsnorm/rmsnorm.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/target.h"

#include "kernels/simd/vec16_portable.h"
// After the Vec16 that they use.
#include "kernels/rmsnorm/rmsnorm_body.h"

namespace hone::kernels::rmsnorm {

void rmsnorm_f32__portable(const float* x, const float* weight, float epsilon, std::int64_t n,
    float* y) noexcept {
  NormRow(x, weight, epsilon, n, y);
}

}  // namespace hone::kernels::rmsnorm

