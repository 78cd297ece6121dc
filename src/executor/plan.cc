// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "executor/plan.h"

#include <algorithm>
#include <cstring>

#include "executor/op_util.h"
#include "formats/tflite/check_model.h"

namespace hone::executor {

using formats::tflite::Model;
using formats::tflite::OperatorText;
using formats::tflite::SignatureDef;
using formats::tflite::Subgraph;
using formats::tflite::SubgraphText;
using formats::tflite::TensorText;

namespace {

// A small file may say large shapes; what it makes us allocate stays in proportion to it.
constexpr std::uint64_t kFloorBytes = 256ULL << 20;
constexpr std::uint64_t kTimesData = 64;
// The same for computation: a large prefill uses a byte of weights some thousand times.
constexpr double kFloorWork = 1e11;
constexpr double kWorkTimesData = 1e5;
constexpr std::int64_t kMaxElements = 1LL << 40;
// Alignment that every element type is content with.
constexpr std::uintptr_t kAlignment = 8;

// What data of no bytes points to, because a null pointer means "not known".
constexpr std::uint64_t kNothing = 0;
const std::byte* NotNull(const std::byte* data) {
  return data != nullptr ? data : reinterpret_cast<const std::byte*>(&kNothing);
}

}  // namespace

class Planner {
 public:
  Planner(const Model& model, const ProgramOptions& options) : model_(model) {
    plan_.model_ = &model;
    plan_.graphs_.resize(model.subgraphs.size());
    std::uint64_t data = 0;
    for (const auto& buffer : model.buffers) data += buffer.data.size();
    max_bytes_ = std::min(options.max_bytes, kFloorBytes + kTimesData * data);
    max_work_ = std::min(options.max_work, kFloorWork + kWorkTimesData * static_cast<double>(data));
  }

  Result<std::shared_ptr<const Plan>> Build() {
    HONE_TRY(formats::tflite::CheckModel(model_, {}));
    kept_.resize(model_.subgraphs.size());
    for (std::size_t i = 0; i < model_.subgraphs.size(); ++i) {
      kept_[i].assign(model_.subgraphs[i].tensors.size(), false);
      for (const std::int32_t id : model_.subgraphs[i].outputs) Keep(i, id);
    }
    for (const SignatureDef& signature : model_.signatures) {
      for (const auto& [name, id] : signature.outputs) {
        Keep(signature.subgraph, static_cast<std::int32_t>(id));
      }
    }
    for (const SignatureDef& signature : model_.signatures) {
      const std::string text = StrCat("signature '", signature.key, "'");
      HONE_TRY(BuildGraph(signature.subgraph));
      HONE_TRY(CheckSignature(signature).Context(text));
    }
    return std::shared_ptr<const Plan>(new Plan(std::move(plan_)));
  }

 private:
  void Keep(std::size_t graph, std::int32_t id) {
    kept_[graph][static_cast<std::size_t>(id)] = true;
  }

  // Each input of the subgraph by exactly one name, each output computed.
  Status CheckSignature(const SignatureDef& signature) {
    const Subgraph& graph = model_.subgraphs[signature.subgraph];
    for (const std::int32_t id : graph.inputs) {
      const auto named = std::count_if(
          signature.inputs.begin(), signature.inputs.end(),
          [id](const auto& entry) { return entry.second == static_cast<std::uint32_t>(id); });
      if (named == 1) continue;
      return Status(Code::kDataLoss,
                    StrCat("input tensor ", id, " of the subgraph has ", named, " names"));
    }
    for (const auto& [name, id] : signature.inputs) {
      const auto at =
          std::find(graph.inputs.begin(), graph.inputs.end(), static_cast<std::int32_t>(id));
      if (at != graph.inputs.end()) continue;
      return Status(Code::kDataLoss, StrCat("'", name, "' is no input of its subgraph"));
    }
    for (const auto& [name, id] : signature.outputs) {
      if (available_[signature.subgraph][id]) continue;
      return Status(Code::kDataLoss, StrCat("output '", name, "' is never computed"));
    }
    // What the caller gives counts too: callers make it as the file says.
    const GraphPlan& plan = *plan_.graphs_[signature.subgraph];
    std::uint64_t bytes = plan.peak_bytes;
    for (const std::int32_t id : graph.inputs) {
      bytes += plan.tensors[static_cast<std::size_t>(id)].bytes;
    }
    return CheckBytes(bytes);
  }

