// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Works out the table of rotary frequencies from what a checkpoint says about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/decoder_spec.h"

namespace hone::model {

enum class RopeKind : std::uint8_t { kDefault, kLinear, kLlama3, kYarn, kDynamic, kLongRope };

// What a configuration says. Fields that a kind does not use are ignored.
struct RopeFacts {
  RopeKind kind = RopeKind::kDefault;
  double theta = 0;
  double factor = 1;
  double original_positions = 0;                     // llama3, YaRN, dynamic, LongRoPE
  double low_freq_factor = 0, high_freq_factor = 0;  // llama3
  double beta_fast = 32, beta_slow = 1;              // YaRN
  bool truncate = true;                              // YaRN
  std::optional<double> attention_factor;            // YaRN, LongRoPE: replaces the formula
  double mscale = 0, mscale_all_dim = 0;             // YaRN: both non-zero change the formula
  double alpha = 1;                                  // dynamic: a theta for every length
  double max_positions = 0;                          // LongRoPE
  std::vector<float> short_factor, long_factor;      // LongRoPE, [rotary_dim / 2]
  // LongRoPE: one list for every length, chosen by max_positions. Else chosen by the length.
  bool by_max_positions = false;
  double rotary_fraction = 1;  // of head_dim, as int(head_dim * rotary_fraction)
};

// Reads rope_theta, partial_rotary_factor, rope_scaling (keys "type" or "rope_type") or
// rope_parameters of config.json. Refuses kinds that Hone cannot compute, missing factors, and two
// places that disagree.
Result<RopeFacts> ReadRopeFacts(const Json& config, std::int64_t max_positions,
                                std::vector<std::string>* warnings);

// As transformers computes them: float32 steps in the same order. head_dim is even and positive.
// kDataLoss if the facts give no finite frequencies.
Result<RopeTable> MakeRopeTable(const RopeFacts& facts, std::int64_t head_dim);

// The table for a sequence of this length, without by_length: what transformers uses in one forward
// pass over length ids.
RopeTable RopeForLength(const RopeTable& table, std::int64_t length);

}  // namespace hone::model
