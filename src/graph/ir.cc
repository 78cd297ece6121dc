// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/ir.h"

#include <algorithm>

namespace hone::graph {
namespace {

struct OpFacts {
  OpKind kind;
  const char* name;
  std::size_t min_inputs, max_inputs;
};

constexpr std::size_t kMany = static_cast<std::size_t>(-1);
constexpr OpFacts kOps[] = {
    {OpKind::kAdd, "ADD", 2, 2},
    {OpKind::kBatchMatMul, "BATCH_MATMUL", 2, 2},
    {OpKind::kCast, "CAST", 1, 1},
    {OpKind::kComposite, "STABLEHLO_COMPOSITE", 2, 2},
    {OpKind::kConcatenation, "CONCATENATION", 1, kMany},
    {OpKind::kCos, "COS", 1, 1},
    {OpKind::kDynamicUpdateSlice, "DYNAMIC_UPDATE_SLICE", 3, 3},
    {OpKind::kEmbeddingLookup, "EMBEDDING_LOOKUP", 2, 2},
    {OpKind::kFullyConnected, "FULLY_CONNECTED", 3, 3},
    {OpKind::kGelu, "GELU", 1, 1},
    {OpKind::kLogistic, "LOGISTIC", 1, 1},
    {OpKind::kMaximum, "MAXIMUM", 2, 2},
    {OpKind::kMean, "MEAN", 2, 2},
    {OpKind::kMinimum, "MINIMUM", 2, 2},
    {OpKind::kMul, "MUL", 2, 2},
    {OpKind::kPack, "PACK", 1, kMany},
    {OpKind::kReshape, "RESHAPE", 2, 2},
    {OpKind::kRsqrt, "RSQRT", 1, 1},
    {OpKind::kSin, "SIN", 1, 1},
    {OpKind::kSlice, "SLICE", 3, 3},
    {OpKind::kSoftmax, "SOFTMAX", 1, 1},
    {OpKind::kSub, "SUB", 2, 2},
    {OpKind::kTanh, "TANH", 1, 1},
    {OpKind::kTranspose, "TRANSPOSE", 2, 2},
};

const OpFacts& Facts(OpKind kind) { return kOps[static_cast<std::size_t>(kind)]; }

std::int64_t NumElements(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int32_t d : shape) n *= d;
  return n;
}

Status Broken(const Subgraph& subgraph, const std::string& what) {
  return Status(Code::kInternal, StrCat("graph ", subgraph.name, ": ", what));
}

Status VerifyTensors(const Graph& graph, const Subgraph& subgraph) {
  for (const Tensor& tensor : subgraph.tensors) {
    const bool positive =
        std::all_of(tensor.shape.begin(), tensor.shape.end(), [](std::int32_t d) { return d > 0; });
    const bool empty_shape_list = tensor.shape == Shape{0} && tensor.constant != kNoConstant;
    if (!positive && !empty_shape_list) {
      return Broken(subgraph, StrCat("tensor ", tensor.name, " has a dimension below 1"));
    }
    if (tensor.constant == kNoConstant) {
      if (tensor.type == ElementType::kWeight) {
        return Broken(subgraph, StrCat("tensor ", tensor.name, " is a weight without a constant"));
      }
      continue;
    }
    if (tensor.constant < 0 ||
        static_cast<std::size_t>(tensor.constant) >= graph.constants.size()) {
      return Broken(subgraph, StrCat("tensor ", tensor.name, " has no such constant"));
    }
    const Constant& constant = graph.constants[static_cast<std::size_t>(tensor.constant)];
    if (constant.weight.has_value() != (tensor.type == ElementType::kWeight)) {
      return Broken(subgraph, StrCat("tensor ", tensor.name, " and its constant differ in type"));
    }
    if (!constant.weight &&
        static_cast<std::int64_t>(constant.bytes.size()) != NumElements(tensor.shape) * 4) {
      return Broken(subgraph,
                    StrCat("tensor ", tensor.name, " needs ", NumElements(tensor.shape) * 4,
                           " bytes but its constant has ", constant.bytes.size()));
    }
  }
  return Status();
}

Status VerifyOperations(const Graph& graph, const Subgraph& subgraph) {
  std::vector<bool> defined(subgraph.tensors.size(), false);
  for (std::size_t i = 0; i < defined.size(); ++i) {
    defined[i] = subgraph.tensors[i].constant != kNoConstant;
  }
  for (const TensorId input : subgraph.inputs) defined[static_cast<std::size_t>(input)] = true;
  for (std::size_t i = 0; i < subgraph.operations.size(); ++i) {
    const Operation& op = subgraph.operations[i];
    const OpFacts& facts = Facts(op.kind);
    const std::string where = StrCat("operation ", i, " ", facts.name);
    if (op.inputs.size() < facts.min_inputs || op.inputs.size() > facts.max_inputs) {
      return Broken(subgraph, StrCat(where, " has ", op.inputs.size(), " inputs"));
    }
    for (const TensorId input : op.inputs) {
      if (input == kNoTensor) continue;
      if (input < 0 || static_cast<std::size_t>(input) >= defined.size() ||
          !defined[static_cast<std::size_t>(input)]) {
        return Broken(subgraph, StrCat(where, " reads tensor ", input, " before it is computed"));
      }
    }
    if (op.output < 0 || static_cast<std::size_t>(op.output) >= defined.size() ||
        defined[static_cast<std::size_t>(op.output)]) {
      return Broken(subgraph, StrCat(where, " writes tensor ", op.output, " a second time"));
    }
    defined[static_cast<std::size_t>(op.output)] = true;
    const Tensor& output = subgraph.tensors[static_cast<std::size_t>(op.output)];
    if (op.kind == OpKind::kReshape) {
      const Tensor& input = subgraph.tensors[static_cast<std::size_t>(op.inputs[0])];
      if (NumElements(input.shape) != NumElements(output.shape)) {
        return Broken(subgraph, StrCat(where, " changes the number of elements"));
      }
    }
    if (op.kind == OpKind::kComposite) {
      const auto body = static_cast<std::size_t>(op.decomposition);
      const Tensor& input = subgraph.tensors[static_cast<std::size_t>(op.inputs[0])];
      if (body >= graph.subgraphs.size() || graph.subgraphs[body].inputs.empty() ||
          graph.subgraphs[body].tensors[0].shape != input.shape) {
        return Broken(subgraph, StrCat(where, " has no body for its shape"));
      }
    }
  }
  for (const TensorId output : subgraph.outputs) {
    if (!defined[static_cast<std::size_t>(output)]) {
      return Broken(subgraph, StrCat("output ", output, " is never computed"));
    }
  }
  return Status();
}

}  // namespace

const char* OpKindName(OpKind kind) { return Facts(kind).name; }

const Signature* Graph::FindSignature(std::string_view key) const {
  for (const Signature& signature : signatures) {
    if (signature.key == key) return &signature;
  }
  return nullptr;
}

Status Verify(const Graph& graph) {
  for (const Subgraph& subgraph : graph.subgraphs) {
    HONE_TRY(VerifyTensors(graph, subgraph));
    HONE_TRY(VerifyOperations(graph, subgraph));
  }
  return Status();
}

}  // namespace hone::graph
