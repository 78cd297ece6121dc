// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(neon_dot)

#include "kernels/simd/vec16_neon.h"
// After the Vec16 that it uses.
#include "kernels/rmsnorm/rmsnorm_body.h"

namespace hone::kernels::rmsnorm {

void rmsnorm_f32__neon_dot(const float* x, const float* weight, float epsilon, std::int64_t n,
                           float* y) noexcept {
  NormRow(x, weight, epsilon, n, y);
}

}  // namespace hone::kernels::rmsnorm

HONE_TARGET_END
