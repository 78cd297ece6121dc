// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The float matrix kernel over a Vec16. Include after a Vec16, inside the same target region.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/gemm_f32/gemm_f32.h"

namespace hone::kernels {
namespace {

template <gemm_f32::WeightKind kWeight>
HONE_INLINE Vec16 LoadWeights(const std::byte* p) {
  if constexpr (kWeight == gemm_f32::WeightKind::kF32) {
    return Vec16::Load(reinterpret_cast<const float*>(p));
  } else if constexpr (kWeight == gemm_f32::WeightKind::kF16) {
    return Vec16::LoadF16(reinterpret_cast<const std::uint16_t*>(p));
  } else {
    return Vec16::LoadBf16(reinterpret_cast<const std::uint16_t*>(p));
  }
}

// kRows rows of x times one panel.
template <gemm_f32::WeightKind kWeight, int kRows>
void GemmTile(const float* x, std::int64_t k, const std::byte* panel, const float* bias,
              std::int64_t n, float* y, std::int64_t y_stride) {
  constexpr std::int64_t kStep = kPanelRows * (kWeight == gemm_f32::WeightKind::kF32 ? 4 : 2);
  // Bytes ahead of the load that the panel is fetched: the hardware stops at page ends.
  constexpr std::int64_t kAhead = 4608;
  Vec16 even[kRows], odd[kRows];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) even[i] = odd[i] = Vec16::Set1(0);
  std::int64_t j = 0;
  for (; j + 1 < k; j += 2) {
    if constexpr (kRows == 1) {
      __builtin_prefetch(panel + kAhead);
      if constexpr (2 * kStep > 64) __builtin_prefetch(panel + kAhead + 64);
    }
    const Vec16 w0 = LoadWeights<kWeight>(panel);
    const Vec16 w1 = LoadWeights<kWeight>(panel + kStep);
    panel += 2 * kStep;
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      even[i] = Vec16::MulAdd(Vec16::Set1(x[i * k + j]), w0, even[i]);
      odd[i] = Vec16::MulAdd(Vec16::Set1(x[i * k + j + 1]), w1, odd[i]);
    }
  }
  if (j < k) {
    const Vec16 w0 = LoadWeights<kWeight>(panel);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      even[i] = Vec16::MulAdd(Vec16::Set1(x[i * k + j]), w0, even[i]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    float sums[kPanelRows];
    Vec16::Add(even[i], odd[i]).Store(sums);
    for (std::int64_t r = 0; r < n; ++r) {
      y[i * y_stride + r] = bias == nullptr ? sums[r] : sums[r] + bias[r];
    }
  }
}

// The same for 1 to kRows rows.
template <gemm_f32::WeightKind kWeight, int kRows>
HONE_INLINE void GemmTileUpTo(std::int64_t rows, const float* x, std::int64_t k,
                              const std::byte* panel, const float* bias, std::int64_t n, float* y,
                              std::int64_t y_stride) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      GemmTileUpTo<kWeight, kRows - 1>(rows, x, k, panel, bias, n, y, y_stride);
      return;
    }
  }
  GemmTile<kWeight, kRows>(x, k, panel, bias, n, y, y_stride);
}

template <gemm_f32::WeightKind kWeight>
void GemmPanels(const gemm_f32::Args& a) {
  const std::int64_t panel_bytes = gemm_f32::PanelBytes(kWeight, a.k);
  const std::byte* panel = a.w;
  for (std::int64_t row = 0; row < a.n; row += kPanelRows, panel += panel_bytes) {
    const std::int64_t n = std::min(kPanelRows, a.n - row);
    const float* bias = a.bias == nullptr ? nullptr : a.bias + row;
    for (std::int64_t i = 0; i < a.m; i += Vec16::kGemmRows) {
      GemmTileUpTo<kWeight, Vec16::kGemmRows>(a.m - i, a.x + i * a.k, a.k, panel, bias, n,
                                              a.y + i * a.y_stride + row, a.y_stride);
    }
  }
}

}  // namespace
}  // namespace hone::kernels
