// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The twin of Sampler for its tests: the same choices in the plainest way, with all candidates
// copied and sorted.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/sampler.h"

namespace hone::runtime {

class SamplerTwin {
 public:
  SamplerTwin(const SamplerOptions& options, std::vector<std::int32_t> suppress_ids);
  // As Sampler::Sample.
  std::int32_t Sample(std::span<const float> logits, std::span<const std::int32_t> history);

 private:
  void Penalize(std::span<const std::int32_t> history);
  std::int32_t Draw();

  SamplerOptions options_;
  std::vector<std::int32_t> suppress_ids_;
  std::uint64_t state_;
  std::vector<std::pair<float, std::int32_t>> work_;
  std::vector<double> weights_;
};

}  // namespace hone::runtime