  Status CheckBytes(std::uint64_t bytes) const {
    if (bytes <= max_bytes_) return {};
    return Status(Code::kUnsupported,
                  StrCat("needs ", bytes, " bytes for its tensors at one time, at most ",
                         max_bytes_, " are allowed for this file"));
  }

  // Recursion is as deep as composites are nested, which CheckModel bounds.
  Status BuildGraph(std::size_t index) {
    if (plan_.graphs_[index]) return {};
    const Subgraph& graph = model_.subgraphs[index];
    GraphPlan plan;
    plan.tensors.resize(graph.tensors.size());
    available_.resize(model_.subgraphs.size());
    Status status = BuildSteps(index, plan);
    HONE_TRY(std::move(status).Context(SubgraphText(index, graph.name)));
    plan_.graphs_[index] = std::move(plan);
    return {};
  }

  Status BuildSteps(std::size_t index, GraphPlan& plan) {
    const Subgraph& graph = model_.subgraphs[index];
    std::vector<bool> available(graph.tensors.size(), false);
    for (const std::int32_t id : graph.inputs) {
      HONE_TRY(Describe(graph, id, plan));
      const TensorInfo& info = plan.tensors[static_cast<std::size_t>(id)];
      if (info.is_constant && info.count != 0) {
        return Status(Code::kDataLoss, StrCat("input tensor ", id, " has constant data"));
      }
      available[static_cast<std::size_t>(id)] = true;
    }
    for (std::size_t i = 0; i < graph.operators.size(); ++i) {
      Status status = AddStep(graph, i, available, plan);
      HONE_TRY(std::move(status).Context(OperatorText(i, graph.operators[i].op)));
    }
    for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
      if (!kept_[index][id]) continue;
      HONE_TRY(Describe(graph, static_cast<std::int32_t>(id), plan));
      if (plan.tensors[id].is_constant) available[id] = true;
    }
    for (const std::int32_t id : graph.outputs) {
      if (available[static_cast<std::size_t>(id)]) continue;
      return Status(Code::kDataLoss, StrCat("output tensor ", id, " is never computed"));
    }
    FindReleases(index, plan);
    MeasurePeak(plan);
    HONE_TRY(CheckBytes(plan.peak_bytes));
    if (plan.work > max_work_) {
      return Status(Code::kUnsupported, "needs more computation than is allowed for this file");
    }
    available_[index] = std::move(available);
    return {};
  }

  // Fills in the tensor's facts, once.
  Status Describe(const Subgraph& graph, std::int32_t id, GraphPlan& plan) {
    TensorInfo& info = plan.tensors[static_cast<std::size_t>(id)];
    if (info.tensor != nullptr) return {};
    const Tensor& tensor = graph.tensors[static_cast<std::size_t>(id)];
    return DescribeTensor(graph, tensor, info, plan)
        .Context(TensorText(static_cast<std::size_t>(id), tensor.name));
  }

