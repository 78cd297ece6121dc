// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantize_row/quantize_row.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/target.h"

#include "kernels/simd/vec16_portable.h"
// After the Vec16 that they use.
#include "kernels/quantize_row/quantize_row_body.h"

namespace hone::kernels::quantize_row {

void quantize_row_f32_i8__portable(Args& args) noexcept { QuantizeRow(args); }

}  // namespace hone::kernels::quantize_row

