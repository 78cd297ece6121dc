// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/activation/activation.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(neon_dot)

#include "kernels/simd/vec16_neon.h"
// After the Vec16 that it uses.
#include "kernels/activation/activation_body.h"

namespace hone::kernels::activation {

void silu_mul_f32__neon_dot(const float* gate, const float* up, std::int64_t n, float* y) noexcept {
  MulValues<&SiluMul16>(gate, up, n, y);
}
void gelu_tanh_mul_f32__neon_dot(const float* gate, const float* up, std::int64_t n,
                                 float* y) noexcept {
  MulValues<&GeluTanhMul16>(gate, up, n, y);
}
void gelu_erf_mul_f32__neon_dot(const float* gate, const float* up, std::int64_t n,
                                float* y) noexcept {
  MulValues<&GeluErfMul16>(gate, up, n, y);
}
void softcap_f32__neon_dot(float* x, float cap, std::int64_t n) noexcept {
  SoftcapValues(x, cap, n);
}
void scale_f32__neon_dot(float* x, float factor, std::int64_t n) noexcept {
  ScaleValues(x, factor, n);
}
void add_f32__neon_dot(float* x, const float* y, std::int64_t n) noexcept { AddValues(x, y, n); }
void exp_f32__neon_dot(const float* x, std::int64_t n, float* y) noexcept { ExpValues(x, n, y); }

}  // namespace hone::kernels::activation

HONE_TARGET_END
