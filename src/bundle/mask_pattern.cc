// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/mask_pattern.h"

#include <algorithm>
#include <cstring>

namespace hone::bundle {
namespace {

namespace tflite = formats::tflite;
using tflite::Op;

const tflite::Tensor& TensorAt(const tflite::Subgraph& graph, std::int32_t index) {
  return graph.tensors[static_cast<std::size_t>(index)];
}

// The mask if the operator repeats a rank-4 tensor along its rows, else -1.
std::int32_t RepeatedInput(const tflite::Subgraph& graph, const tflite::Operator& op) {
  if (op.op != Op::kConcatenation || op.inputs.size() < 2 || op.outputs.size() != 1) return -1;
  if (op.inputs[0] < 0 || op.options.fused_activation != 0 || !op.options.axis) return -1;
  const bool same = std::all_of(op.inputs.begin(), op.inputs.end(),
                                [&](std::int32_t input) { return input == op.inputs[0]; });
  const tflite::Tensor& mask = TensorAt(graph, op.inputs[0]);
  const std::int32_t axis = *op.options.axis;
  const bool rows = mask.shape.size() == 4 && (axis == 2 || axis == -2);
  if (!same || !rows || mask.shape[0] != 1 || mask.shape[1] != 1) return -1;
  const auto positive = [](std::int32_t dim) { return dim > 0; };
  if (!std::all_of(mask.shape.begin(), mask.shape.end(), positive)) return -1;
  return op.inputs[0];
}

// An ADD of scores and the repeated mask; the scores, or -1.
std::int32_t ScoresOfAdd(const tflite::Subgraph& graph, const tflite::Operator& op,
                         std::int32_t repeated) {
  if (op.op != Op::kAdd || op.inputs.size() != 2 || op.outputs.size() != 1) return -1;
  const bool second = op.inputs[1] == repeated;
  const std::int32_t scores = op.inputs[second ? 0 : 1];
  if (scores < 0 || op.inputs[second ? 1 : 0] != repeated || scores == repeated) return -1;
  const auto& shape = TensorAt(graph, scores).shape;
  const auto& mask = TensorAt(graph, repeated).shape;
  const bool fits = shape.size() == 4 && mask.size() == 4 && shape[0] == 1 && shape[1] > 0 &&
                    shape[2] == mask[2] && shape[3] == mask[3] &&
                    TensorAt(graph, op.outputs[0]).shape == shape;
  return fits ? scores : -1;
}

bool IsOutput(const tflite::Subgraph& graph, std::int32_t tensor) {
  return std::find(graph.outputs.begin(), graph.outputs.end(), tensor) != graph.outputs.end();
}

// The operators that read each tensor.
std::vector<std::vector<std::size_t>> Readers(const tflite::Subgraph& graph) {
  std::vector<std::vector<std::size_t>> out(graph.tensors.size());
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    for (const std::int32_t input : graph.operators[i].inputs) {
      if (input < 0) continue;
      auto& list = out[static_cast<std::size_t>(input)];
      if (list.empty() || list.back() != i) list.push_back(i);
    }
  }
  return out;
}

void FindInGraph(const tflite::Model& model, std::size_t index, std::vector<RepeatedMask>& out) {
  const tflite::Subgraph& graph = model.subgraphs[index];
  const auto readers = Readers(graph);
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const tflite::Operator& op = graph.operators[i];
    RepeatedMask found;
    found.mask = RepeatedInput(graph, op);
    if (found.mask < 0) continue;
    const std::int32_t repeated = op.outputs[0];
    found.repeated = repeated;
    found.graph = index;
    found.op = i;
    found.only_adds = !IsOutput(graph, repeated);
    for (const std::size_t k : readers[static_cast<std::size_t>(repeated)]) {
      const std::int32_t scores = ScoresOfAdd(graph, graph.operators[k], repeated);
      if (scores < 0) {
        found.only_adds = false;
        continue;
      }
      found.adds.push_back(k);
      found.kv_heads = TensorAt(graph, scores).shape[1];
    }
    if (found.adds.empty()) continue;
    const auto& shape = TensorAt(graph, found.mask).shape;
    found.repeats = static_cast<std::int64_t>(op.inputs.size());
    found.rows = shape[2];
    found.columns = shape[3];
    out.push_back(std::move(found));
  }
}

// Rewrites the graphs of one model.
class Rewriter {
 public:
  Rewriter(tflite::Model& model, std::vector<std::vector<std::byte>>& storage)
      : model_(model), storage_(storage) {}

  std::size_t Run() {
    const std::vector<RepeatedMask> masks = FindRepeatedMasks(model_);
    std::size_t changed = 0;
    for (std::size_t g = 0; g < model_.subgraphs.size(); ++g) {
      std::vector<const RepeatedMask*> of_graph;
      for (const RepeatedMask& mask : masks) {
        if (mask.graph == g) of_graph.push_back(&mask);
      }
      if (!of_graph.empty()) changed += RewriteGraph(model_.subgraphs[g], of_graph);
    }
    return changed;
  }

