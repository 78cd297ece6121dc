// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Sums of int8 values in integers. Include after int8_values_vnni.h or int8_values_avx2.h, inside
// the same target region.
//
// For each query and page the weights, probability times the position's scale, become integers of
// 15 bits, 32767 for the largest of the page. A sum over the page is exact in 32 bits, whatever the
// tile; pages are added in rising order.
#pragma once

namespace hone::kernels {
namespace {

void SumInt8(const Segment& s, std::int64_t at, const std::byte* piece, std::intptr_t ahead,
             float* v) {
  const Unit& unit = *s.unit;
  const std::int64_t dim = unit.call->head_dim, padded = unit.padded_dim();
  const auto* scales = reinterpret_cast<const float*>(piece + attention::Int8CodeBytes(dim));
  Int8Weights weights(s.int8, unit.queries());
  for (std::int64_t t = 0; t < unit.queries(); ++t) {
    const Range seen = Seen(unit, t, at, kPagePositions);
    if (seen.last <= seen.first) continue;
    const float* probabilities = s.scores + t * kSegmentPositions + (at - s.begin);
    weights.set_scale(t, QuantizeWeights(seen, probabilities, scales, weights.integers(t)));
  }
  const auto* codes = reinterpret_cast<const std::int8_t*>(piece);
  ForTiles(unit, at, [&](auto number, std::int64_t t, const Range& seen) {
    constexpr int kQueries = decltype(number)::value;
    std::int64_t j = 0;
    for (; j + kSumColumns <= dim; j += kSumColumns) {
      SumColumns<kQueries, true>(weights, t, seen, codes, ahead, dim, j, v + t * padded);
    }
    if (j < dim) {
      SumColumns<kQueries, false>(weights, t, seen, codes, ahead, dim, j, v + t * padded);
    }
  });
}

}  // namespace
}  // namespace hone::kernels
