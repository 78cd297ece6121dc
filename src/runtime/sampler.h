// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Chooses the next token from logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/ranked_logits.h"

namespace hone::runtime {

struct SamplerOptions {
  float temperature = 0;   // 0: greedy (ties: the lowest id)
  std::int32_t top_k = 0;  // 0: off
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::uint64_t seed = 0;
};

// Order: suppressed ids and those that a mask does not allow out, penalties, temperature, top-k,
// top-p, min-p, draw. The same options, seed and logits give the same ids on every machine. One
// thread at a time. Twin: SamplerTwin.
class Sampler {
 public:
  Sampler(const SamplerOptions& options, std::vector<std::int32_t> suppress_ids);
  // history: tokens that the penalties look at (the prompt and what was generated). NaN logits and
  // those of minus infinity are never chosen; -1 if nothing is left to choose from. allowed: bit
  // id % 32 of word id / 32 says whether an id may be chosen, ids beyond may not; empty: all may.
  // Greedy without penalties and mask reads the logits once and copies nothing.
  std::int32_t Sample(std::span<const float> logits, std::span<const std::int32_t> history,
                      std::span<const std::uint32_t> allowed = {});

 private:
  bool has_penalties() const;
  std::int32_t Best(std::span<const float> values) const;
  void CopyAllowed(std::span<const float> logits, std::span<const std::uint32_t> allowed);
  void Penalize(std::span<const std::int32_t> history);
  std::int32_t Draw();

  SamplerOptions options_;
  std::vector<std::int32_t> suppress_ids_;  // sorted, each once
  std::uint64_t state_;
  std::vector<float> values_;  // [vocab] logits after penalties; minus infinity: not allowed
  LogitRanking ranking_;
  std::vector<double> weights_;        // of the first candidates in order
  std::vector<std::int32_t> counts_;   // [vocab], zero between calls
  std::vector<std::int32_t> counted_;  // ids whose counts_ are not zero
};

}  // namespace hone::runtime
