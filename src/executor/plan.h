// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A model's subgraphs, checked and ready to run.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "executor/executor.h"
#include "executor/node.h"

namespace hone::executor {

struct Step {
  std::size_t number = 0;  // of the operator, for messages
  const OpFacts* facts = nullptr;
  Node node;
  std::int32_t body = -1;              // subgraph of a composite
  std::vector<std::int32_t> released;  // tensors that nothing reads after this step
};

struct GraphPlan {
  std::vector<TensorInfo> tensors;  // sound only if a step, an input or an output names them
  std::vector<Step> steps;
  std::uint64_t peak_bytes = 0;  // of computed tensors at one time, bodies included
  double work = 0;               // of one run, bodies included
};

// What Program holds. Read-only after Build.
class Plan {
 public:
  static Result<std::shared_ptr<const Plan>> Build(const formats::tflite::Model& model,
                                                   const ProgramOptions& options);

  const TensorInfo& tensor(std::uint32_t graph, std::uint32_t index) const {
    return graphs_[graph]->tensors[index];
  }

  // inputs: the bytes of the subgraph's inputs, in their order. Returns those of outputs.
  Result<std::vector<std::vector<std::byte>>> Run(std::uint32_t graph,
                                                  std::span<const std::byte* const> inputs,
                                                  std::span<const std::int32_t> outputs,
                                                  const std::atomic<bool>* cancel) const;

 private:
  friend class Planner;
  Plan() = default;

  const formats::tflite::Model* model_ = nullptr;
  std::vector<std::optional<GraphPlan>> graphs_;    // [subgraphs]; those that signatures reach
  std::deque<std::vector<std::uint64_t>> aligned_;  // copies of constants that lie askew
};

}  // namespace hone::executor
