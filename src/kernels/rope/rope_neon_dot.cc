// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/rope/rope.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(neon_dot)

#include "kernels/simd/vec16_neon.h"
// After the Vec16 that it uses.
#include "kernels/rope/rope_body.h"

namespace hone::kernels::rope {

void rope_f32__neon_dot(float* x, const float* cos, const float* sin, std::int64_t heads,
                        std::int64_t head_dim, std::int64_t half) noexcept {
  RotateHeads(x, cos, sin, heads, head_dim, half);
}

}  // namespace hone::kernels::rope

HONE_TARGET_END
