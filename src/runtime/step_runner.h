// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What runs the rows of a step: our kernels, or the graph of a bundle, operator by operator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"

namespace hone::runtime {

// Rows of one step part.
struct StepRows {
  std::span<const std::int32_t> tokens;  // ids inside the vocabulary, at least one
  std::int64_t first_position = 0;       // of tokens[0]; as many tokens are held already
  // Rows from this one on are asked for: logits receives vocab floats for each. May be null if
  // there are none.
  std::int64_t first_logits_row = 0;
  float* logits = nullptr;
};

// The cache of one sequence and how to go on with it. One thread at a time.
class SequenceRunner {
 public:
  virtual ~SequenceRunner() = default;
  // Appends the tokens. kCancelled if cancel became true. A failure leaves positions from
  // first_position on undefined: Truncate forgets them.
  virtual Status Run(const StepRows& rows, const std::atomic<bool>* cancel) = 0;
  // Forgets positions from size on.
  virtual void Truncate(std::int64_t size) = 0;
};

// A loaded model that can run sequences, which must not outlive it.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual Result<std::unique_ptr<SequenceRunner>> NewSequence() = 0;
};

}  // namespace hone::runtime
