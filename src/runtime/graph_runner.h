// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs steps by the graph of a bundle, operator by operator: slow, for bundles that cannot be
// lifted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

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
std::unique_ptr<SequenceRunner> MakeGraphSequence(std::unique_ptr<executor::BundleRunner> graph);

}  // namespace hone::runtime
