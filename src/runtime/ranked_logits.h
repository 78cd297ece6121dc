// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The best of many logits in order, without sorting them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hone::runtime {

struct RankedLogit {
  float value = 0;
  std::int32_t id = 0;
};

// The largest value, or -infinity if there is none. NaN is skipped.
float MaxLogit(std::span<const float> values);

// The lowest index whose value is at least floor; values.size() if there is none.
std::size_t FirstAtLeast(std::span<const float> values, float floor);

// Ranks values by size, equal ones by index. Minus infinity and NaN are no candidates. One thread
// at a time; memory only grows.
class LogitRanking {
 public:
  // values must live until the next Reset. One pass over them.
  void Reset(std::span<const float> values);
  std::size_t num_candidates() const { return num_candidates_; }
  // The best value; there must be a candidate.
  float best() const { return best_; }
  // The first min(count, num_candidates()) or more of the ranking. Valid until the next call.
  std::span<const RankedLogit> Top(std::size_t count);

 private:
  static constexpr std::size_t kBlock = 64;
  std::span<const float> values_;
  std::vector<float> block_max_;  // of each kBlock values
  std::vector<float> scratch_;
  std::vector<RankedLogit> sorted_;
  std::size_t num_candidates_ = 0;
  float best_ = 0;
};

}  // namespace hone::runtime
