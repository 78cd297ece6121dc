// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm_f32/gemm_f32.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(neon_dot)
#include "kernels/simd/vec16_neon.h"
// After the Vec16 that it uses.
#include "kernels/gemm_f32/gemm_f32_body.h"

namespace hone::kernels::gemm_f32 {

void gemm_f32_f32_f32__3x16c1__neon_dot(const Args& args) noexcept {
  GemmPanels<WeightKind::kF32>(args);
}
void gemm_f32_f16_f32__3x16c1__neon_dot(const Args& args) noexcept {
  GemmPanels<WeightKind::kF16>(args);
}
void gemm_f32_bf16_f32__3x16c1__neon_dot(const Args& args) noexcept {
  GemmPanels<WeightKind::kBf16>(args);
}

}  // namespace hone::kernels::gemm_f32

HONE_TARGET_END
