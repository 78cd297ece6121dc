// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What runs the rows of a step: our kernels, or the graph of a bundle, operator by operator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace hone::runtime {

class KvCache;

// The cache of one sequence. One thread at a time.
class SequenceRunner {
 public:
  virtual ~SequenceRunner() = default;
  // Forgets positions from size on.
  virtual void Truncate(std::int64_t size) = 0;
  // Its pages; null if it keeps keys and values in another form.
  virtual KvCache* kv_cache() { return nullptr; }
};

// Rows of one sequence in a step.
struct SequenceRows {
  SequenceRunner* sequence = nullptr;    // of the runner that gets the rows
  std::span<const std::int32_t> tokens;  // ids inside the vocabulary, at least one
  std::int64_t first_position = 0;       // of tokens[0]; as many tokens are held already
  // What the sequence holds after the prompt that the tokens are of: frequencies that change with
  // the length follow it.
  std::int64_t length = 0;
  // Logits of the rows from this one on are asked for; tokens.size(): of none.
  std::int64_t first_logits_row = 0;
};

// A loaded model that can run sequences, which must not outlive it. One thread at a time.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual Result<std::unique_ptr<SequenceRunner>> NewSequence() = 0;
  // Appends the tokens of every part; each sequence is in one part at most. logits receives the
  // rows asked for, vocab floats each, in part order; may be null if there are none. A sequence's
  // results do not depend on the other parts. kCancelled if cancel became true. A failure leaves
  // positions from first_position on undefined in every sequence: Truncate forgets them.
  virtual Status Run(std::span<const SequenceRows> parts, float* logits,
                     const std::atomic<bool>* cancel) = 0;
  // Names of the kernels that its linears were packed for, each once; empty: it has none.
  virtual std::vector<std::string> KernelNames() const { return {}; }
};

}  // namespace hone::runtime
