// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A small decoder as TFLite graphs in memory, for tests and fuzzing of the lifter.
#pragma once

#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <tuple>
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
  // How the graph shows the last 3 positions only.
  enum class Window { kNone, kClamped, kSelected, kLocalMask };
  Window window = Window::kNone;
  enum class Mask { kAdded, kBool, kEqualZero };
  Mask mask = Mask::kAdded;
  bool explicit_heads = false;  // scores [1, heads, 1, context] plus one mask
  enum class HeadNorm { kNone, kPerHead, kWholeRow };
  HeadNorm head_norm = HeadNorm::kNone;  // written out
  bool post_norm = false, no_pre_norm = false;
  bool norm_plus_one = false;  // 1 is added to the weights in the graph
  enum class Gate { kSilu, kGelu, kGeluErf, kGeluByTanh, kTanh };
  Gate gate = Gate::kSilu;
  enum class Turn { kWhole, kHalf, kNone, kByHalves, kTwoTables };
  Turn turn = Turn::kWhole;   // kHalf: 2 of 4 dimensions; kTwoTables: every second layer another
  bool divided_caps = false;  // DIV by the cap instead of MUL by its inverse
  float scores_cap = 0, logits_cap = 0;
  float embedding_scale = 1, residual_scale = 1, logits_scale = 1, head_scale = 1;
  bool added_biases = false;    // ADD behind each projection of the layers
  bool fused = false;           // q, k and v in one matrix, gate and up in another
  bool swapped_caches = false;  // keys [.., size, context], values [.., context, size]
  bool half_cache = false;
  bool composites = false;  // attention and cache updates in composites with bodies
};

