// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <arm_neon.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/float16.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(neon_dot)

#include "kernels/simd/vec16_neon.h"
// After the Vec16 that it uses.
#include "kernels/attention/attention_tiles.h"
// After the tiles.
#include "kernels/attention/int8_scores_float.h"
// After the scores.
#include "kernels/attention/attention_body.h"
#include "kernels/attention/attention_store.h"
// After the body.
#include "kernels/attention/int8_values_float.h"

namespace hone::kernels::attention {

void attend_segment__neon_dot(const Unit& unit, std::int64_t segment, float* scratch,
                              const Partial& out) noexcept {
  AttendOneSegment(unit, segment, scratch, out);
}
void merge__neon_dot(const Unit& unit, std::int64_t segment, const Partial& part,
                     const Partial& total) noexcept {
  MergeSegment(unit, segment, part, total);
}
void finish__neon_dot(const Unit& unit, const Partial& total) noexcept { FinishUnit(unit, total); }
void store__neon_dot(const StoreArgs& args) noexcept { StoreRows(args); }

}  // namespace hone::kernels::attention

HONE_TARGET_END
