// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The norm over a Vec16. Include after a Vec16, inside the same target region.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace hone::kernels {
namespace {

void NormRow(const float* x, const float* weight, float epsilon, std::int64_t n, float* y) {
  const std::int64_t whole = n / 16 * 16;
  Vec16 part[4];
  for (Vec16& p : part) p = Vec16::Set1(0);
  std::int64_t i = 0;
  for (; i + 64 <= whole; i += 64) {
    for (int c = 0; c < 4; ++c) {
      const Vec16 v = Vec16::Load(x + i + 16 * c);
      part[c] = Vec16::Fused(v, v, part[c]);
    }
  }
  for (int c = 0; i < whole; i += 16, ++c) {
    const Vec16 v = Vec16::Load(x + i);
    part[c] = Vec16::Fused(v, v, part[c]);
  }
  Vec16 squares = Vec16::Add(Vec16::Add(part[0], part[2]), Vec16::Add(part[1], part[3]));
  if (whole < n) {
    float rest[16] = {};
    std::memcpy(rest, x + whole, static_cast<std::size_t>(n - whole) * sizeof(float));
    const Vec16 v = Vec16::Load(rest);
    squares = Vec16::Fused(v, v, squares);
  }
  const float mean = squares.ReduceAdd() * (1.0f / static_cast<float>(n));
  const float inverse = Vec16::InverseSqrt(mean + epsilon);
  const Vec16 factor = Vec16::Set1(inverse);
  for (std::int64_t j = 0; j < whole; j += 16) {
    Vec16::Mul(Vec16::Mul(Vec16::Load(x + j), factor), Vec16::Load(weight + j)).Store(y + j);
  }
  for (std::int64_t j = whole; j < n; ++j) y[j] = x[j] * inverse * weight[j];
}

}  // namespace
}  // namespace hone::kernels
