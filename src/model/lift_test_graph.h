// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A small decoder as TFLite graphs in memory, for tests and fuzzing of the lifter.
#pragma once

#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/tflite/tflite.h"

namespace hone::model {

struct TinyGraphOptions {
  int layers = 1;
  bool biases = false;
  bool inline_norms = false;     // instead of odml.rms_norm
  bool magnitude = false;        // cos and sin times 1.5
  bool tokens_in_graph = false;  // EMBEDDING_LOOKUP in the decoder
  bool transposes = false;       // [1, 1, heads, size] and a transpose instead of one reshape
};

// Hidden 8, 2 heads of 4, 1 kv head, ffn 12, vocabulary 10, context 6.
class TinyGraph {
 public:
  using Model = formats::tflite::Model;
  using Op = formats::tflite::Op;
  using Type = formats::tflite::TensorType;
  using Shape = std::vector<std::int32_t>;

  explicit TinyGraph(const TinyGraphOptions& options = {}) : options_(options) {
    BuildEmbedder();
    BuildDecoder();
  }
  TinyGraph(const TinyGraph&) = delete;
  TinyGraph& operator=(const TinyGraph&) = delete;

  Model decoder;
  Model embedder;
  std::deque<std::vector<std::byte>> storage;

 private:
  void Start(Model* model) {
    model_ = model;
    model->buffers.emplace_back();
    graph_ = &model->subgraphs.emplace_back();
  }

  int Tensor(Shape shape, Type type = Type::kFloat32) {
    formats::tflite::Tensor tensor;
    tensor.name = "t" + std::to_string(graph_->tensors.size());
    tensor.shape = std::move(shape);
    tensor.type = type;
    graph_->tensors.push_back(tensor);
    return static_cast<int>(graph_->tensors.size()) - 1;
  }

