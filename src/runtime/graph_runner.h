// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs steps by the graph of a bundle, operator by operator: slow, for bundles that cannot be
// lifted.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "executor/executor.h"
#include "formats/litertlm/litertlm.h"
#include "runtime/step_runner.h"

namespace hone::runtime {

struct GraphRunner {
  std::unique_ptr<StepRunner> runner;
  std::int64_t context = 0, vocab = 0;
};

// Every sequence has its own caches and its own view of the bundle.
Result<GraphRunner> MakeGraphRunner(std::shared_ptr<const formats::litertlm::Bundle> bundle);

// A sequence on an open graph. Rows whose logits nobody asks for are prefilled with the signatures
// of the bundle: the longest that is full, then the shortest that holds the rest; where none fits
// into the context, and for all other rows, the decode signature runs one token at a time.
class GraphSequence : public SequenceRunner {
 public:
  explicit GraphSequence(std::unique_ptr<executor::BundleRunner> graph);
  // Appends rows.tokens; logits as in StepRunner::Run.
  Status Run(const SequenceRows& rows, float* logits, const std::atomic<bool>* cancel);
  void Truncate(std::int64_t size) override;

 private:
  std::int64_t ChooseLength(std::int64_t left) const;
  Status Decode(std::int32_t id, float* out, const std::atomic<bool>* cancel);

  std::unique_ptr<executor::BundleRunner> graph_;
};

}  // namespace hone::runtime