  Status DescribeTensor(const Subgraph& graph, const Tensor& tensor, TensorInfo& info,
                        GraphPlan& plan) {
    if (tensor.shape.size() > kMaxRank) {
      return Status(Code::kUnsupported, StrCat("has ", tensor.shape.size(), " dimensions, at most ",
                                               kMaxRank, " are supported"));
    }
    std::int64_t extent = 1;
    for (const std::int32_t dim : tensor.shape) {
      if (dim < 0) return Status(Code::kUnsupported, "has a dimension that is not fixed");
      // Both are below 2^31 and 2^40, so the product fits.
      extent *= std::max(dim, 1);
      if (extent > kMaxElements) return Status(Code::kUnsupported, "has too many elements");
      info.shape.push_back(dim);
    }
    info.type = tensor.type;
    info.count = Product(info.shape);
    const auto bytes =
        formats::tflite::DataBytes(tensor.type, static_cast<std::uint64_t>(info.count));
    if (!bytes) {
      return Status(Code::kUnsupported,
                    StrCat("has the type ", formats::tflite::TensorTypeName(tensor.type)));
    }
    info.bytes = *bytes;
    info.is_constant = info.count == 0;
    const ByteSpan data = model_.buffers.empty() ? ByteSpan() : model_.buffers[tensor.buffer].data;
    if (!data.empty()) {
      HONE_ASSIGN(info.constant, Aligned(data));
      info.is_constant = true;
    } else if (info.count == 0) {
      info.constant = NotNull(nullptr);
    }
    info.tensor = &tensor;
    if (const auto scales = tensor.quantization.scales_tensor) {
      // Scales have no scales of their own, so this does not go deeper.
      TensorInfo& of_scales = plan.tensors[static_cast<std::size_t>(*scales)];
      const Tensor& scales_tensor = graph.tensors[static_cast<std::size_t>(*scales)];
      if (of_scales.tensor == nullptr && !scales_tensor.quantization.scales_tensor) {
        HONE_TRY(DescribeTensor(graph, scales_tensor, of_scales, plan));
      }
      info.scales = &of_scales;
    }
    return {};
  }

  // Writers align constants; what lies askew is copied, up to a limit because files can name the
  // same bytes many times.
  Result<const std::byte*> Aligned(ByteSpan data) {
    if (reinterpret_cast<std::uintptr_t>(data.data()) % kAlignment == 0) return data.data();
    const auto known = copies_.find(data.data());
    if (known != copies_.end() && known->second.second >= data.size()) return known->second.first;
    if (data.size() > max_copied_) {
      return Status(Code::kUnsupported, "its data is not aligned; write the file again");
    }
    max_copied_ -= data.size();
    auto& copy = plan_.aligned_.emplace_back((data.size() + 7) / 8);
    std::memcpy(copy.data(), data.data(), data.size());
    const auto* at = reinterpret_cast<const std::byte*>(copy.data());
    copies_[data.data()] = {at, data.size()};
    return at;
  }

