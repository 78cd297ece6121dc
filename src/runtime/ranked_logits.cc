// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Loops over lanes of a fixed number, so that compilers use vector registers: the order in which a
// maximum is taken does not change it.
#include "runtime/ranked_logits.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace hone::runtime {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr std::size_t kLanes = 16;

// The largest of whole lanes: count is a multiple of kLanes.
float MaxOfLanes(const float* values, std::size_t count) {
  std::array<float, kLanes> lane;
  lane.fill(kNone);
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      lane[j] = values[i + j] > lane[j] ? values[i + j] : lane[j];  // false for NaN
    }
  }
  return *std::max_element(lane.begin(), lane.end());
}

}  // namespace

float MaxLogit(std::span<const float> values) {
  const std::size_t whole = values.size() - values.size() % kLanes;
  float best = MaxOfLanes(values.data(), whole);
  for (const float value : values.subspan(whole)) best = value > best ? value : best;
  return best;
}

std::size_t FirstAtLeast(std::span<const float> values, float floor) {
  constexpr std::size_t kStride = 256;
  std::size_t begin = 0;
  while (values.size() - begin >= kStride && !(MaxOfLanes(&values[begin], kStride) >= floor)) {
    begin += kStride;
  }
  while (begin < values.size() && !(values[begin] >= floor)) ++begin;
  return begin;
}

void LogitRanking::Reset(std::span<const float> values) {
  values_ = values;
  sorted_.clear();
  block_max_.resize((values.size() + kBlock - 1) / kBlock);
  num_candidates_ = 0;
  for (std::size_t b = 0; b < block_max_.size(); ++b) {
    const auto block = values.subspan(b * kBlock, std::min(kBlock, values.size() - b * kBlock));
    block_max_[b] = MaxLogit(block);
    std::int32_t present = 0;
    for (const float value : block) present += value > kNone ? 1 : 0;
    num_candidates_ += static_cast<std::size_t>(present);
  }
  best_ = MaxLogit(block_max_);
}

std::span<const RankedLogit> LogitRanking::Top(std::size_t count) {
  count = std::min(count, num_candidates_);
  if (sorted_.size() >= count) return sorted_;
  // count blocks hold a value of at least the count-th largest maximum, so the best count values
  // are at least that, too.
  float floor = std::numeric_limits<float>::lowest();
  if (count <= block_max_.size()) {
    scratch_ = block_max_;
    const auto nth = scratch_.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(scratch_.begin(), nth, scratch_.end(), std::greater<>());
    floor = std::max(floor, *nth);
  }
  sorted_.clear();
  for (std::size_t b = 0; b < block_max_.size(); ++b) {
    if (!(block_max_[b] >= floor)) continue;
    const std::size_t end = std::min(values_.size(), (b + 1) * kBlock);
    for (std::size_t i = b * kBlock; i < end; ++i) {
      if (values_[i] >= floor) sorted_.push_back({values_[i], static_cast<std::int32_t>(i)});
    }
  }
  std::sort(sorted_.begin(), sorted_.end(), [](const RankedLogit& a, const RankedLogit& b) {
    return a.value != b.value ? a.value > b.value : a.id < b.id;
  });
  return sorted_;
}

}  // namespace hone::runtime
