// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Guesses the next tokens from the text itself (prompt lookup): what followed the last time that
// the same few tokens stood there. No second model; whoever uses a guess verifies it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace hone::runtime {

// Most tokens of one guess.
inline constexpr int kMaxDraft = 7;

struct Draft {
  std::span<const std::int32_t> tokens;  // empty: no guess
  int matched = 0;                       // tokens before it that stood there earlier, too
};

// Where the n-grams of a text occurred last, by hash. A token costs a few table entries; memory is
// below 1 MB plus 4 bytes a token. One thread at a time.
class DraftIndex {
 public:
  static constexpr int kMinGram = 2, kMaxGram = 4;

  // max_tokens: how long the text may become; it may be longer.
  explicit DraftIndex(std::int64_t max_tokens);
  void Append(std::int32_t id);
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  // What followed the last earlier occurrence of the longest n-gram that ends the text. Where that
  // reaches the end of the text it goes on with the guess itself: a loop. At most max_tokens and
  // kMaxDraft. Valid until the next Propose.
  Draft Propose(int max_tokens);

 private:
  std::size_t Slot(int gram) const;  // of the gram tokens that end the text

  std::vector<std::int32_t> tokens_;
  // For each length of n-gram: 1 + the position after its last occurrence, 0: none.
  std::array<std::vector<std::int32_t>, kMaxGram - kMinGram + 1> after_;
  std::array<std::int32_t, kMaxDraft> guess_{};
};

// Decides how many guessed tokens to verify, from what steps of so many rows cost and how often
// guesses came true. Only the speed depends on its decisions. One thread at a time.
class DraftPacer {
 public:
  // 0 (a plain step pays best), 1, 3 or 7 of the available tokens.
  int Choose(int matched, int available);
  // A step of rows (the last token and the guessed ones) took so long.
  void CountStep(int rows, double seconds);
  // Of drafted tokens the first accepted ones came true and the next one, if there is one, did not.
  void CountOutcome(int matched, int drafted, int accepted);

 private:
  double Cost(int rows) const;  // in plain steps

  double plain_seconds_ = 0;  // of a step of one row
  int plain_steps_ = 0, steps_since_plain_ = 0;
  std::array<double, kMaxDraft + 2> cost_{};  // [rows], in plain steps; 0: never measured
  std::array<double, DraftIndex::kMaxGram + 1> hit_rate_{0, 0, 0.1, 0.25, 0.5};  // [matched]
  std::array<int, DraftIndex::kMaxGram + 1> trials_{};
};

enum class Speculation : std::uint8_t {
  kAuto,  // while it pays
  kOff,
  kOn,  // verify every guess
};

// Index and pacer together. While a guess is not worth verifying it is compared with the tokens
// that come, so that the hit rate is known without running it.
class Speculator {
 public:
  Speculator(Speculation mode, std::int64_t max_tokens);
  // The text's next token.
  void Append(std::int32_t id);
  // Tokens to run after the last one: at most limit, often none. Valid until the next Propose.
  std::span<const std::int32_t> Propose(std::int64_t limit);
  // What the step with the last proposal (or a plain step) cost.
  void CountStep(double seconds);
  // So many of the last proposal came true; the next one, if there is one, did not.
  void CountAccepted(int accepted);

 private:
  Speculation mode_;
  DraftIndex index_;
  DraftPacer pacer_;
  Draft proposal_;
  // A guess that is compared only.
  std::array<std::int32_t, kMaxDraft> watched_{};
  int watched_size_ = 0, watched_hits_ = 0, watched_match_ = 0;
};

}  // namespace hone::runtime
