// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Norm, rope, activation and friends, row by row. Each has a plain twin named Reference.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace hone::kernels {

// y[i] = x[i] / sqrt(mean(x[i]^2) + epsilon) * weight, x and y [m, n]. y may be x.
void RmsNorm(const float* x, const float* weight, float epsilon, std::int64_t m, std::int64_t n,
             float* y, ThreadPool& pool);
void RmsNormReference(const float* x, const float* weight, float epsilon, std::int64_t m,
                      std::int64_t n, float* y);
// The same on the calling thread alone, for a task that does more with the rows.
void RmsNormRows(const float* x, const float* weight, float epsilon, std::int64_t m, std::int64_t n,
                 float* y);

// cos and sin of positions first_position .. + m, [m, half] each, multiplied by magnitude:
// angle = float(position) * inv_freq[i] in float32. The same bits on every machine.
void RopeAngles(std::int64_t first_position, std::int64_t m, const float* inv_freq,
                std::int64_t half, float magnitude, float* cos, float* sin);
// Rotate-half in place on the first 2 * half dimensions of each head of x [m, heads, head_dim]:
// x1' = x1 cos - x2 sin, x2' = x2 cos + x1 sin; the other dimensions stay.
void ApplyRope(float* x, const float* cos, const float* sin, std::int64_t m, std::int64_t heads,
               std::int64_t head_dim, std::int64_t half, ThreadPool& pool);
// The same on the calling thread alone.
void ApplyRopeRows(float* x, const float* cos, const float* sin, std::int64_t m, std::int64_t heads,
                   std::int64_t head_dim, std::int64_t half);
void ApplyRopeReference(float* x, const float* cos, const float* sin, std::int64_t m,
                        std::int64_t heads, std::int64_t head_dim, std::int64_t half);

// y = silu(gate) * up, n values. y may be gate.
void SiluMul(const float* gate, const float* up, std::int64_t n, float* y, ThreadPool& pool);
void SiluMulReference(const float* gate, const float* up, std::int64_t n, float* y);

// y = gelu(gate) * up, n values, with tanh or with erf (model::Activation). y may be gate.
void GeluTanhMul(const float* gate, const float* up, std::int64_t n, float* y, ThreadPool& pool);
void GeluTanhMulReference(const float* gate, const float* up, std::int64_t n, float* y);
void GeluErfMul(const float* gate, const float* up, std::int64_t n, float* y, ThreadPool& pool);
void GeluErfMulReference(const float* gate, const float* up, std::int64_t n, float* y);

// x = cap * tanh(x / cap), n values.
void Softcap(float* x, float cap, std::int64_t n, ThreadPool& pool);
void SoftcapReference(float* x, float cap, std::int64_t n);

// x *= factor, n values.
void ScaleInPlace(float* x, float factor, std::int64_t n, ThreadPool& pool);

// x += y, n values.
void AddInPlace(float* x, const float* y, std::int64_t n, ThreadPool& pool);

}  // namespace hone::kernels
