// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A step's time grows with its prompt rows at most in proportion: a part of it does not grow at
// all. So rows times (aim / last time) never miss the aim from below, whatever the machine waits
// for.
#include "runtime/chunk_policy.h"

#include <algorithm>
#include <cmath>

namespace hone::runtime {
namespace {

// The largest number of rows whose time is kept apart.
constexpr std::int64_t kMaxDecodeRows = 64;
// Steps after which decoding alone is measured again.
constexpr std::int64_t kMeasureAgain = 64;
// Share of a new measurement in an average.
constexpr double kShare = 0.3;
// Rows from which a chunk shows what a prompt row costs at most.
constexpr std::int64_t kManyRows = 64;
// Bounds of what one step's time changes: it may have been held up.
constexpr double kMostGrowth = 1.5;
constexpr double kMostShrinking = 0.5;
// What another sequence adds to a step at most, in times of one alone: a guess as long as one alone
// was never seen.
constexpr double kRowGuess = 0.25;

// Stands for a time that the clock did not see. No step is that short.
constexpr double kUnseenSeconds = 1e-9;

// A step that another process held up counts as twice as long at most.
double Average(double old, double seconds) {
  if (old <= kUnseenSeconds) return seconds;
  return old + kShare * (std::min(seconds, 2 * old) - old);
}

std::size_t Slot(std::int64_t decode_rows) {
  return static_cast<std::size_t>(std::clamp<std::int64_t>(decode_rows, 0, kMaxDecodeRows));
}

}  // namespace

ChunkPolicy::ChunkPolicy(const ChunkPolicyOptions& options)
    : options_(options), decode_(static_cast<std::size_t>(kMaxDecodeRows) + 1) {
  options_.min_rows = std::max<std::int64_t>(options_.min_rows, 1);
  options_.max_rows = std::max<std::int64_t>(options_.max_rows, 1);
}

double ChunkPolicy::DecodeSeconds(std::int64_t decode_rows) const {
  return decode_[Slot(decode_rows)];
}

double ChunkPolicy::SoloSeconds() const {
  double solo = decode_[1];
  for (std::size_t rows = 2; rows < decode_.size(); ++rows) {
    if (decode_[rows] <= 0) continue;
    if (decode_[1] > 0) {
      solo = std::min(solo, decode_[rows]);  // more rows never take less
    } else {
      const double guess = decode_[rows] / (1 + kRowGuess * static_cast<double>(rows - 1));
      solo = solo > 0 ? std::min(solo, guess) : guess;
    }
  }
  return solo;
}

std::int64_t ChunkPolicy::PromptRows(std::int64_t decode_rows) const {
  if (decode_rows == 0) return options_.max_rows;
  const double decode = DecodeSeconds(decode_rows);
  if (decode <= 0 || steps_since_decode_ >= kMeasureAgain) return 0;
  const double aim = options_.target * SoloSeconds();
  double rows = static_cast<double>(options_.min_rows);
  if (last_rows_ > 0) {
    const double seconds = last_seconds_ + std::max(0.0, decode - last_decode_);
    rows = static_cast<double>(last_rows_) * std::clamp(aim / seconds, kMostShrinking, kMostGrowth);
  } else if (row_ > 0) {
    rows = (aim - decode) / row_;
  }
  // As a double first: a row may cost next to nothing.
  rows = std::clamp(rows, static_cast<double>(options_.min_rows),
                    static_cast<double>(std::max(options_.min_rows, options_.max_rows)));
  return std::lround(rows);
}

void ChunkPolicy::Record(std::int64_t decode_rows, std::int64_t prompt_rows, double seconds) {
  if (decode_rows + prompt_rows == 0) return;
  if (!(seconds > kUnseenSeconds)) seconds = kUnseenSeconds;
  if (prompt_rows == 0) {
    double& decode = decode_[Slot(decode_rows)];
    decode = Average(decode, seconds);
    steps_since_decode_ = 0;
  } else if (decode_rows > 0) {
    ++steps_since_decode_;
    // The end of a prompt: it says little about what more rows take.
    if (static_cast<double>(prompt_rows) < kMostShrinking * static_cast<double>(last_rows_)) return;
    last_rows_ = prompt_rows;
    last_seconds_ = seconds;
    last_decode_ = DecodeSeconds(decode_rows);
  } else if (prompt_rows >= kManyRows) {
    row_ = Average(row_, seconds / static_cast<double>(prompt_rows));
  }
}

}  // namespace hone::runtime
