// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/quantize_row/quantize_row.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avx2)

#include "kernels/simd/vec16_avx2.h"
// After the Vec16 that it uses.
#include "kernels/quantize_row/quantize_row_body.h"

namespace hone::kernels::quantize_row {

void quantize_row_f32_i8__avx2(Args& args) noexcept { QuantizeRow(args); }

}  // namespace hone::kernels::quantize_row

HONE_TARGET_END
