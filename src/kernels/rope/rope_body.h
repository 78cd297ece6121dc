// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The rotation over a Vec16. Include after a Vec16, inside the same target region.
#pragma once

#include <cstdint>

namespace hone::kernels {
namespace {

void RotateHeads(float* x, const float* cos, const float* sin, std::int64_t heads,
                 std::int64_t head_dim, std::int64_t half) {
  const std::int64_t whole = half / 16 * 16;
  for (std::int64_t h = 0; h < heads; ++h, x += head_dim) {
    for (std::int64_t j = 0; j < whole; j += 16) {
      const Vec16 a = Vec16::Load(x + j), b = Vec16::Load(x + half + j);
      const Vec16 c = Vec16::Load(cos + j), s = Vec16::Load(sin + j);
      Vec16::Sub(Vec16::Mul(a, c), Vec16::Mul(b, s)).Store(x + j);
      Vec16::Add(Vec16::Mul(b, c), Vec16::Mul(a, s)).Store(x + half + j);
    }
    for (std::int64_t j = whole; j < half; ++j) {
      const float a = x[j], b = x[half + j];
      x[j] = a * cos[j] - b * sin[j];
      x[half + j] = b * cos[j] + a * sin[j];
    }
  }
}

}  // namespace
}  // namespace hone::kernels
