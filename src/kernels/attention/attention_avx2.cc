// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/float16.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/target.h"

HONE_TARGET_BEGIN(avx2)

#include "kernels/simd/vec16_avx2.h"
// After the Vec16 that it uses.
#include "kernels/attention/attention_tiles.h"
// After the tiles.
#include "kernels/attention/int8_scores_avx2.h"
// After the scores.
#include "kernels/attention/attention_body.h"
#include "kernels/attention/attention_store.h"
#include "kernels/attention/int8_weights.h"
// After the body and the weights.
#include "kernels/attention/int8_values_avx2.h"
// After the sums of columns.
#include "kernels/attention/int8_values_integer.h"

namespace hone::kernels::attention {

void attend_segment__avx2(const Unit& unit, std::int64_t segment, float* scratch,
                          const Partial& out) noexcept {
  AttendOneSegment(unit, segment, scratch, out);
}
void merge__avx2(const Unit& unit, std::int64_t segment, const Partial& part,
                 const Partial& total) noexcept {
  MergeSegment(unit, segment, part, total);
}
void finish__avx2(const Unit& unit, const Partial& total) noexcept { FinishUnit(unit, total); }
void store__avx2(const StoreArgs& args) noexcept { StoreRows(args); }

}  // namespace hone::kernels::attention

HONE_TARGET_END
