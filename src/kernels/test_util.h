// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the kernel tests share.
#pragma once

#include <cstdint>
#include <cstdio>
#include <random>
#include <set>
#include <span>
#include <string>
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

// Whether this processor runs the kernel. Says so, once in a program, if it does not: a kernel that
// no test runs must not look tested.
inline bool CanRun(const char* name, CpuTarget needs) {
  if (CpuSupports(needs)) return true;
  static std::set<std::string> said;
  if (said.insert(name).second) {
    std::printf("[  SKIPPED ] %s: this processor lacks %s, or HONE_CPU is below it\n", name,
                CpuTargetName(needs));
  }
  return false;
}

// The kernels of a family that this processor runs; says which it leaves out.
template <typename Kernel>
std::vector<Kernel> Runnable(std::span<const Kernel> kernels) {
  std::vector<Kernel> runnable;
  for (const Kernel& kernel : kernels) {
    if (CanRun(kernel.name, kernel.needs)) runnable.push_back(kernel);
  }
  return runnable;
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