  Status AddStep(const Subgraph& graph, std::size_t number, std::vector<bool>& available,
                 GraphPlan& plan) {
    const Operator& op = graph.operators[number];
    Step step;
    step.number = number;
    step.node.op = &op;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const std::int32_t id = op.inputs[i];
      if (id < 0) {
        step.node.in.push_back(nullptr);
        continue;
      }
      HONE_TRY(Describe(graph, id, plan));
      const auto at = static_cast<std::size_t>(id);
      if (!available[at] && !plan.tensors[at].is_constant) {
        return Status(Code::kDataLoss,
                      StrCat("input ", i, " (tensor ", id, ") is not computed yet"));
      }
      step.node.in.push_back(&plan.tensors[at]);
    }
    for (const std::int32_t id : op.outputs) {
      HONE_TRY(Describe(graph, id, plan));
      const auto at = static_cast<std::size_t>(id);
      const bool constant = plan.tensors[at].is_constant && plan.tensors[at].count != 0;
      if (available[at] || constant) {
        return Status(Code::kDataLoss, StrCat("tensor ", id, " has a value already"));
      }
      available[at] = true;
      step.node.out.push_back(&plan.tensors[at]);
    }
    if (op.op == Op::kStablehloComposite) {
      HONE_TRY(CheckComposite(step, plan));
    } else {
      HONE_TRY(CheckOperator(step, plan));
    }
    plan.steps.push_back(std::move(step));
    return {};
  }

  static Status CheckOperator(Step& step, GraphPlan& plan) {
    const Node& node = step.node;
    const OpFacts* facts = FindOpFacts(node.op->op);
    if (facts == nullptr) return Status(Code::kUnsupported, "the operator is not supported");
    if (node.op->unknown_options) return Status(Code::kUnsupported, "its options are not known");
    const int inputs = static_cast<int>(node.in.size());
    const int outputs = static_cast<int>(node.out.size());
    if (inputs < facts->min_inputs || (facts->max_inputs != kAny && inputs > facts->max_inputs) ||
        (facts->outputs == kAny ? outputs == 0 : outputs != facts->outputs)) {
      return Status(Code::kDataLoss, StrCat("has ", inputs, " inputs and ", outputs, " outputs"));
    }
    for (int i = 0; i < facts->min_inputs; ++i) {
      if (node.in[static_cast<std::size_t>(i)] == nullptr) {
        return Status(Code::kDataLoss, StrCat("input ", i, " is absent"));
      }
    }
    HONE_TRY(facts->check(node));
    step.facts = facts;
    if (facts->work != nullptr) plan.work += facts->work(node);
    for (const auto* list : {&node.in, &node.out}) {
      for (const TensorInfo* info : *list) {
        if (info != nullptr) plan.work += static_cast<double>(info->count);
      }
    }
    return {};
  }

  // A composite runs its body: the same types and shapes inside and outside.
  Status CheckComposite(Step& step, GraphPlan& plan) {
    step.body = step.node.op->options.decomposition_subgraph;
    const auto index = static_cast<std::size_t>(step.body);
    HONE_TRY(BuildGraph(index));
    const Subgraph& body = model_.subgraphs[index];
    const GraphPlan& inner = *plan_.graphs_[index];
    const auto same = [&](const std::vector<const TensorInfo*>& outside,
                          const std::vector<std::int32_t>& inside, const char* what) -> Status {
      for (std::size_t i = 0; i < outside.size(); ++i) {
        if (outside[i] == nullptr) {
          return Status(Code::kDataLoss, StrCat(what, " ", i, " is absent"));
        }
        const TensorInfo& info = inner.tensors[static_cast<std::size_t>(inside[i])];
        HONE_TRY(ExpectSameType(*outside[i], info));
        HONE_TRY(ExpectShape(info, StrCat(what, " ", i, " of the body"), outside[i]->shape));
      }
      return {};
    };
    HONE_TRY(same(step.node.in, body.inputs, "input"));
    HONE_TRY(same(step.node.out, body.outputs, "output"));
    plan.work += inner.work + 1;
    return {};
  }

  // The last step that reads a tensor releases it; what nothing reads goes at once.
  void FindReleases(std::size_t index, GraphPlan& plan) {
    std::vector<bool> seen = kept_[index];
    const TensorInfo* first = plan.tensors.data();
    for (std::size_t s = plan.steps.size(); s-- > 0;) {
      Step& step = plan.steps[s];
      for (const auto* list : {&step.node.out, &step.node.in}) {
        for (const TensorInfo* info : *list) {
          if (info == nullptr) continue;
          const auto id = static_cast<std::size_t>(info - first);
          if (seen[id]) continue;
          seen[id] = true;
          step.released.push_back(static_cast<std::int32_t>(id));
        }
      }
    }
  }

  void MeasurePeak(GraphPlan& plan) const {
    std::vector<std::uint64_t> held(plan.tensors.size(), 0);
    std::uint64_t live = 0;
    for (const Step& step : plan.steps) {
      for (const TensorInfo* info : step.node.out) {
        held[static_cast<std::size_t>(info - plan.tensors.data())] = info->bytes;
        live += info->bytes;
      }
      std::uint64_t inside = 0;
      if (step.body >= 0) inside = plan_.graphs_[static_cast<std::size_t>(step.body)]->peak_bytes;
      plan.peak_bytes = std::max(plan.peak_bytes, live + inside);
      for (const std::int32_t id : step.released) {
        live -= std::exchange(held[static_cast<std::size_t>(id)], 0);
      }
    }
  }

  const Model& model_;
  std::uint64_t max_bytes_ = 0;
  double max_work_ = 0;
  std::uint64_t max_copied_ = 64ULL << 20;
  Plan plan_;
  std::vector<std::vector<bool>> kept_;       // [subgraphs][tensors]: outputs
  std::vector<std::vector<bool>> available_;  // [subgraphs][tensors]: after all steps
  std::map<const std::byte*, std::pair<const std::byte*, std::size_t>> copies_;
};