  template <typename T>
  int Constant(Shape shape, Type type, const std::vector<T>& values) {
    const int id = Tensor(std::move(shape), type);
    if (values.empty()) return id;  // as in real files: no bytes, so no buffer
    auto& bytes = storage.emplace_back(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    graph_->tensors.back().buffer = static_cast<std::uint32_t>(model_->buffers.size());
    model_->buffers.push_back({bytes, 0});
    return id;
  }
  int Ints(const std::vector<std::int32_t>& values) {
    return Constant({static_cast<std::int32_t>(values.size())}, Type::kInt32, values);
  }
  int Scalar(float value) { return Constant(Shape{}, Type::kFloat32, std::vector<float>{value}); }
  // Small numbers that differ from each other.
  int Weight(Shape shape) {
    std::size_t count = 1;
    for (const std::int32_t dim : shape) count *= static_cast<std::size_t>(dim);
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(++counter_ % 97) / 97.0f - 0.5f;
    return Constant(std::move(shape), Type::kFloat32, values);
  }

  int Add(Op op, std::vector<std::int32_t> inputs, Shape shape,
          formats::tflite::OpOptions options = {}, Type type = Type::kFloat32) {
    const int out = Tensor(std::move(shape), type);
    formats::tflite::Operator node;
    node.op = op;
    node.inputs = std::move(inputs);
    node.outputs = {out};
    node.options = std::move(options);
    graph_->operators.push_back(std::move(node));
    return out;
  }
  int Reshape(int x, const Shape& shape, Type type = Type::kFloat32) {
    return Add(Op::kReshape, {x, Ints(shape)}, shape, {}, type);
  }
  int Concat(int a, int b, std::int32_t axis, const Shape& shape) {
    formats::tflite::OpOptions options;
    options.axis = axis;
    return Add(Op::kConcatenation, {a, b}, shape, options);
  }
  int Linear(int x, std::int32_t rows, std::int32_t cols) {
    const int weight = Weight({rows, cols});
    const int bias = options_.biases ? Weight({rows}) : -1;
    return Add(Op::kFullyConnected, {x, weight, bias}, {1, 1, rows});
  }

  int Norm(int x) {
    const int weight = Weight({8});
    if (!options_.inline_norms) {
      formats::tflite::OpOptions options;
      options.composite_name = "odml.rms_norm";
      options.composite_attributes = formats::tflite::MakeCompositeAttributes("epsilon", 1e-5f);
      return Add(Op::kStablehloComposite, {x, weight}, {1, 1, 8}, options);
    }
    const int square = Add(Op::kMul, {x, x}, {1, 1, 8});
    formats::tflite::OpOptions keep;
    keep.keep_dims = true;
    const int mean = Add(Op::kMean, {square, Ints({2})}, {1, 1, 1}, keep);
    const int shifted = Add(Op::kAdd, {mean, Scalar(1e-5f)}, {1, 1, 1});
    const int inverse = Add(Op::kRsqrt, {shifted}, {1, 1, 1});
    const int normalized = Add(Op::kMul, {x, inverse}, {1, 1, 8});
    return Add(Op::kMul, {normalized, weight}, {1, 1, 8});
  }

  int Heads(int x, std::int32_t count) {
    if (!options_.transposes) return Reshape(x, {1, count, 1, 4});
    const int split = Reshape(x, {1, 1, count, 4});
    return Add(Op::kTranspose, {split, Ints({0, 2, 1, 3})}, {1, count, 1, 4});
  }

  int Rope(int x, std::int32_t count) {
    const int with_cos = Add(Op::kMul, {x, cos_}, {1, count, 1, 4});
    const Shape half = {1, count, 1, 2};
    const int low = Add(Op::kSlice, {x, Ints({0, 0, 0, 0}), Ints(half)}, half);
    const int high = Add(Op::kSlice, {x, Ints({0, 0, 0, 2}), Ints(half)}, half);
    const int negated = Add(Op::kMul, {high, Scalar(-1.0f)}, half);
    const int rotated = Concat(negated, low, 3, {1, count, 1, 4});
    const int with_sin = Add(Op::kMul, {rotated, sin_}, {1, count, 1, 4});
    return Add(Op::kAdd, {with_cos, with_sin}, {1, count, 1, 4});
  }

  int Index(int axis) {
    const int zero = Constant(Shape{}, Type::kInt32, std::vector<std::int32_t>{0});
    const int position = Reshape(position_, {}, Type::kInt32);
    std::vector<std::int32_t> values(4, zero);
    values[static_cast<std::size_t>(axis)] = position;
    formats::tflite::OpOptions options;
    options.axis = 0;
    options.values_count = 4;
    return Add(Op::kPack, values, {4}, options, Type::kInt32);
  }

  int Layer(int x, int number) {
    const int norm = Norm(x);
    const int q = Rope(Heads(Linear(norm, 8, 8), 2), 2);
    const int k = Rope(Heads(Linear(norm, 4, 8), 1), 1);
    const int v = Reshape(Linear(norm, 4, 8), {1, 1, 4, 1});
    const std::string suffix = std::to_string(number);
    const int keys = Cache("kv_cache_k_" + suffix, {1, 1, 6, 4}, k, Index(2));
    const int values = Cache("kv_cache_v_" + suffix, {1, 1, 4, 6}, v, Index(3));
    const int scaled = Add(Op::kMul, {q, Scalar(0.5f)}, {1, 2, 1, 4});
    formats::tflite::OpOptions adjoint;
    adjoint.adj_y = true;
    const int scores =
        Add(Op::kBatchMatMul, {Reshape(scaled, {1, 1, 2, 4}), keys}, {1, 1, 2, 6}, adjoint);
    const int masked = Add(Op::kAdd, {scores, mask_}, {1, 1, 2, 6});
    const int weights = Add(Op::kSoftmax, {masked}, {1, 1, 2, 6});
    const int context = Add(Op::kBatchMatMul, {weights, values}, {1, 1, 2, 4}, adjoint);
    const int o = Linear(Reshape(context, {1, 8}), 8, 8);
    const int middle = Add(Op::kAdd, {x, o}, {1, 1, 8});
    const int ffn_norm = Norm(middle);
    const int gate = Linear(ffn_norm, 12, 8);
    const int sigmoid = Add(Op::kLogistic, {gate}, {1, 1, 12});
    const int silu = Add(Op::kMul, {gate, sigmoid}, {1, 1, 12});
    const int product = Add(Op::kMul, {silu, Linear(ffn_norm, 12, 8)}, {1, 1, 12});
    return Add(Op::kAdd, {middle, Linear(product, 8, 12)}, {1, 1, 8});
  }

  int Cache(const std::string& name, const Shape& shape, int update, int index) {
    const int cache = Tensor(shape);
    const int out = Add(Op::kDynamicUpdateSlice, {cache, update, index}, shape);
    signature_.inputs.emplace_back(name, static_cast<std::uint32_t>(cache));
    signature_.outputs.emplace_back(name, static_cast<std::uint32_t>(out));
    return out;
  }

  void Rotations() {
    const int shaped = Reshape(position_, {1, 1, 1}, Type::kInt32);
    const int number = Add(Op::kCast, {shaped}, {1, 1, 1});
    const int frequencies =
        Constant(Shape{1, 1, 2}, Type::kFloat32, std::vector<float>{1.0f, 0.01f});
    const int half = Add(Op::kMul, {number, frequencies}, {1, 1, 2});
    const int angles = Concat(half, half, 2, {1, 1, 4});
    cos_ = Add(Op::kCos, {angles}, {1, 1, 4});
    sin_ = Add(Op::kSin, {angles}, {1, 1, 4});
    if (!options_.magnitude) return;
    cos_ = Add(Op::kMul, {cos_, Scalar(1.5f)}, {1, 1, 4});
    sin_ = Add(Op::kMul, {sin_, Scalar(1.5f)}, {1, 1, 4});
  }

  int Lookup(int tokens) {
    const int zero = Constant(Shape{}, Type::kInt32, std::vector<std::int32_t>{0});
    const int safe = Add(Op::kMaximum, {tokens, zero}, {1, 1}, {}, Type::kInt32);
    const int flat = Reshape(safe, {1}, Type::kInt32);
    const int row = Add(Op::kEmbeddingLookup, {flat, Weight({10, 8})}, {1, 8});
    return Reshape(row, {1, 1, 8});
  }

  void Finish(const char* key) {
    signature_.key = key;
    for (const auto& [name, id] : signature_.inputs) {
      graph_->inputs.push_back(static_cast<std::int32_t>(id));
    }
    for (const auto& [name, id] : signature_.outputs) {
      graph_->outputs.push_back(static_cast<std::int32_t>(id));
    }
    model_->signatures.push_back(std::exchange(signature_, {}));
  }

  int Input(const char* name, Shape shape, Type type) {
    const int id = Tensor(std::move(shape), type);
    signature_.inputs.emplace_back(name, static_cast<std::uint32_t>(id));
    return id;
  }

  void BuildEmbedder() {
    Start(&embedder);
    const int out = Lookup(Input("token_ids", {1, 1}, Type::kInt32));
    signature_.outputs.emplace_back("embeddings", static_cast<std::uint32_t>(out));
    Finish("decode_embedder");
  }

  void BuildDecoder() {
    Start(&decoder);
    int x = options_.tokens_in_graph ? Lookup(Input("tokens", {1, 1}, Type::kInt32))
                                     : Input("embeddings", {1, 1, 8}, Type::kFloat32);
    position_ = Input("input_pos", {1}, Type::kInt32);
    const int mask = Input("mask", {1, 1, 1, 6}, Type::kFloat32);
    Rotations();
    mask_ = Concat(mask, mask, 2, {1, 1, 2, 6});
    for (int i = 0; i < options_.layers; ++i) x = Layer(x, i);
    const int logits = Add(Op::kFullyConnected, {Norm(x), Weight({10, 8}), -1}, {1, 1, 10});
    signature_.outputs.emplace_back("logits", static_cast<std::uint32_t>(logits));
    Finish("decode");
  }

  TinyGraphOptions options_;
  Model* model_ = nullptr;
  formats::tflite::Subgraph* graph_ = nullptr;
  formats::tflite::SignatureDef signature_;
  std::size_t counter_ = 0;
  int position_ = -1, mask_ = -1, cos_ = -1, sin_ = -1;
};

}  // namespace hone::model
