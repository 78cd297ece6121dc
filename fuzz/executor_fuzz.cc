// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs what a file says, within bounds of memory and work. Input that looks like a TFLite file is
// read as one; all other input is a list of changes to a graph of the operators that decoders have.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "executor/executor.h"
#include "executor/test_graph.h"
#include "formats/tflite/tflite.h"

namespace {

namespace tflite = hone::formats::tflite;
using hone::ByteSpan;
using hone::executor::MakeFloats;
using hone::executor::MakeInts;
using hone::executor::Program;
using hone::executor::TestGraph;
using hone::executor::Values;
using Op = TestGraph::Op;
using Type = TestGraph::Type;

// Runs every signature with inputs of changing bytes: large and small numbers, signs, NaN.
void Run(const tflite::Model& model) {
  const auto program = Program::Create(model, "fuzz", {.max_bytes = 8 << 20, .max_work = 4e6});
  if (!program.ok()) {
    if (program.message().empty()) std::abort();
    return;
  }
  std::uint32_t state = 1;
  for (const auto& signature : model.signatures) {
    Values inputs;
    for (const auto& [name, id] : signature.inputs) {
      const auto& tensor = model.subgraphs[signature.subgraph].tensors[id];
      std::uint64_t count = 1;
      for (const std::int32_t dim : tensor.shape) count *= static_cast<std::uint64_t>(dim);
      const auto bytes = tflite::DataBytes(tensor.type, count);
      if (!bytes || *bytes > 8 << 20) return;
      auto& value = inputs[name];
      value = {tensor.type, tensor.shape, std::vector<std::byte>(*bytes)};
      for (std::size_t i = 0; i < value.data.size(); ++i) {
        state = state * 1664525 + 1013904223;
        // Small integers often, so that indices are in range.
        const bool low = i % 4 == 0;
        const std::uint32_t bits = state >> 24U;
        value.data[i] = static_cast<std::byte>(state >> 31U != 0 ? bits : low ? bits & 3U : 0);
      }
    }
    const auto outputs = program->Run(signature.key, inputs);
    if (!outputs.ok() && outputs.message().empty()) std::abort();
    if (outputs.ok() && outputs->size() != signature.outputs.size()) std::abort();
  }
}

// Takes numbers from the input; zeros at its end.
class Script {
 public:
  explicit Script(ByteSpan bytes) : bytes_(bytes) {}
  bool done() const { return at_ >= bytes_.size(); }
  std::uint32_t Byte() { return done() ? 0 : std::to_integer<std::uint32_t>(bytes_[at_++]); }
  // Mostly small, sometimes odd.
  std::int32_t Number() {
    const std::uint32_t b = Byte();
    if (b < 248) return static_cast<std::int32_t>(b % 31) - 4;
    constexpr std::int32_t kOdd[] = {0x7fffffff, -0x7fffffff - 1, 1 << 30, 1 << 16, -128,
                                     255,        1 << 20,         4096};
    return kOdd[b - 248];
  }
  template <typename T>
  T* Pick(std::vector<T>& list) {
    return list.empty() ? nullptr : &list[Byte() % list.size()];
  }

