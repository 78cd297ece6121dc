// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Activations over a Vec16. Include after a Vec16, inside the same target region.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/simd/exp.h"
#include "kernels/simd/tanh.h"

namespace hone::kernels {
namespace {

HONE_INLINE Vec16 SiluMul16(Vec16 gate, Vec16 up) {
  return Vec16::Mul(Vec16::Mul(gate, Sigmoid(gate)), up);
}

HONE_INLINE Vec16 GeluTanhMul16(Vec16 gate, Vec16 up) { return Vec16::Mul(GeluTanh(gate), up); }

HONE_INLINE Vec16 GeluErfMul16(Vec16 gate, Vec16 up) { return Vec16::Mul(GeluErf(gate), up); }

// y = kMul(gate, up)
template <Vec16 (*kMul)(Vec16, Vec16)>
void MulValues(const float* gate, const float* up, std::int64_t n, float* y) {
  const std::int64_t whole = n / 16 * 16;
  for (std::int64_t j = 0; j < whole; j += 16) {
    kMul(Vec16::Load(gate + j), Vec16::Load(up + j)).Store(y + j);
  }
  if (whole < n) {
    const auto bytes = static_cast<std::size_t>(n - whole) * sizeof(float);
    float g[16] = {}, u[16] = {};
    std::memcpy(g, gate + whole, bytes);
    std::memcpy(u, up + whole, bytes);
    kMul(Vec16::Load(g), Vec16::Load(u)).Store(g);
    std::memcpy(y + whole, g, bytes);
  }
}

void SoftcapValues(float* x, float cap, std::int64_t n) {
  const Vec16 scale = Vec16::Set1(1.0f / cap), back = Vec16::Set1(cap);
  const std::int64_t whole = n / 16 * 16;
  for (std::int64_t j = 0; j < whole; j += 16) {
    Vec16::Mul(Tanh(Vec16::Mul(Vec16::Load(x + j), scale)), back).Store(x + j);
  }
  if (whole < n) {
    const auto bytes = static_cast<std::size_t>(n - whole) * sizeof(float);
    float part[16] = {};
    std::memcpy(part, x + whole, bytes);
    Vec16::Mul(Tanh(Vec16::Mul(Vec16::Load(part), scale)), back).Store(part);
    std::memcpy(x + whole, part, bytes);
  }
}

void ScaleValues(float* x, float factor, std::int64_t n) {
  const Vec16 factors = Vec16::Set1(factor);
  const std::int64_t whole = n / 16 * 16;
  for (std::int64_t j = 0; j < whole; j += 16) {
    Vec16::Mul(Vec16::Load(x + j), factors).Store(x + j);
  }
  for (std::int64_t j = whole; j < n; ++j) x[j] *= factor;
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
