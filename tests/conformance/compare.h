// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How far two lists of numbers are apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

namespace hone::testing {

struct Distance {
  double max_abs = 0;
  double nmse = 0;  // squared error over the squared size of the expected values
};

// Lists of different lengths, or with NaN, are infinitely far apart.
inline Distance Compare(std::span<const float> found, std::span<const float> expected) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  if (found.size() != expected.size() || found.empty()) return {kFar, kFar};
  Distance d;
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double want = static_cast<double>(expected[i]);
    const double diff = static_cast<double>(found[i]) - want;
    if (!std::isfinite(diff)) return {kFar, kFar};
    d.max_abs = std::max(d.max_abs, std::abs(diff));
    error += diff * diff;
    size += want * want;
  }
  d.nmse = size > 0 ? error / size : kFar;
  return d;
}

inline bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace hone::testing