Result<std::shared_ptr<const Plan>> Plan::Build(const Model& model, const ProgramOptions& options) {
  return Planner(model, options).Build();
}

namespace {

// The value of a tensor during a run: owned, or bytes of the caller or the file.
struct Slot {
  const std::byte* data = nullptr;
  std::vector<std::byte> owned;
};

}  // namespace

Result<std::vector<std::vector<std::byte>>> Plan::Run(std::uint32_t graph,
                                                      std::span<const std::byte* const> inputs,
                                                      std::span<const std::int32_t> outputs,
                                                      const std::atomic<bool>* cancel) const {
  const GraphPlan& plan = *graphs_[graph];
  const Subgraph& subgraph = model_->subgraphs[graph];
  std::vector<Slot> slots(plan.tensors.size());
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].data = plan.tensors[i].constant;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    slots[static_cast<std::size_t>(subgraph.inputs[i])].data = NotNull(inputs[i]);
  }
  const TensorInfo* first = plan.tensors.data();
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const Step& step : plan.steps) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return Status(Code::kCancelled, "cancelled");
    }
    in.clear();
    out.clear();
    for (const TensorInfo* info : step.node.in) {
      in.push_back(info == nullptr ? nullptr : slots[static_cast<std::size_t>(info - first)].data);
    }
    Status status;
    if (step.body >= 0) {
      const auto body = static_cast<std::uint32_t>(step.body);
      auto results = Run(body, in, model_->subgraphs[body].outputs, cancel);
      for (std::size_t i = 0; results.ok() && i < step.node.out.size(); ++i) {
        Slot& slot = slots[static_cast<std::size_t>(step.node.out[i] - first)];
        slot.owned = std::move((*results)[i]);
        slot.data = NotNull(slot.owned.data());
      }
      status = std::move(results).status();
    } else {
      for (const TensorInfo* info : step.node.out) {
        Slot& slot = slots[static_cast<std::size_t>(info - first)];
        slot.owned.resize(info->bytes);
        slot.data = NotNull(slot.owned.data());
        out.push_back(slot.owned.data());
      }
      const bool nothing = std::all_of(step.node.out.begin(), step.node.out.end(),
                                       [](const TensorInfo* info) { return info->count == 0; });
      if (!nothing) status = step.facts->run({step.node, in, out});
    }
    if (!status.ok()) {
      return std::move(status).Context(StrCat(SubgraphText(graph, subgraph.name), ": ",
                                              OperatorText(step.number, step.node.op->op)));
    }
    for (const std::int32_t id : step.released) slots[static_cast<std::size_t>(id)] = Slot();
  }
  std::vector<std::vector<std::byte>> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto id = static_cast<std::size_t>(outputs[i]);
    Slot& slot = slots[id];
    const bool again = std::count(outputs.begin() + static_cast<std::int64_t>(i) + 1, outputs.end(),
                                  outputs[i]) != 0;
    if (!slot.owned.empty() && !again) {
      results.push_back(std::move(slot.owned));
      slot.owned.clear();
    } else {
      results.emplace_back(slot.data, slot.data + plan.tensors[id].bytes);
    }
  }
  return results;
}

}  // namespace hone::executor
