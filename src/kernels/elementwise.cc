// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include <algorithm>
#include <cmath>

#include "kernels/activation/activation.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rope/rope.h"

namespace hone::kernels {
namespace {

// Values that one task takes at least; less is not worth waking a thread.
constexpr std::int64_t kGrainValues = 16384;

std::int64_t RowsPerTask(std::int64_t row_values) {
  return std::max<std::int64_t>(1, kGrainValues / std::max<std::int64_t>(1, row_values));
}

}  // namespace

void RmsNorm(const float* x, const float* weight, float epsilon, std::int64_t m, std::int64_t n,
             float* y, ThreadPool& pool) {
  static const rmsnorm::Fn norm = rmsnorm::Find().fn;
  pool.For(m, RowsPerTask(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) norm(x + i * n, weight, epsilon, n, y + i * n);
  });
}

void RopeAngles(std::int64_t first_position, std::int64_t m, const float* inv_freq,
                std::int64_t half, float magnitude, float* cos, float* sin) {
  for (std::int64_t i = 0; i < m; ++i) {
    const auto position = static_cast<float>(first_position + i);
    for (std::int64_t j = 0; j < half; ++j) {
      const float angle = position * inv_freq[j];
      cos[i * half + j] = std::cos(angle) * magnitude;
      sin[i * half + j] = std::sin(angle) * magnitude;
    }
  }
}

void ApplyRope(float* x, const float* cos, const float* sin, std::int64_t m, std::int64_t heads,
               std::int64_t head_dim, ThreadPool& pool) {
  static const rope::Fn rotate = rope::Find().fn;
  const std::int64_t half = head_dim / 2;
  pool.For(m, RowsPerTask(heads * head_dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      rotate(x + i * heads * head_dim, cos + i * half, sin + i * half, heads, half);
    }
  });
}

void SiluMul(const float* gate, const float* up, std::int64_t n, float* y, ThreadPool& pool) {
  static const auto silu_mul = activation::Find().silu_mul;
  pool.For(n, kGrainValues / 4, [&](std::int64_t begin, std::int64_t end) {
    silu_mul(gate + begin, up + begin, end - begin, y + begin);
  });
}

void AddInPlace(float* x, const float* y, std::int64_t n, ThreadPool& pool) {
  static const auto add = activation::Find().add;
  pool.For(n, kGrainValues,
           [&](std::int64_t begin, std::int64_t end) { add(x + begin, y + begin, end - begin); });
}

}  // namespace hone::kernels
