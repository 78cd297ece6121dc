// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace hone::runtime {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();

// SplitMix64 (Steele, Lea, Flood 2014): one multiply-xor chain a draw, the state is a counter.
std::uint64_t NextRandom(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// exp(x) for x <= 0 from additions and multiplications alone: the C library's exp may differ in the
// last bit from machine to machine, and a draw on the border would then differ too.
double PortableExp(double x) {
  if (x < -700.0) return 0.0;
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High = 6.93147180369123816490e-01;  // 33 bits, so that n * high is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRound = 0x1.8p52;  // adding and taking it away rounds to an integer
  const double n = (x * kLog2E + kRound) - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  // 1 / i!; the terms left out are below 2^-53.
  constexpr double kCoefficients[] = {1.0 / 6227020800.0,
                                      1.0 / 479001600.0,
                                      1.0 / 39916800.0,
                                      1.0 / 3628800.0,
                                      1.0 / 362880.0,
                                      1.0 / 40320.0,
                                      1.0 / 5040.0,
                                      1.0 / 720.0,
                                      1.0 / 120.0,
                                      1.0 / 24.0,
                                      1.0 / 6.0,
                                      0.5,
                                      1.0,
                                      1.0};
  double sum = 0.0;
  for (const double c : kCoefficients) sum = sum * r + c;
  const auto exponent = static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023);
  return sum * std::bit_cast<double>(exponent << 52);
}

// exp(x) for x from kSmallest to 0 with a relative error below 3e-7.
constexpr float kSmallest = -87.0F;  // exp(-87) is 1.6e-38
float FastExp(float x) {
  constexpr float kRound = 0x1.8p23F;  // adding and taking it away rounds to an integer
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float sum = 1.0F / 5040.0F;
  sum = sum * r + 1.0F / 720.0F;
  sum = sum * r + 1.0F / 120.0F;
  sum = sum * r + 1.0F / 24.0F;
  sum = sum * r + 1.0F / 6.0F;
  sum = sum * r + 0.5F;
  sum = sum * r + 1.0F;
  sum = sum * r + 1.0F;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
  return sum * std::bit_cast<float>(exponent);
}

// The sum of exp((v - best) / temperature) over values that are at most best. What is rounded, or
// added for small ones and for the rest of the last block, is below kTotalError of it, for it is at
// least 1.
constexpr double kTotalError = 1e-4;
double ApproximateTotal(std::span<const float> values, float best, float temperature) {
  constexpr std::size_t kBlock = 256, kLanes = 4;
  std::array<float, kBlock> weights;
  double total = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - begin);
    const float* block = values.data() + begin;
    weights.fill(kSmallest);
    for (std::size_t i = 0; i < count; ++i) {
      const float x = (block[i] - best) / temperature;
      weights[i] = x > kSmallest ? x : kSmallest;  // also for NaN, which -inf / inf gives
    }
    for (float& weight : weights) weight = FastExp(weight);
    std::array<float, kLanes> lane{};
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      for (std::size_t j = 0; j < kLanes; ++j) lane[j] += weights[i + j];
    }
    for (const float sum : lane) total += static_cast<double>(sum);
  }
  return total;
}

// Values whose bit is not set become minus infinity.
void Mask(std::span<float> values, std::span<const std::uint32_t> allowed) {
  constexpr std::size_t kBits = 32;
  for (std::size_t begin = 0; begin < values.size(); begin += kBits) {
    const std::size_t word_idx = begin / kBits;
    const std::uint32_t word = word_idx < allowed.size() ? allowed[word_idx] : 0;
    if (word == ~std::uint32_t{0}) continue;
    const std::size_t count = std::min(kBits, values.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      if ((word >> i & 1U) == 0) values[begin + i] = kNever;
    }
  }
}

// Weights of candidates relative to the best one, and their sum. The sum over a whole vocabulary is
// approximate until a comparison is too close for that.
class Softmax {
 public:
  Softmax(std::span<const float> values, float best, float temperature)
      : values_(values), best_(best), temperature_(temperature) {}

  double Weight(float value) const {
    return PortableExp((static_cast<double>(value) - static_cast<double>(best_)) /
                       static_cast<double>(temperature_));
  }
  // The sum is over these candidates alone, in this order.
  void UseTotalOf(std::span<const RankedLogit> candidates) {
    exact_ = 0;
    for (const RankedLogit& c : candidates) exact_ += Weight(c.value);
    is_exact_ = true;
  }
  // kept >= share * total, as if total were summed in doubles in the order of ids.
  bool Reaches(double kept, double share) { return Compare(kept, share) >= 0; }
  // sum > share * total.
  bool Exceeds(double sum, double share) { return Compare(sum, share) > 0; }

 private:
  // The sign of part - share * total.
  int Compare(double part, double share) {
    if (!is_exact_) {
      if (approximate_ == 0) approximate_ = ApproximateTotal(values_, best_, temperature_);
      const double goal = share * approximate_;
      if (part > goal * (1 + kTotalError)) return 1;
      if (part < goal * (1 - kTotalError)) return -1;
      exact_ = 0;
      for (const float value : values_) {
        if (value > kNever) exact_ += Weight(value);
      }
      is_exact_ = true;
    }
    const double goal = share * exact_;
    return part > goal ? 1 : (part < goal ? -1 : 0);
  }

  std::span<const float> values_;
  float best_, temperature_;
  double approximate_ = 0, exact_ = 0;
  bool is_exact_ = false;
};

}  // namespace

