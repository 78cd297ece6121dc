// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The weights of int8 values as integers. Include after attention_tiles.h, inside the same target
// region.
#pragma once

#include <cstdint>
#include <cstring>

namespace hone::kernels {
namespace {

// For one page and the queries of a unit: of each query the integers [kPagePositions] and what they
// are multiplied with. memory: floats [queries, kPagePositions / 2 + 1].
class Int8Weights {
 public:
  Int8Weights(float* memory, std::int64_t queries)
      : integers_(reinterpret_cast<std::int16_t*>(memory)),
        scales_(memory + queries * (kPagePositions / 2)) {}

  std::int16_t* integers(std::int64_t t) const { return integers_ + t * kPagePositions; }
  void set_scale(std::int64_t t, float scale) { scales_[t] = scale; }
  float scale(std::int64_t t) const { return scales_[t]; }
  // The integers of positions p and p + 1.
  HONE_INLINE std::int32_t Pair(std::int64_t t, std::int64_t p) const {
    std::int32_t pair;
    std::memcpy(&pair, integers(t) + p, 4);
    return pair;
  }

 private:
  std::int16_t* integers_;
  float* scales_;
};

}  // namespace
}  // namespace hone::kernels
