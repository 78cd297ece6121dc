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
  Vec16 squares = Vec16::Set1(0);
  for (std::int64_t j = 0; j < whole; j += 16) {
    const Vec16 v = Vec16::Load(x + j);
    squares = Vec16::Add(squares, Vec16::Mul(v, v));
  }
  if (whole < n) {
    float part[16] = {};
    std::memcpy(part, x + whole, static_cast<std::size_t>(n - whole) * sizeof(float));
    const Vec16 v = Vec16::Load(part);
    squares = Vec16::Add(squares, Vec16::Mul(v, v));
  }
  const float mean = squares.ReduceAdd() / static_cast<float>(n);
  const float inverse = 1.0f / std::sqrt(mean + epsilon);
  const Vec16 factor = Vec16::Set1(inverse);
  for (std::int64_t j = 0; j < whole; j += 16) {
    Vec16::Mul(Vec16::Mul(Vec16::Load(x + j), factor), Vec16::Load(weight + j)).Store(y + j);
  }
  for (std::int64_t j = whole; j < n; ++j) y[j] = x[j] * inverse * weight[j];
}

}  // namespace
}  // namespace hone::kernels
