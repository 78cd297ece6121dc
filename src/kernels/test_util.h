// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the kernel tests share.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/cpu_info.h"

namespace hone::kernels {

// Seeded values in [-1, 1].
inline std::vector<float> RandomFloats(std::int64_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = uniform(random);
  return values;
}

inline std::vector<std::byte> RandomBytes(std::int64_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(n));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 255U);
  return bytes;
}

// A copy of values that begins `shift` elements after an aligned address.
template <typename T>
class Shifted {
 public:
  Shifted(const std::vector<T>& values, std::int64_t shift) : shift_(shift) {
    memory_.resize(static_cast<std::size_t>(shift));
    memory_.insert(memory_.end(), values.begin(), values.end());
  }
  T* data() { return memory_.data() + shift_; }

 private:
  std::int64_t shift_;
  std::vector<T> memory_;
};

}  // namespace hone::kernels
