// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Activations over a Vec16. Include after a Vec16, inside the same target region.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/simd/exp.h"

namespace hone::kernels {
namespace {

HONE_INLINE Vec16 SiluMul16(Vec16 gate, Vec16 up) {
  return Vec16::Mul(Vec16::Mul(gate, Sigmoid(gate)), up);
}

void SiluMulValues(const float* gate, const float* up, std::int64_t n, float* y) {
  const std::int64_t whole = n / 16 * 16;
  for (std::int64_t j = 0; j < whole; j += 16) {
    SiluMul16(Vec16::Load(gate + j), Vec16::Load(up + j)).Store(y + j);
  }
  if (whole < n) {
    const auto bytes = static_cast<std::size_t>(n - whole) * sizeof(float);
    float g[16] = {}, u[16] = {};
    std::memcpy(g, gate + whole, bytes);
    std::memcpy(u, up + whole, bytes);
    SiluMul16(Vec16::Load(g), Vec16::Load(u)).Store(g);
    std::memcpy(y + whole, g, bytes);
  }
}

void AddValues(float* x, const float* y, std::int64_t n) {
  const std::int64_t whole = n / 16 * 16;
  for (std::int64_t j = 0; j < whole; j += 16) {
    Vec16::Add(Vec16::Load(x + j), Vec16::Load(y + j)).Store(x + j);
  }
  for (std::int64_t j = whole; j < n; ++j) x[j] += y[j];
}

void ExpValues(const float* x, std::int64_t n, float* y) {
  const std::int64_t whole = n / 16 * 16;
  for (std::int64_t j = 0; j < whole; j += 16) Exp(Vec16::Load(x + j)).Store(y + j);
  if (whole < n) {
    const auto bytes = static_cast<std::size_t>(n - whole) * sizeof(float);
    float part[16] = {};
    std::memcpy(part, x + whole, bytes);
    Exp(Vec16::Load(part)).Store(part);
    std::memcpy(y + whole, part, bytes);
  }
}

}  // namespace
}  // namespace hone::kernels