 private:
  // A constant tensor with the shape's dimensions, for RESHAPE.
  std::int32_t ShapeTensor(tflite::Subgraph& graph, const std::vector<std::int32_t>& shape) {
    std::vector<std::byte> bytes(shape.size() * sizeof(std::int32_t));
    std::memcpy(bytes.data(), shape.data(), bytes.size());
    storage_.push_back(std::move(bytes));
    tflite::Buffer buffer;
    buffer.data = storage_.back();
    model_.buffers.push_back(buffer);
    tflite::Tensor tensor;
    tensor.name = StrCat("hone/mask_shape_", model_.buffers.size() - 1);
    tensor.shape = {static_cast<std::int32_t>(shape.size())};
    tensor.type = tflite::TensorType::kInt32;
    tensor.buffer = static_cast<std::uint32_t>(model_.buffers.size() - 1);
    graph.tensors.push_back(std::move(tensor));
    return static_cast<std::int32_t>(graph.tensors.size() - 1);
  }

  static std::int32_t CopyTensor(tflite::Subgraph& graph, std::int32_t like,
                                 const std::vector<std::int32_t>& shape, const char* suffix) {
    tflite::Tensor tensor = TensorAt(graph, like);
    tensor.name += suffix;
    tensor.shape = shape;
    tensor.shape_signature.clear();
    tensor.buffer = 0;
    graph.tensors.push_back(std::move(tensor));
    return static_cast<std::int32_t>(graph.tensors.size() - 1);
  }

  static tflite::Operator Reshape(std::int32_t from, std::int32_t shape, std::int32_t to) {
    tflite::Operator op;
    op.op = Op::kReshape;
    op.inputs = {from, shape};
    op.outputs = {to};
    return op;
  }

  std::size_t RewriteGraph(tflite::Subgraph& graph, const std::vector<const RepeatedMask*>& masks) {
    std::vector<tflite::Operator> out;
    std::size_t changed = 0;
    for (std::size_t i = 0; i < graph.operators.size(); ++i) {
      const RepeatedMask* of_add = nullptr;
      bool dropped = false;
      for (const RepeatedMask* mask : masks) {
        if (std::find(mask->adds.begin(), mask->adds.end(), i) != mask->adds.end()) of_add = mask;
        dropped |= mask->op == i && mask->only_adds;
      }
      if (dropped) continue;
      if (of_add == nullptr) {
        out.push_back(std::move(graph.operators[i]));
        continue;
      }
      RewriteAdd(graph, *of_add, graph.operators[i], out);
      ++changed;
    }
    graph.operators = std::move(out);
    return changed;
  }

  void RewriteAdd(tflite::Subgraph& graph, const RepeatedMask& mask, tflite::Operator add,
                  std::vector<tflite::Operator>& out) {
    const std::size_t side = add.inputs[1] == mask.repeated ? 0 : 1;  // of the scores
    const std::int32_t scores = add.inputs[side];
    const std::int32_t sum = add.outputs[0];
    const std::vector<std::int32_t> folded = TensorAt(graph, scores).shape;
    const std::vector<std::int32_t> explicit_heads = {
        1, static_cast<std::int32_t>(mask.repeats) * folded[1],
        static_cast<std::int32_t>(mask.rows), folded[3]};
    const std::int32_t heads_scores = CopyTensor(graph, scores, explicit_heads, "/heads");
    const std::int32_t heads_sum = CopyTensor(graph, sum, explicit_heads, "/heads");
    out.push_back(Reshape(scores, ShapeTensor(graph, explicit_heads), heads_scores));
    add.inputs[side] = heads_scores;
    add.inputs[1 - side] = mask.mask;
    add.outputs = {heads_sum};
    out.push_back(std::move(add));
    out.push_back(Reshape(heads_sum, ShapeTensor(graph, folded), sum));
  }

  tflite::Model& model_;
  std::vector<std::vector<std::byte>>& storage_;
};

}  // namespace

std::vector<RepeatedMask> FindRepeatedMasks(const tflite::Model& model) {
  std::vector<RepeatedMask> out;
  for (std::size_t g = 0; g < model.subgraphs.size(); ++g) FindInGraph(model, g, out);
  return out;
}

std::size_t RewriteRepeatedMasks(tflite::Model& model,
                                 std::vector<std::vector<std::byte>>& storage) {
  return Rewriter(model, storage).Run();
}

std::vector<UnusedInput> FindUnusedCacheInputs(const tflite::Model& model) {
  std::vector<UnusedInput> out;
  for (std::size_t s = 0; s < model.signatures.size(); ++s) {
    const tflite::SignatureDef& signature = model.signatures[s];
    if (!signature.key.starts_with("prefill")) continue;
    const tflite::Subgraph& graph = model.subgraphs[signature.subgraph];
    const auto readers = Readers(graph);
    for (const auto& [name, tensor] : signature.inputs) {
      if (!name.starts_with("kv_cache_") || !readers[tensor].empty()) continue;
      if (IsOutput(graph, static_cast<std::int32_t>(tensor))) continue;
      out.push_back({s, name, tensor});
    }
  }
  return out;
}

std::size_t RemoveUnusedCacheInputs(tflite::Model& model) {
  const std::vector<UnusedInput> unused = FindUnusedCacheInputs(model);
  for (const UnusedInput& input : unused) {
    tflite::SignatureDef& signature = model.signatures[input.signature];
    std::erase_if(signature.inputs, [&](const auto& entry) { return entry.first == input.name; });
    std::erase(model.subgraphs[signature.subgraph].inputs, static_cast<std::int32_t>(input.tensor));
  }
  return unused.size();
}

}  // namespace hone::bundle