 private:
  ByteSpan bytes_;
  std::size_t at_ = 0;
};

// A graph with operands of every kind for the changes to combine.
void Build(TestGraph& graph) {
  const std::vector<float> floats = {1, -2, 3, 4, 0.5f, 6, 7, -8};
  const std::int32_t x = graph.Input(MakeFloats({2, 4}, floats));
  const std::int32_t ids = graph.Input(MakeInts({2}, std::vector<std::int32_t>{0, 1}));
  const std::int32_t w = graph.Constant(MakeFloats({2, 4}, floats));
  const std::int32_t y = graph.Add(Op::kFullyConnected, {x, w, -1}, Type::kFloat32, {2, 2});
  const std::int32_t rows = graph.Add(Op::kEmbeddingLookup, {ids, w}, Type::kFloat32, {2, 4});
  const std::int32_t sum = graph.Add(Op::kAdd, {x, rows}, Type::kFloat32, {2, 4});
  TestGraph::OpOptions options;
  options.axis = 0;
  const std::int32_t joined =
      graph.Add(Op::kConcatenation, {sum, x}, Type::kFloat32, {4, 4}, options);
  const std::int32_t part =
      graph.Add(Op::kSlice, {joined, ids, graph.Ints({2, 3})}, Type::kFloat32, {2, 3});
  const std::int32_t turned =
      graph.Add(Op::kTranspose, {part, graph.Ints({1, 0})}, Type::kFloat32, {3, 2});
  const std::int32_t product = graph.Add(Op::kBatchMatMul, {turned, y}, Type::kFloat32, {3, 2});
  const std::int32_t total = graph.Add(Op::kSum, {product, graph.Ints({1})}, Type::kFloat32, {3});
  const std::int32_t soft = graph.Add(Op::kSoftmax, {total}, Type::kFloat32, {3});
  const std::int32_t number = graph.Add(Op::kCast, {soft}, Type::kInt32, {3});
  const std::int32_t zero =
      graph.Add(Op::kLess, {number, graph.Constant(MakeInts({}, std::vector<std::int32_t>{0}))},
                Type::kBool, {3});
  const std::int32_t chosen = graph.Add(Op::kSelectV2, {zero, soft, total}, Type::kFloat32, {3});
  const std::int32_t updated =
      graph.Add(Op::kDynamicUpdateSlice, {joined, part, ids}, Type::kFloat32, {4, 4});
  const std::int32_t strided = graph.Add(
      Op::kStridedSlice, {updated, graph.Ints({0, 3}), graph.Ints({4, 0}), graph.Ints({2, -1})},
      Type::kFloat32, {2, 3});
  for (const std::int32_t id : {chosen, strided}) graph.Output(id);
}

constexpr Op kOps[] = {Op::kAdd,
                       Op::kDiv,
                       Op::kPow,
                       Op::kFloorMod,
                       Op::kExp,
                       Op::kNeg,
                       Op::kAbs,
                       Op::kSelect,
                       Op::kEqual,
                       Op::kLogicalAnd,
                       Op::kCast,
                       Op::kDequantize,
                       Op::kReshape,
                       Op::kSqueeze,
                       Op::kTranspose,
                       Op::kSlice,
                       Op::kStridedSlice,
                       Op::kConcatenation,
                       Op::kPack,
                       Op::kUnpack,
                       Op::kSplit,
                       Op::kSplitV,
                       Op::kPad,
                       Op::kPadV2,
                       Op::kTile,
                       Op::kBroadcastTo,
                       Op::kGather,
                       Op::kGatherNd,
                       Op::kOneHot,
                       Op::kRange,
                       Op::kFill,
                       Op::kShape,
                       Op::kZerosLike,
                       Op::kMean,
                       Op::kReduceMax,
                       Op::kReduceAny,
                       Op::kArgMax,
                       Op::kCumsum,
                       Op::kSoftmax,
                       Op::kFullyConnected,
                       Op::kBatchMatMul,
                       Op::kEmbeddingLookup,
                       Op::kDynamicUpdateSlice,
                       Op::kGelu,
                       Op::kWhile,
                       Op::kStablehloComposite,
                       Op::kExpandDims,
                       Op::kSelectV2};

void ChangeOptions(Script& script, TestGraph::OpOptions& o) {
  const std::int32_t number = script.Number();
  switch (script.Byte() % 10) {
    case 0:
      o.axis = number;
      break;
    case 1:
      o.keep_dims = !o.keep_dims;
      o.keep_num_dims = !o.keep_num_dims;
      break;
    case 2:
      o.adj_x = !o.adj_x;
      break;
    case 3:
      o.adj_y = !o.adj_y;
      break;
    case 4:
      o.batch_dims = number;
      break;
    case 5:
      o.begin_mask = o.end_mask = number;
      break;
    case 6:
      o.shrink_axis_mask = number;
      break;
    case 7:
      o.new_axis_mask = number;
      break;
    case 8:
      o.decomposition_subgraph = number;
      break;
    default:
      o.exclusive = !o.exclusive;
      o.fused_activation = number;
  }
}

void ChangeOperator(Script& script, std::vector<tflite::Operator>& list) {
  tflite::Operator* op = script.Pick(list);
  if (op == nullptr) return;
  switch (script.Byte() % 8) {
    case 0:
    case 1:
      op->op = kOps[script.Byte() % std::size(kOps)];
      break;
    case 2:
      if (auto* input = script.Pick(op->inputs)) *input = script.Number();
      break;
    case 3:
      op->inputs.resize(script.Byte() % 6, script.Number());
      break;
    case 4:
      op->outputs.resize(script.Byte() % 3, script.Number());
      break;
    case 5:
      list.push_back(*op);
      break;
    default:
      ChangeOptions(script, op->options);
  }
}

void ChangeTensor(Script& script, TestGraph& graph) {
  tflite::Tensor* tensor = script.Pick(graph.graph().tensors);
  if (tensor == nullptr) return;
  switch (script.Byte() % 7) {
    case 0:
    case 1:
      if (auto* dim = script.Pick(tensor->shape)) *dim = script.Number();
      break;
    case 2:
      tensor->shape.resize(script.Byte() % 9, script.Number());
      break;
    case 3:
      tensor->type = static_cast<Type>(script.Byte() % 21);
      break;
    case 4:
      tensor->buffer = static_cast<std::uint32_t>(script.Number());
      break;
    case 5:
      tensor->quantization.scale.resize(script.Byte() % 8, 0.5f);
      break;
    default:
      tensor->quantization.scales_tensor = script.Number();
      tensor->quantization.block_size = script.Number();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  if (size >= 8 && hone::AsText(bytes.subspan(4, 4)) == "TFL3") {
    // The reader wants a start that is a multiple of 8; heap memory of this size has redzones.
    const std::vector<std::byte> copy(bytes.begin(), bytes.end());
    const auto model = tflite::ReadModel(copy);
    if (model.ok()) Run(*model);
    return 0;
  }
  TestGraph graph;
  Build(graph);
  Script script(bytes);
  while (!script.done()) {
    if (script.Byte() % 2 == 0) {
      ChangeOperator(script, graph.graph().operators);
    } else {
      ChangeTensor(script, graph);
    }
  }
  Run(graph.model);
  return 0;
}
