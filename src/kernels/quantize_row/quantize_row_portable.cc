// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/quantize_row/quantize_row.h"
#include "kernels/simd/vec16_portable.h"
#include "kernels/target.h"
// After the Vec16 that it uses.
#include "kernels/quantize_row/quantize_row_body.h"

namespace hone::kernels::quantize_row {

void quantize_row_f32_i8__portable(Args& args) noexcept { QuantizeRow(args); }

}  // namespace hone::kernels::quantize_row
