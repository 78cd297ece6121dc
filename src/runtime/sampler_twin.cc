// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler_twin.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace hone::runtime {
namespace {

using Candidate = std::pair<float, std::int32_t>;  // logit, id

bool Better(const Candidate& a, const Candidate& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

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

// work[0 .. *num_sorted) are the best candidates in order. Sorts more, doubling, until at least
// count are.
void ExtendSorted(std::vector<Candidate>& work, std::size_t& num_sorted, std::size_t count) {
  count = std::min(count, work.size());
  if (num_sorted >= count) return;
  const std::size_t next =
      std::min(work.size(), std::max({count, num_sorted * 2, std::size_t{128}}));
  std::partial_sort(work.begin() + static_cast<std::ptrdiff_t>(num_sorted),
                    work.begin() + static_cast<std::ptrdiff_t>(next), work.end(), Better);
  num_sorted = next;
}

}  // namespace

SamplerTwin::SamplerTwin(const SamplerOptions& options, std::vector<std::int32_t> suppress_ids)
    : options_(options), suppress_ids_(std::move(suppress_ids)), state_(options.seed) {}

std::int32_t SamplerTwin::Sample(std::span<const float> logits,
                                 std::span<const std::int32_t> history) {
  constexpr float kMax = std::numeric_limits<float>::max();
  work_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    work_[i] = {std::min(logits[i], kMax), static_cast<std::int32_t>(i)};
    if (std::isnan(logits[i])) work_[i].first = -std::numeric_limits<float>::infinity();
  }
  for (const std::int32_t id : suppress_ids_) {
    if (id >= 0 && static_cast<std::size_t>(id) < work_.size()) {
      work_[static_cast<std::size_t>(id)].first = -std::numeric_limits<float>::infinity();
    }
  }
  Penalize(history);
  std::erase_if(work_, [](const Candidate& c) { return !(c.first >= -kMax); });
  if (work_.empty()) return -1;
  if (!(options_.temperature > 0) || options_.top_k == 1) {
    return std::min_element(work_.begin(), work_.end(), Better)->second;
  }
  return Draw();
}

void SamplerTwin::Penalize(std::span<const std::int32_t> history) {
  const float repetition = options_.repetition_penalty > 0 ? options_.repetition_penalty : 1;
  if (repetition == 1 && options_.presence_penalty == 0 && options_.frequency_penalty == 0) return;
  std::unordered_map<std::int32_t, std::int32_t> counts;
  for (const std::int32_t id : history) {
    if (id >= 0 && static_cast<std::size_t>(id) < work_.size()) ++counts[id];
  }
  for (const auto& [id, count] : counts) {
    float& logit = work_[static_cast<std::size_t>(id)].first;
    logit = logit > 0 ? logit / repetition : logit * repetition;
    logit -= options_.presence_penalty + options_.frequency_penalty * static_cast<float>(count);
    logit = std::min(logit, std::numeric_limits<float>::max());  // NaN stays NaN
  }
}

// Draws from work_, which holds at least one finite candidate, in the order of ids.
std::int32_t SamplerTwin::Draw() {
  std::size_t num_sorted = 0;
  if (options_.top_k > 0 && static_cast<std::size_t>(options_.top_k) < work_.size()) {
    ExtendSorted(work_, num_sorted, static_cast<std::size_t>(options_.top_k));
    work_.resize(static_cast<std::size_t>(options_.top_k));
    num_sorted = work_.size();
  }
  const double best = std::min_element(work_.begin(), work_.end(), Better)->first;
  const auto weight = [&](const Candidate& c) {
    return PortableExp((static_cast<double>(c.first) - best) / options_.temperature);
  };
  double total = 0;
  for (const Candidate& c : work_) total += weight(c);

  // Both cuts keep a prefix of the sorted candidates, and at least the best one.
  const double top_p = options_.top_p > 0 ? options_.top_p : 0;
  const double min_weight = options_.min_p;  // the best candidate weighs 1
  const bool cut = top_p < 1 || min_weight > 0;
  weights_.clear();
  double kept = 0;
  const auto take = [&](std::size_t i) {
    ExtendSorted(work_, num_sorted, i + 1);
    weights_.push_back(weight(work_[i]));
    kept += weights_.back();
  };
  take(0);
  while (cut && weights_.size() < work_.size()) {
    if (top_p < 1 && kept >= top_p * total) break;
    const std::size_t i = weights_.size();
    ExtendSorted(work_, num_sorted, i + 1);
    if (weight(work_[i]) < min_weight) break;
    take(i);
  }

  const double uniform = static_cast<double>(NextRandom(state_) >> 11) * 0x1.0p-53;
  const double target = uniform * (cut ? kept : total);
  const std::size_t limit = cut ? weights_.size() : work_.size();
  double sum = 0;
  for (std::size_t i = 0; i < limit; ++i) {
    if (i == weights_.size()) take(i);
    sum += weights_[i];
    if (sum > target) return work_[i].second;
  }
  return work_[limit - 1].second;
}

}  // namespace hone::runtime
