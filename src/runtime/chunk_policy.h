// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How many prompt rows a step may carry, so that those who decode do not wait long for their next
// token.
#pragma once

#include <cstdint>
#include <vector>

namespace hone::runtime {

struct ChunkPolicyOptions {
  // A step aims at this many times the time of one sequence that decodes alone. It should stay
  // below 4, and measured times vary.
  double target = 3.0;
  // Both at least 1; less counts as 1.
  std::int64_t min_rows = 4;    // a prompt goes on even where there is no room
  std::int64_t max_rows = 256;  // when nobody decodes
};

// Learns from the steps that were run. Pure: no clock, no threads.
class ChunkPolicy {
 public:
  explicit ChunkPolicy(const ChunkPolicyOptions& options = {});

  // Prompt rows of the next step, in which decode_rows sequences decode. 0 now and then: the step
  // shall show what decoding alone costs.
  std::int64_t PromptRows(std::int64_t decode_rows) const;

  // A step took this long. No time at all, from a clock with long ticks, counts as a tiny time.
  void Record(std::int64_t decode_rows, std::int64_t prompt_rows, double seconds);

  // What a step of decode_rows sequences alone takes; 0: not known.
  double DecodeSeconds(std::int64_t decode_rows) const;
  // What one sequence alone takes; 0: not known.
  double SoloSeconds() const;

 private:
  ChunkPolicyOptions options_;
  std::vector<double> decode_;  // seconds by number of rows; 0: not known
  double row_ = 0;              // seconds a row of a step of prompts alone; 0: not known
  // Of the last step in which others decoded and prompts went on.
  std::int64_t last_rows_ = 0;
  double last_seconds_ = 0;
  double last_decode_ = 0;               // DecodeSeconds of its rows
  std::int64_t steps_since_decode_ = 0;  // such steps since one without prompt rows
};

}  // namespace hone::runtime
