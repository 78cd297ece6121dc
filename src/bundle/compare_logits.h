// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How near two outputs must be to count as the same.
#pragma once

#include <span>

namespace hone::bundle {

// 1 if both are zero; NaN if one holds NaN.
double Cosine(std::span<const float> a, std::span<const float> b);

// The same graph on another path: rounding only.
inline constexpr double kSameGraphCosine = 0.9999;
// The same weights with and without activations rounded to 8 bits.
inline constexpr double kSameModelCosine = 0.99;

}  // namespace hone::bundle
