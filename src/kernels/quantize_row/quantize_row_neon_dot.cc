// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/quantize_row/quantize_row.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(neon_dot)

#include "kernels/simd/vec16_neon.h"
// After the Vec16 that it uses.
#include "kernels/quantize_row/quantize_row_body.h"

namespace hone::kernels::quantize_row {

void quantize_row_f32_i8__neon_dot(Args& args) noexcept { QuantizeRow(args); }

}  // namespace hone::kernels::quantize_row

HONE_TARGET_END
