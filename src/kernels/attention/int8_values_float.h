// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Sums of int8 values in floats. Include after attention_body.h, inside the same target region.
#pragma once

namespace hone::kernels {
namespace {

// weights *= scales of the page's values.
void ScaleWeights(const Segment& s, std::int64_t at, const float* scales) {
  for (std::int64_t t = 0; t < s.unit->queries(); ++t) {
    const Range seen = Seen(*s.unit, t, at, kPagePositions);
    float* weights = s.scores + t * kSegmentPositions + (at - s.begin);
    for (std::int64_t p = seen.first / 16 * 16; p < seen.last; p += 16) {
      Vec16::Mul(Vec16::Load(weights + p), Vec16::Load(scales + p)).Store(weights + p);
    }
  }
}

void SumInt8(const Segment& s, std::int64_t at, const std::byte* piece, std::intptr_t ahead,
             float* v) {
  ScaleWeights(
      s, at,
      reinterpret_cast<const float*>(piece + attention::Int8CodeBytes(s.unit->call->head_dim)));
  SumPage(s, at, reinterpret_cast<const std::int8_t*>(piece), ahead, v);
}

}  // namespace
}  // namespace hone::kernels
