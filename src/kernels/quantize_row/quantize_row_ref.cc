// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/quantize_row/quantize_row.h"

namespace hone::kernels::quantize_row {

void Reference(Args& a) {
  float lo = 0, hi = 0;
  for (std::int64_t j = 0; j < a.k; ++j) {
    if (a.x[j] < lo) lo = a.x[j];
    if (a.x[j] > hi) hi = a.x[j];
  }
  a.params = ParamsFromRange(lo, hi);
  const std::int32_t zero = a.params.zero_point;
  a.sum = 0;
  if (a.block_offsets != nullptr) std::fill_n(a.block_offsets, a.padded / 32, 0);
  for (std::int64_t j = 0; j < a.padded; ++j) {
    a.q[j] = 0;
    if (a.q_offset != nullptr) a.q_offset[j] = 128;
    if (j >= a.k) continue;
    const float scaled = a.x[j] * a.params.inverse;
    std::int32_t q = 127;
    if (!std::isnan(scaled)) {
      const float r = std::nearbyint(scaled);
      q = r > static_cast<float>(127 - zero)    ? 127
          : r < static_cast<float>(-128 - zero) ? -128
                                                : static_cast<std::int32_t>(r) + zero;
    }
    a.q[j] = static_cast<std::int8_t>(q);
    a.sum += q;
    if (a.q_offset != nullptr) a.q_offset[j] = static_cast<std::uint8_t>(q + 128);
    if (a.block_offsets != nullptr) a.block_offsets[j / 32] -= 8 * q;
  }
}

}  // namespace hone::kernels::quantize_row
