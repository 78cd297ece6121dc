// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/draft.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace hone::runtime {
namespace {

// Moves an average towards a new value.
void Blend(double& average, double value, double share) { average += share * (value - average); }

// What a step of more rows costs as long as nobody has measured it: a little more than a plain one,
// whose time goes to reading the weights.
double GuessedCost(int rows) { return 1.0 + 0.05 * (rows - 1); }

}  // namespace

DraftIndex::DraftIndex(std::int64_t max_tokens) {
  const auto wanted = static_cast<std::size_t>(std::clamp<std::int64_t>(max_tokens, 128, 32768));
  for (auto& table : after_) table.resize(std::bit_ceil(2 * wanted), 0);
}

std::size_t DraftIndex::Slot(int gram) const {
  std::uint64_t hash = 0;
  for (auto i = tokens_.size() - static_cast<std::size_t>(gram); i < tokens_.size(); ++i) {
    hash = (hash + static_cast<std::uint32_t>(tokens_[i]) + 1) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32U;
  }
  return static_cast<std::size_t>(hash) & (after_[0].size() - 1);
}

void DraftIndex::Append(std::int32_t id) {
  for (int gram = kMinGram; gram <= kMaxGram && size() >= gram; ++gram) {
    after_[static_cast<std::size_t>(gram - kMinGram)][Slot(gram)] =
        static_cast<std::int32_t>(tokens_.size()) + 1;
  }
  tokens_.push_back(id);
}

Draft DraftIndex::Propose(int max_tokens) {
  const int count = std::min(max_tokens, kMaxDraft);
  for (int gram = kMaxGram; gram >= kMinGram && count > 0; --gram) {
    if (size() <= gram) continue;
    const std::int32_t entry = after_[static_cast<std::size_t>(gram - kMinGram)][Slot(gram)];
    if (entry == 0) continue;
    const auto after = static_cast<std::ptrdiff_t>(entry - 1);
    if (!std::equal(tokens_.end() - gram, tokens_.end(), tokens_.begin() + after - gram)) continue;
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(after) + static_cast<std::size_t>(i);
      guess_[static_cast<std::size_t>(i)] =
          at < tokens_.size() ? tokens_[at] : guess_[at - tokens_.size()];
    }
    return {std::span<const std::int32_t>(guess_).first(static_cast<std::size_t>(count)), gram};
  }
  return {};
}

double DraftPacer::Cost(int rows) const {
  if (rows <= 1) return 1.0;
  const auto at = [&](int r) { return cost_[static_cast<std::size_t>(r)]; };
  if (at(rows) > 0) return at(rows);
  double cost = GuessedCost(rows);
  for (int r = 2; r < rows; ++r) cost = std::max(cost, at(r));
  return cost;
}

int DraftPacer::Choose(int matched, int available) {
  if (plain_steps_ < 2) return 0;
  if (steps_since_plain_ >= 64) return 0;  // what a plain step costs changes with the context
  const double hit_rate = hit_rate_[static_cast<std::size_t>(matched)];
  double best_speed = 1.05;  // a gain that is smaller may be noise
  int best = 0;
  for (const int drafted : {1, 3, 7}) {
    if (drafted > available) break;
    double tokens = 1, chance = 1;
    for (int i = 0; i < drafted; ++i) tokens += chance *= hit_rate;
    if (const double speed = tokens / Cost(drafted + 1); speed > best_speed) {
      best_speed = speed;
      best = drafted;
    }
    // A cost that looked bad once is forgotten slowly, or it would never be measured again.
    double& cost = cost_[static_cast<std::size_t>(drafted) + 1];
    if (cost > GuessedCost(drafted + 1) && best != drafted) {
      Blend(cost, GuessedCost(drafted + 1), 0.002);
    }
  }
  return best;
}

void DraftPacer::CountStep(int rows, double seconds) {
  if (rows <= 1) {
    if (plain_steps_ == 0) plain_seconds_ = seconds;
    ++plain_steps_;
    steps_since_plain_ = 0;
    Blend(plain_seconds_, seconds, 0.2);
    return;
  }
  ++steps_since_plain_;
  if (plain_seconds_ <= 0 || rows > kMaxDraft + 1) return;
  double& cost = cost_[static_cast<std::size_t>(rows)];
  const double measured = seconds / plain_seconds_;
  if (cost == 0) cost = measured;
  Blend(cost, measured, 0.2);
}

void DraftPacer::CountOutcome(int matched, int drafted, int accepted) {
  const auto at = static_cast<std::size_t>(matched);
  // The first guess of the rate weighs as much as two outcomes; old outcomes are forgotten slowly.
  const auto count = [&](double hit) {
    trials_[at] = std::min(trials_[at] + 1, 20);
    Blend(hit_rate_[at], hit, 1.0 / (trials_[at] + 2));
  };
  for (int i = 0; i < accepted; ++i) count(1.0);
  if (accepted < drafted) count(0.0);
}

Speculator::Speculator(Speculation mode, std::int64_t max_tokens)
    : mode_(mode), index_(max_tokens) {}

void Speculator::Append(std::int32_t id) {
  index_.Append(id);
  if (watched_size_ == 0) return;
  const bool hit = watched_[static_cast<std::size_t>(watched_hits_)] == id;
  if (hit) ++watched_hits_;
  if (!hit || watched_hits_ == watched_size_) {
    pacer_.CountOutcome(watched_match_, watched_size_, watched_hits_);
    watched_size_ = 0;
  }
}

std::span<const std::int32_t> Speculator::Propose(std::int64_t limit) {
  proposal_ = {};
  if (mode_ == Speculation::kOff || limit <= 0) return {};
  const Draft draft = index_.Propose(static_cast<int>(std::min<std::int64_t>(limit, kMaxDraft)));
  if (draft.tokens.empty()) return {};
  int count = static_cast<int>(draft.tokens.size());
  if (mode_ == Speculation::kAuto) count = pacer_.Choose(draft.matched, count);
  if (count > 0) {
    proposal_ = {draft.tokens.first(static_cast<std::size_t>(count)), draft.matched};
    watched_size_ = 0;
  } else if (watched_size_ == 0) {
    std::copy(draft.tokens.begin(), draft.tokens.end(), watched_.begin());
    watched_size_ = static_cast<int>(draft.tokens.size());
    watched_hits_ = 0;
    watched_match_ = draft.matched;
  }
  return proposal_.tokens;
}

void Speculator::CountStep(double seconds) {
  pacer_.CountStep(static_cast<int>(proposal_.tokens.size()) + 1, seconds);
}

void Speculator::CountAccepted(int accepted) {
  if (proposal_.tokens.empty()) return;
  pacer_.CountOutcome(proposal_.matched, static_cast<int>(proposal_.tokens.size()), accepted);
  proposal_ = {};
}

}  // namespace hone::runtime
