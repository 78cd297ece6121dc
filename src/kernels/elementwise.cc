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

// Sine and cosine in float32 with the steps and constants of XNNPACK, so that keys agree with its
// (docs/perf/parity.md); std::fma rounds once everywhere, so results do not depend on the machine.
// Absolute error below 2e-7 for angles that float32 holds well.

// x - 2 pi n, n the nearest whole number of turns; 2 pi in two parts.
float WithoutTurns(float x) {
  const float n = std::nearbyint(x * 0.15915494f);
  return std::fma(-n, 1.9353072e-3f, std::fma(-n, 6.28125f, x));
}

// sin(x) of |x| <= 3 pi / 2: mirrored into [-pi / 2, pi / 2], then a quotient of polynomials.
float SineOfFolded(float x) {
  constexpr float kPi = 3.1415927f;
  x = std::min(x, kPi - x);
  x = std::max(x, -kPi - x);
  x = std::min(x, kPi - x);
  const float square = x * x;
  const float p = std::fma(square, std::fma(square, 3.2340581529e-03f, -1.3314664364e-01f), 1.0f);
  const float q = std::fma(square, std::fma(square, 4.8770775902e-04f, 3.3519912511e-02f), 1.0f);
  return x * p / q;
}

float Sine(float x) { return SineOfFolded(WithoutTurns(x)); }

// pi / 2 in two parts.
float Cosine(float x) {
  return SineOfFolded((1.5707963705e+00f - WithoutTurns(x)) + -4.3711388e-08f);
}

}  // namespace

void RmsNorm(const float* x, const float* weight, float epsilon, std::int64_t m, std::int64_t n,
             float* y, ThreadPool& pool) {
  static const rmsnorm::Fn norm = rmsnorm::Find().fn;
  pool.For(m, RowsPerTask(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) norm(x + i * n, weight, epsilon, n, y + i * n);
  });
}

void RmsNormRows(const float* x, const float* weight, float epsilon, std::int64_t m, std::int64_t n,
                 float* y) {
  static const rmsnorm::Fn norm = rmsnorm::Find().fn;
  for (std::int64_t i = 0; i < m; ++i) norm(x + i * n, weight, epsilon, n, y + i * n);
}

void RopeAngles(std::int64_t first_position, std::int64_t m, const float* inv_freq,
                std::int64_t half, float magnitude, float* cos, float* sin) {
  for (std::int64_t i = 0; i < m; ++i) {
    const auto position = static_cast<float>(first_position + i);
    for (std::int64_t j = 0; j < half; ++j) {
      const float angle = position * inv_freq[j];
      cos[i * half + j] = Cosine(angle) * magnitude;
      sin[i * half + j] = Sine(angle) * magnitude;
    }
  }
}

void ApplyRope(float* x, const float* cos, const float* sin, std::int64_t m, std::int64_t heads,
               std::int64_t head_dim, std::int64_t half, ThreadPool& pool) {
  static const rope::Fn rotate = rope::Find().fn;
  pool.For(m, RowsPerTask(heads * head_dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      rotate(x + i * heads * head_dim, cos + i * half, sin + i * half, heads, head_dim, half);
    }
  });
}

void ApplyRopeRows(float* x, const float* cos, const float* sin, std::int64_t m, std::int64_t heads,
                   std::int64_t head_dim, std::int64_t half) {
  static const rope::Fn rotate = rope::Find().fn;
  for (std::int64_t i = 0; i < m; ++i) {
    rotate(x + i * heads * head_dim, cos + i * half, sin + i * half, heads, head_dim, half);
  }
}

void SiluMul(const float* gate, const float* up, std::int64_t n, float* y, ThreadPool& pool) {
  static const auto silu_mul = activation::Find().silu_mul;
  pool.For(n, kGrainValues / 4, [&](std::int64_t begin, std::int64_t end) {
    silu_mul(gate + begin, up + begin, end - begin, y + begin);
  });
}

void GeluTanhMul(const float* gate, const float* up, std::int64_t n, float* y, ThreadPool& pool) {
  static const auto gelu_mul = activation::Find().gelu_tanh_mul;
  pool.For(n, kGrainValues / 4, [&](std::int64_t begin, std::int64_t end) {
    gelu_mul(gate + begin, up + begin, end - begin, y + begin);
  });
}

void GeluErfMul(const float* gate, const float* up, std::int64_t n, float* y, ThreadPool& pool) {
  static const auto gelu_mul = activation::Find().gelu_erf_mul;
  pool.For(n, kGrainValues / 4, [&](std::int64_t begin, std::int64_t end) {
    gelu_mul(gate + begin, up + begin, end - begin, y + begin);
  });
}

void Softcap(float* x, float cap, std::int64_t n, ThreadPool& pool) {
  static const auto softcap = activation::Find().softcap;
  pool.For(n, kGrainValues / 4,
           [&](std::int64_t begin, std::int64_t end) { softcap(x + begin, cap, end - begin); });
}

void ScaleInPlace(float* x, float factor, std::int64_t n, ThreadPool& pool) {
  static const auto scale = activation::Find().scale;
  pool.For(n, kGrainValues,
           [&](std::int64_t begin, std::int64_t end) { scale(x + begin, factor, end - begin); });
}

void AddInPlace(float* x, const float* y, std::int64_t n, ThreadPool& pool) {
  static const auto add = activation::Find().add;
  pool.For(n, kGrainValues,
           [&](std::int64_t begin, std::int64_t end) { add(x + begin, y + begin, end - begin); });
}

}  // namespace hone::kernels