// Hidden 8, 2 heads of 4, 1 kv head, ffn 12, vocabulary 10, context 6. Every tensor of decode is of
// one token.
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
    const int bias = options_.biases || options_.added_biases ? Weight({rows}) : -1;
    const int inside = options_.added_biases ? -1 : bias;
    const int out = Add(Op::kFullyConnected, {x, weight, inside}, {1, 1, rows});
    return options_.added_biases ? Add(Op::kAdd, {out, bias}, {1, 1, rows}) : out;
  }
  int Scale(int x, float factor) {
    const Shape shape = graph_->tensors[static_cast<std::size_t>(x)].shape;
    return factor == 1 ? x : Add(Op::kMul, {x, Scalar(factor)}, shape);
  }
  int Cast(int x, Type type) {
    return Add(Op::kCast, {x}, graph_->tensors[static_cast<std::size_t>(x)].shape, {}, type);
  }

  int Norm(int x) {
    int weight = Weight({8});
    if (options_.norm_plus_one) weight = Add(Op::kAdd, {weight, Scalar(1)}, {8});
    if (options_.inline_norms) return InlineNorm(x, weight, {1, 1, 8});
    formats::tflite::OpOptions options;
    options.composite_name = "odml.rms_norm";
    options.composite_attributes = formats::tflite::MakeCompositeAttributes("epsilon", 1e-5f);
    return Add(Op::kStablehloComposite, {x, weight}, {1, 1, 8}, options);
  }

  int InlineNorm(int x, int weight, const Shape& shape) {
    const int square = Add(Op::kMul, {x, x}, shape);
    formats::tflite::OpOptions keep;
    keep.keep_dims = true;
    Shape ones = shape;
    ones.back() = 1;
    const auto last = static_cast<std::int32_t>(shape.size()) - 1;
    const int mean = Add(Op::kMean, {square, Ints({last})}, ones, keep);
    const int shifted = Add(Op::kAdd, {mean, Scalar(1e-5f)}, ones);
    const int inverse = Add(Op::kRsqrt, {shifted}, ones);
    const int normalized = Add(Op::kMul, {x, inverse}, shape);
    return Add(Op::kMul, {normalized, weight}, shape);
  }

  // [1, 1, count * 4] -> [1, count, 1, 4]
  int Heads(int x, std::int32_t count) {
    using HeadNorm = TinyGraphOptions::HeadNorm;
    const std::int32_t width = 4 * count;
    if (options_.head_norm == HeadNorm::kWholeRow) {
      x = InlineNorm(x, Weight({width}), {1, 1, width});
    }
    if (options_.head_norm == HeadNorm::kPerHead) {
      const int split = Reshape(x, {1, 1, count, 4});
      x = InlineNorm(split, Weight({4}), {1, 1, count, 4});
    }
    if (!options_.transposes) return Reshape(x, {1, count, 1, 4});
    const int split = Reshape(x, {1, 1, count, 4});
    return Add(Op::kTranspose, {split, Ints({0, 2, 1, 3})}, {1, count, 1, 4});
  }

  int Part(int x, std::int32_t begin, const Shape& shape) {
    Shape start(shape.size(), 0);
    start.back() = begin;
    return Add(Op::kSlice, {x, Ints(start), Ints(shape)}, shape);
  }

  int Rope(int x, std::int32_t count, int layer) {
    using Turn = TinyGraphOptions::Turn;
    if (options_.turn == Turn::kNone) return x;
    const std::int32_t size = options_.turn == Turn::kHalf ? 2 : 4;
    const Shape whole = {1, count, 1, size};
    const int turning = size == 4 ? x : Part(x, 0, whole);
    const bool other = options_.turn == Turn::kTwoTables && layer % 2 == 1;
    const int cos = other ? cos_other_ : cos_, sin = other ? sin_other_ : sin_;
    const Shape half = {1, count, 1, size / 2};
    const int low = Part(turning, 0, half);
    const int high = Part(turning, size / 2, half);
    if (options_.turn == Turn::kByHalves) {
      const int first =
          Add(Op::kSub, {Add(Op::kMul, {low, cos}, half), Add(Op::kMul, {high, sin}, half)}, half);
      const int second =
          Add(Op::kAdd, {Add(Op::kMul, {high, cos}, half), Add(Op::kMul, {low, sin}, half)}, half);
      return Concat(first, second, 3, whole);
    }
    const int with_cos = Add(Op::kMul, {turning, cos}, whole);
    const int negated = Add(Op::kMul, {high, Scalar(-1.0f)}, half);
    const int rotated = Concat(negated, low, 3, whole);
    const int with_sin = Add(Op::kMul, {rotated, sin}, whole);
    const int turned = Add(Op::kAdd, {with_cos, with_sin}, whole);
    if (size == 4) return turned;
    return Concat(turned, Part(x, 2, {1, count, 1, 2}), 3, {1, count, 1, 4});
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

  int Capped(int x, float cap) {
    if (cap == 0) return x;
    const Shape shape = graph_->tensors[static_cast<std::size_t>(x)].shape;
    const int small = options_.divided_caps ? Add(Op::kDiv, {x, Scalar(cap)}, shape)
                                            : Add(Op::kMul, {x, Scalar(1 / cap)}, shape);
    return Add(Op::kMul, {Add(Op::kTanh, {small}, shape), Scalar(cap)}, shape);
  }

  // q [1, 2, 1, 4] -> [1, 1, 8]
  int Attend(int q, int keys, int values) {
    formats::tflite::OpOptions key_order, value_order;
    key_order.adj_y = !options_.swapped_caches;
    value_order.adj_y = !options_.swapped_caches;
    const int query = Reshape(q, {1, 1, 2, 4});
    int scores = Add(Op::kBatchMatMul, {query, keys}, {1, 1, 2, 6}, key_order);
    scores = Capped(scores, options_.scores_cap);
    const Shape shape = options_.explicit_heads ? Shape{1, 2, 1, 6} : Shape{1, 1, 2, 6};
    if (options_.explicit_heads) scores = Reshape(scores, shape);
    const int masked = options_.mask == TinyGraphOptions::Mask::kAdded
                           ? Add(Op::kAdd, {scores, mask_}, shape)
                           : Add(Op::kSelectV2, {mask_, scores, Scalar(-1e30f)}, shape);
    int weights = Add(Op::kSoftmax, {masked}, shape);
    if (options_.explicit_heads) weights = Reshape(weights, {1, 1, 2, 6});
    const int context = Add(Op::kBatchMatMul, {weights, values}, {1, 1, 2, 4}, value_order);
    return Reshape(context, {1, 1, 8});
  }

  // The operators that body adds to a subgraph of its own, behind inputs; then a composite of it.
  template <typename Body>
  int Composite(const std::string& name, const std::vector<std::int32_t>& inputs,
                const Body& body) {
    formats::tflite::Subgraph inner;
    std::vector<std::int32_t> ids;
    for (const std::int32_t id : inputs) {
      inner.tensors.push_back(graph_->tensors[static_cast<std::size_t>(id)]);
      inner.tensors.back().buffer = 0;
      ids.push_back(static_cast<std::int32_t>(inner.tensors.size()) - 1);
    }
    inner.inputs = ids;
    inner.name = name + ".impl";
    formats::tflite::Subgraph outer = std::exchange(*graph_, std::move(inner));
    const int out = body(ids);
    graph_->outputs = {out};
    inner = std::exchange(*graph_, std::move(outer));
    const Shape shape = inner.tensors[static_cast<std::size_t>(out)].shape;
    formats::tflite::OpOptions options;
    options.composite_name = name;
    bodies_.push_back(std::move(inner));
    options.decomposition_subgraph = static_cast<std::int32_t>(bodies_.size());
    return Add(Op::kStablehloComposite, inputs, shape, options);
  }

  struct Projections {
    int q, k, v;
  };
  Projections Project(int x) {
    if (!options_.fused) return {Linear(x, 8, 8), Linear(x, 4, 8), Linear(x, 4, 8)};
    const int all = Linear(x, 16, 8);
    return {Part(all, 0, {1, 1, 8}), Part(all, 8, {1, 1, 4}), Part(all, 12, {1, 1, 4})};
  }

  int Write(const std::string& name, const Shape& shape, int update, int axis) {
    if (options_.half_cache) update = Cast(update, Type::kFloat16);
    const int out = Cache(name, shape, update, Index(axis));
    return options_.half_cache ? Cast(out, Type::kFloat32) : out;
  }

  int Attention(int x, int number) {
    const Projections p = Project(x);
    const int q = Rope(Heads(p.q, 2), 2, number);
    int k = Rope(Heads(p.k, 1), 1, number);
    const bool swapped = options_.swapped_caches;
    if (swapped) k = Reshape(k, {1, 1, 4, 1});
    const int v = Reshape(p.v, swapped ? Shape{1, 1, 1, 4} : Shape{1, 1, 4, 1});
    const std::string suffix = std::to_string(number);
    const Shape by_position = {1, 1, 6, 4}, by_size = {1, 1, 4, 6};
    const int keys =
        Write("kv_cache_k_" + suffix, swapped ? by_size : by_position, k, swapped ? 3 : 2);
    const int values =
        Write("kv_cache_v_" + suffix, swapped ? by_position : by_size, v, swapped ? 2 : 3);
    const int scaled = Add(Op::kMul, {q, Scalar(0.5f)}, {1, 2, 1, 4});
    if (!options_.composites) return Attend(scaled, keys, values);
    const int outer_mask = mask_;
    const int out = Composite("odml.sdpa_transposed", {scaled, keys, values, mask_},
                              [&](const std::vector<std::int32_t>& ids) {
                                mask_ = ids[3];
                                return Attend(ids[0], ids[1], ids[2]);
                              });
    mask_ = outer_mask;
    return out;
  }

  int Gated(int gate, int up) {
    using Gate = TinyGraphOptions::Gate;
    const Shape shape = {1, 1, 12};
    const auto mul = [&](int a, int b) { return Add(Op::kMul, {a, b}, shape); };
    const auto times = [&](int a, float b) { return Add(Op::kMul, {a, Scalar(b)}, shape); };
    if (options_.gate == Gate::kSilu) return mul(mul(gate, Add(Op::kLogistic, {gate}, shape)), up);
    if (options_.gate == Gate::kTanh) return mul(Add(Op::kTanh, {gate}, shape), up);
    if (options_.gate != Gate::kGeluByTanh) {
      formats::tflite::OpOptions options;
      options.approximate = options_.gate == Gate::kGelu;
      return mul(Add(Op::kGelu, {gate}, shape, options), up);
    }
    const int cube = mul(mul(gate, gate), gate);
    const int sum = Add(Op::kAdd, {gate, times(cube, 0.044715f)}, shape);
    const int bent = Add(Op::kTanh, {times(sum, 0.7978845608f)}, shape);
    const int one = Add(Op::kAdd, {bent, Scalar(1)}, shape);
    return mul(mul(times(gate, 0.5f), one), up);
  }

  int Residual(int x, int change) {
    if (options_.post_norm) change = Norm(change);
    return Add(Op::kAdd, {x, Scale(change, options_.residual_scale)}, {1, 1, 8});
  }

  int Layer(int x, int number) {
    const int norm = options_.no_pre_norm ? x : Norm(x);
    const int middle = Residual(x, Linear(Attention(norm, number), 8, 8));
    const int ffn_norm = options_.no_pre_norm ? middle : Norm(middle);
    int gate = -1, up = -1;
    if (options_.fused) {
      const int both = Linear(ffn_norm, 24, 8);
      gate = Part(both, 0, {1, 1, 12});
      up = Part(both, 12, {1, 1, 12});
    } else {
      gate = Linear(ffn_norm, 12, 8);
      up = Linear(ffn_norm, 12, 8);
    }
    return Residual(middle, Linear(Gated(gate, up), 8, 12));
  }

  int Cache(const std::string& name, const Shape& shape, int update, int index) {
    const Type type = options_.half_cache ? Type::kFloat16 : Type::kFloat32;
    const int cache = Tensor(shape, type);
    const int out = Add(Op::kDynamicUpdateSlice, {cache, update, index}, shape, {}, type);
    signature_.inputs.emplace_back(name, static_cast<std::uint32_t>(cache));
    signature_.outputs.emplace_back(name, static_cast<std::uint32_t>(out));
    return out;
  }

  // cos and sin of position times frequencies, for both halves of what turns.
  std::pair<int, int> Rotation(std::vector<float> frequencies) {
    const auto pairs = static_cast<std::int32_t>(frequencies.size());
    const int shaped = Reshape(position_, {1, 1, 1}, Type::kInt32);
    const int number = Cast(shaped, Type::kFloat32);
    const int table = Constant(Shape{1, 1, pairs}, Type::kFloat32, frequencies);
    int angles = Add(Op::kMul, {number, table}, {1, 1, pairs});
    Shape shape = {1, 1, pairs};
    if (options_.turn != TinyGraphOptions::Turn::kByHalves) {
      shape = {1, 1, 2 * pairs};
      angles = Concat(angles, angles, 2, shape);
    }
    const int cos = Add(Op::kCos, {angles}, shape);
    const int sin = Add(Op::kSin, {angles}, shape);
    if (!options_.magnitude) return {cos, sin};
    return {Add(Op::kMul, {cos, Scalar(1.5f)}, shape), Add(Op::kMul, {sin, Scalar(1.5f)}, shape)};
  }

  void Rotations() {
    using Turn = TinyGraphOptions::Turn;
    if (options_.turn == Turn::kNone) return;
    std::tie(cos_, sin_) =
        Rotation(options_.turn == Turn::kHalf ? std::vector{0.75f} : std::vector{1.0f, 0.01f});
    if (options_.turn != Turn::kTwoTables) return;
    std::tie(cos_other_, sin_other_) = Rotation({0.5f, 0.25f});
  }

  // One row of the mask, or one for each of two heads; with the window if there is one.
  int MaskRows(int mask) {
    using Window = TinyGraphOptions::Window;
    using Mask = TinyGraphOptions::Mask;
    const Shape row = {1, 1, 1, 6};
    const bool added = options_.mask == Mask::kAdded;
    if (options_.mask == Mask::kEqualZero) {
      mask = Add(Op::kEqual, {mask, Scalar(0)}, row, {}, Type::kBool);
    }
    const bool made = options_.window == Window::kClamped || options_.window == Window::kSelected;
    const int position = made ? Reshape(position_, {1, 1, 1, 1}, Type::kInt32) : -1;
    if (options_.window == Window::kClamped) {  // columns before position - 2
      const int last = Constant(row, Type::kFloat32, std::vector<float>{2, 3, 4, 5, 6, 7});
      const int beyond = Add(Op::kSub, {Cast(position, Type::kFloat32), last}, row);
      const int positive = Add(Op::kMaximum, {beyond, Scalar(0)}, row);
      const int outside = Add(Op::kMinimum, {positive, Scalar(1)}, row);
      mask = Add(Op::kAdd, {mask, Add(Op::kMul, {outside, Scalar(-1e4f)}, row)}, row);
    }
    if (options_.window == Window::kSelected) {
      const int columns = Constant(row, Type::kInt32, std::vector<std::int32_t>{0, 1, 2, 3, 4, 5});
      const int three = Constant(Shape{}, Type::kInt32, std::vector<std::int32_t>{3});
      const int left = Add(Op::kSub, {position, three}, {1, 1, 1, 1}, {}, Type::kInt32);
      const int right = Add(Op::kAdd, {position, three}, {1, 1, 1, 1}, {}, Type::kInt32);
      const int after = Add(Op::kGreater, {columns, left}, row, {}, Type::kBool);
      const int before = Add(Op::kLess, {columns, right}, row, {}, Type::kBool);
      int inside = Add(Op::kLogicalAnd, {after, before}, row, {}, Type::kBool);
      if (added) {
        inside = Add(Op::kSelectV2, {inside, Scalar(0), Scalar(-1e4f)}, row);
        mask = Add(Op::kAdd, {mask, inside}, row);
      } else {
        mask = Add(Op::kLogicalAnd, {mask, inside}, row, {}, Type::kBool);
      }
    }
    if (options_.explicit_heads || !added) return mask;
    return Concat(mask, mask, 2, {1, 1, 2, 6});
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
    const bool local = options_.window == TinyGraphOptions::Window::kLocalMask;
    const bool is_bool = options_.mask == TinyGraphOptions::Mask::kBool;
    const int mask =
        Input(local ? "local_mask" : "mask", {1, 1, 1, 6}, is_bool ? Type::kBool : Type::kFloat32);
    Rotations();
    mask_ = MaskRows(mask);
    x = Scale(x, options_.embedding_scale);
    for (int i = 0; i < options_.layers; ++i) x = Layer(x, i);
    const int norm = Scale(Norm(x), options_.logits_scale);
    int logits = Add(Op::kFullyConnected, {norm, Weight({10, 8}), -1}, {1, 1, 10});
    logits = Capped(Scale(logits, options_.head_scale), options_.logits_cap);
    signature_.outputs.emplace_back("logits", static_cast<std::uint32_t>(logits));
    Finish("decode");
    for (formats::tflite::Subgraph& body : bodies_) decoder.subgraphs.push_back(std::move(body));
    graph_ = nullptr;
  }

  TinyGraphOptions options_;
  Model* model_ = nullptr;
  formats::tflite::Subgraph* graph_ = nullptr;
  formats::tflite::SignatureDef signature_;
  std::vector<formats::tflite::Subgraph> bodies_;
  std::size_t counter_ = 0;
  int position_ = -1, mask_ = -1, cos_ = -1, sin_ = -1, cos_other_ = -1, sin_other_ = -1;
};

}  // namespace hone::model
