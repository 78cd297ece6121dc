// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/simd/vec16_portable.h"
#include "kernels/target.h"
// After the Vec16 that it uses.
#include "kernels/rmsnorm/rmsnorm_body.h"

namespace hone::kernels::rmsnorm {

void rmsnorm_f32__portable(const float* x, const float* weight, float epsilon, std::int64_t n,
                           float* y) noexcept {
  NormRow(x, weight, epsilon, n, y);
}

}  // namespace hone::kernels::rmsnorm