Sampler::Sampler(const SamplerOptions& options, std::vector<std::int32_t> suppress_ids)
    : options_(options), suppress_ids_(std::move(suppress_ids)), state_(options.seed) {
  std::sort(suppress_ids_.begin(), suppress_ids_.end());
  suppress_ids_.erase(std::unique(suppress_ids_.begin(), suppress_ids_.end()), suppress_ids_.end());
}

bool Sampler::has_penalties() const {
  const bool repetition = options_.repetition_penalty > 0 && options_.repetition_penalty != 1;
  return repetition || options_.presence_penalty != 0 || options_.frequency_penalty != 0;
}

std::int32_t Sampler::Sample(std::span<const float> logits, std::span<const std::int32_t> history,
                             std::span<const std::uint32_t> allowed) {
  const bool greedy = !(options_.temperature > 0) || options_.top_k == 1;
  if (greedy && !has_penalties() && allowed.empty()) return Best(logits);
  CopyAllowed(logits, allowed);
  if (has_penalties()) Penalize(history);
  if (greedy) return Best(values_);
  ranking_.Reset(values_);
  return ranking_.num_candidates() == 0 ? -1 : Draw();
}

// The best id that is not suppressed: the ranges between suppressed ids, one after the other.
std::int32_t Sampler::Best(std::span<const float> values) const {
  float best = kNever;
  std::span<const float> best_range;
  std::size_t begin = 0;
  const auto look = [&](std::size_t end) {
    if (end <= begin) return;
    const std::span<const float> range = values.subspan(begin, end - begin);
    const float max = std::min(MaxLogit(range), kMax);
    if (max > best) {
      best = max;
      best_range = range;
    }
  };
  for (const std::int32_t id : suppress_ids_) {
    if (id < 0) continue;
    const auto at = static_cast<std::size_t>(id);
    if (at >= values.size()) break;
    look(at);
    begin = at + 1;
  }
  look(values.size());
  if (best_range.empty()) return -1;
  const std::size_t first = FirstAtLeast(best_range, best);
  return static_cast<std::int32_t>(best_range.data() - values.data()) +
         static_cast<std::int32_t>(first);
}

// values_ are the logits, none over the largest float; NaN, suppressed and masked ids are minus
// infinity.
void Sampler::CopyAllowed(std::span<const float> logits, std::span<const std::uint32_t> allowed) {
  values_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float limited = logits[i] < kMax ? logits[i] : kMax;
    values_[i] = logits[i] == logits[i] ? limited : kNever;
  }
  for (const std::int32_t id : suppress_ids_) {
    if (id >= 0 && static_cast<std::size_t>(id) < values_.size()) {
      values_[static_cast<std::size_t>(id)] = kNever;
    }
  }
  if (!allowed.empty()) Mask(values_, allowed);
}

void Sampler::Penalize(std::span<const std::int32_t> history) {
  const float repetition = options_.repetition_penalty > 0 ? options_.repetition_penalty : 1;
  counts_.resize(values_.size(), 0);
  for (const std::int32_t id : history) {
    if (id < 0 || static_cast<std::size_t>(id) >= counts_.size()) continue;
    if (counts_[static_cast<std::size_t>(id)]++ == 0) counted_.push_back(id);
  }
  for (const std::int32_t id : counted_) {
    float& logit = values_[static_cast<std::size_t>(id)];
    std::int32_t& count = counts_[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / repetition : logit * repetition;
    logit -= options_.presence_penalty + options_.frequency_penalty * static_cast<float>(count);
    logit = std::isnan(logit) ? kNever : std::min(logit, kMax);
    count = 0;
  }
  counted_.clear();
}

// Draws from values_, of which at least one is a candidate.
std::int32_t Sampler::Draw() {
  Softmax softmax(values_, ranking_.best(), options_.temperature);
  std::size_t num_candidates = ranking_.num_candidates();
  if (options_.top_k > 0 && static_cast<std::size_t>(options_.top_k) < num_candidates) {
    num_candidates = static_cast<std::size_t>(options_.top_k);
    softmax.UseTotalOf(ranking_.Top(num_candidates).first(num_candidates));
  }
  std::span<const RankedLogit> sorted;  // the best, in order; grows by doubling
  const auto candidate = [&](std::size_t i) {
    if (i >= sorted.size()) {
      sorted = ranking_.Top(std::min(num_candidates, std::max<std::size_t>(64, 2 * i)));
    }
    return sorted[i];
  };

  // Both cuts keep a prefix of the sorted candidates, and at least the best one.
  const double top_p = options_.top_p > 0 ? options_.top_p : 0;
  const double min_weight = options_.min_p;  // the best candidate weighs 1
  const bool cut = top_p < 1 || min_weight > 0;
  weights_.clear();
  double kept = 0;
  const auto take = [&](double weight) {
    weights_.push_back(weight);
    kept += weight;
  };
  take(softmax.Weight(candidate(0).value));
  while (cut && weights_.size() < num_candidates) {
    if (top_p < 1 && softmax.Reaches(kept, top_p)) break;
    const double weight = softmax.Weight(candidate(weights_.size()).value);
    if (weight < min_weight) break;
    take(weight);
  }

  const double uniform = static_cast<double>(NextRandom(state_) >> 11) * 0x1.0p-53;
  const double target = uniform * kept;
  const std::size_t limit = cut ? weights_.size() : num_candidates;
  double sum = 0;
  for (std::size_t i = 0; i < limit; ++i) {
    if (i == weights_.size()) take(softmax.Weight(candidate(i).value));
    sum += weights_[i];
    if (cut ? sum > target : softmax.Exceeds(sum, uniform)) return candidate(i).id;
  }
  return candidate(limit - 1).id;
}

}  // namespace hone::runtime
