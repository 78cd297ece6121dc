// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/builder.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "graph/subgraph_builder.h"

namespace hone::graph {
namespace {

using model::Role;

// Dimensions of a decoder as the graph's integers. Checked by CheckDimensions.
struct Dims {
  explicit Dims(const model::DecoderSpec& spec, std::int64_t context)
      : hidden(static_cast<std::int32_t>(spec.hidden)),
        heads(static_cast<std::int32_t>(spec.num_heads)),
        kv_heads(static_cast<std::int32_t>(spec.num_kv_heads)),
        head_dim(static_cast<std::int32_t>(spec.head_dim)),
        vocab(static_cast<std::int32_t>(spec.vocab)),
        positions(static_cast<std::int32_t>(context)) {}
  std::int32_t hidden, heads, kv_heads, head_dim, vocab;
  std::int32_t positions;  // of the cache
};

std::string WeightName(Role role, std::int64_t layer) {
  static const std::map<Role, const char*> kNames = {
      {Role::kInputNorm, "input_layernorm.weight"},
      {Role::kQ, "self_attn.q_proj.weight"},
      {Role::kK, "self_attn.k_proj.weight"},
      {Role::kV, "self_attn.v_proj.weight"},
      {Role::kO, "self_attn.o_proj.weight"},
      {Role::kFfnNorm, "post_attention_layernorm.weight"},
      {Role::kGate, "mlp.gate_proj.weight"},
      {Role::kUp, "mlp.up_proj.weight"},
      {Role::kDown, "mlp.down_proj.weight"},
      {Role::kQBias, "self_attn.q_proj.bias"},
      {Role::kKBias, "self_attn.k_proj.bias"},
      {Role::kVBias, "self_attn.v_proj.bias"},
      {Role::kOBias, "self_attn.o_proj.bias"},
      {Role::kGateBias, "mlp.gate_proj.bias"},
      {Role::kUpBias, "mlp.up_proj.bias"},
      {Role::kDownBias, "mlp.down_proj.bias"},
  };
  if (role == Role::kEmbedding) return "model.embed_tokens.weight";
  if (role == Role::kHead) return "lm_head.weight";
  if (role == Role::kFinalNorm) return "model.norm.weight";
  return "model.layers." + std::to_string(layer) + "." + kNames.at(role);
}

Role BiasOf(Role role) {
  switch (role) {
    case Role::kQ:
      return Role::kQBias;
    case Role::kK:
      return Role::kKBias;
    case Role::kV:
      return Role::kVBias;
    case Role::kO:
      return Role::kOBias;
    case Role::kGate:
      return Role::kGateBias;
    case Role::kUp:
      return Role::kUpBias;
    default:
      return Role::kDownBias;
  }
}

// Bodies of the rms_norm composite. One body serves every norm of its input's shape.
class NormBodies {
 public:
  NormBodies(Graph& graph, ConstantPool& pool) : graph_(graph), pool_(pool) {}

  // y = x / sqrt(mean(x^2) + epsilon) * weight
  std::int32_t Find(Shape shape, float epsilon) {
    const auto found = bodies_.find(shape);
    if (found != bodies_.end()) return found->second;
    const std::string count = bodies_.empty() ? "" : "_" + std::to_string(bodies_.size() - 1);
    SubgraphBuilder g(graph_, pool_, "odml.rms_norm.impl" + count);
    const TensorId x = g.Input("x", shape, ElementType::kFloat32);
    const TensorId weight = g.Input("weight", {shape.back()}, ElementType::kFloat32);
    const TensorId mean_square = g.MeanOfLastAxis(g.Mul(x, x, "square"));
    const Shape ones(shape.size(), 1);
    const TensorId inverse = g.Rsqrt(g.Add(mean_square, g.Floats({&epsilon, 1}, ones)));
    g.Output(g.Mul(g.Mul(x, inverse, "normalized"), weight, "output"));
    return bodies_[shape] = g.index();
  }

 private:
  Graph& graph_;
  ConstantPool& pool_;
  std::map<Shape, std::int32_t> bodies_;
};

// One signature: the decoder for a fixed number of tokens.
class DecoderBuilder {
 public:
  DecoderBuilder(Graph& graph, ConstantPool& pool, NormBodies& norms,
                 const model::DecoderModel& model, const quant::Resolved& schemes, const Dims& dims,
                 std::string key, std::int32_t tokens)
      : g_(graph, pool, key),
        graph_(graph),
        norms_(norms),
        model_(model),
        spec_(model.spec),
        schemes_(schemes),
        d_(dims),
        key_(std::move(key)),
        tokens_(tokens) {}

  // Prefill fills the cache and nothing else, so its last layer ends at the cache. Only decode has
  // logits.
  void Build(bool with_logits) {
    DeclareInputs();
    BuildRotation();
    BuildCachePositions();
    TensorId x = embeddings_;  // [1, tokens, hidden]
    for (std::int64_t layer = 0; layer < spec_.num_layers; ++layer) {
      layer_ = layer;
      const bool cache_only = !with_logits && layer == spec_.num_layers - 1;
      const TensorId a = Norm(x, Role::kInputNorm, "input_layernorm");
      const TensorId attended = Attention(a, cache_only);
      if (cache_only) break;
      x = Residual(x, attended, "attention_residual");
      const TensorId b = Norm(x, Role::kFfnNorm, "post_attention_layernorm");
      x = Residual(x, FeedForward(b), "output");
    }
    if (with_logits) BuildLogits(x);
    DeclareSignature();
  }

 private:
  void DeclareInputs() {
    const auto input = [&](const std::string& name, Shape shape, ElementType type) {
      const TensorId id = g_.Input(key_ + "_" + name, std::move(shape), type);
      inputs_[name] = id;
      return id;
    };
    embeddings_ = input("embeddings", {1, tokens_, d_.hidden}, ElementType::kFloat32);
    input_pos_ = input("input_pos", {tokens_}, ElementType::kInt32);
    mask_ = input("mask", {1, 1, tokens_, d_.positions}, ElementType::kFloat32);
    for (std::int64_t i = 0; i < spec_.num_layers; ++i) {
      const Shape key_shape = {1, d_.kv_heads, d_.positions, d_.head_dim};
      const Shape value_shape = {1, d_.kv_heads, d_.head_dim, d_.positions};
      key_caches_.push_back(input(KeyCacheName(i), key_shape, ElementType::kFloat32));
      value_caches_.push_back(input(ValueCacheName(i), value_shape, ElementType::kFloat32));
    }
  }

  // cos and sin of position * inv_freq, the same for both halves of a head.
  void BuildRotation() {
    g_.SetScope("rotary_emb");
    const Shape freq_shape = {1, 1, d_.head_dim / 2};
    const TensorId position = g_.CastToFloat(g_.Reshape(input_pos_, {1, tokens_, 1}));
    const TensorId half = g_.Mul(position, g_.Floats(spec_.rope.inv_freq, freq_shape), "angle");
    const TensorId angle = g_.Concat({half, half}, 2);
    cos_ = g_.Cos(angle);  // [1, tokens, head_dim]
    sin_ = g_.Sin(angle);
    if (spec_.rope.magnitude != 1.0f) {
      const TensorId magnitude = g_.Scalar(spec_.rope.magnitude);
      cos_ = g_.Mul(cos_, magnitude, "cos_scaled");
      sin_ = g_.Mul(sin_, magnitude, "sin_scaled");
    }
  }

  // Where this step's keys and values begin in the caches: at the first position. A step's
  // positions are consecutive.
  void BuildCachePositions() {
    g_.SetScope("cache");
    const TensorId first = tokens_ == 1 ? input_pos_ : g_.Slice(input_pos_, {0}, {1});
    const TensorId position = g_.Reshape(first, {});
    const TensorId zero = g_.Scalar(std::int32_t{0});
    key_start_ = g_.Pack({zero, zero, position, zero});
    value_start_ = g_.Pack({zero, zero, zero, position});
  }

  TensorId Attention(TensorId x, bool cache_only) {
    const TensorId k = Rotate(SplitHeads(Linear(x, Role::kK), d_.kv_heads));
    const TensorId v = SplitHeadsTransposed(Linear(x, Role::kV));
    const TensorId keys = UpdateCache(key_caches_, k, key_start_, KeyCacheName(layer_));
    const TensorId values = UpdateCache(value_caches_, v, value_start_, ValueCacheName(layer_));
    if (cache_only) return kNoTensor;

    // softmax(q K^T * scale + mask) V. The query heads that share a key head are stacked as rows.
    const TensorId q = Rotate(SplitHeads(Linear(x, Role::kQ), d_.heads));
    const std::int32_t rows = d_.heads / d_.kv_heads * tokens_;
    const TensorId scaled = g_.Mul(q, g_.Scalar(spec_.attention_scale), "query");
    const TensorId query = g_.Reshape(scaled, {1, d_.kv_heads, rows, d_.head_dim});
    const TensorId scores = g_.MatMulTransposed(query, keys, "scores");  // [1, kv, rows, positions]
    const TensorId probs = g_.Softmax(g_.Add(scores, StackedMask(), "masked"));
    const TensorId context = g_.MatMulTransposed(probs, values, "context");
    return Linear(JoinHeads(context), Role::kO);
  }

  // down(silu(gate(x)) * up(x)), silu(z) = z * sigmoid(z).
  TensorId FeedForward(TensorId x) {
    const TensorId gate = Linear(x, Role::kGate);
    const TensorId silu = g_.Mul(gate, g_.Logistic(gate), "silu");
    const TensorId up = Linear(x, Role::kUp);
    return Linear(g_.Mul(silu, up, "gated"), Role::kDown);
  }

  void BuildLogits(TensorId x) {
    layer_ = -1;
    const TensorId logits = Linear(Norm(x, Role::kFinalNorm, "norm"), Role::kHead);
    g_.Rename(logits, key_ + "_logits_output");
    outputs_["logits"] = logits;
  }

  // x w^T + bias
  TensorId Linear(TensorId x, Role role) {
    const std::string weight_name = WeightName(role, layer_);
    const model::Shape shape = model::RoleShape(spec_, role);
    const TensorId w = g_.Weight(
        weight_name, {static_cast<std::int32_t>(shape.rows), static_cast<std::int32_t>(shape.cols)},
        {role, layer_, schemes_.Get(role, layer_)});
    TensorId bias = kNoTensor;
    if (role != Role::kHead && model::GetWeight(model_, BiasOf(role), layer_).present()) {
      bias = Vector(BiasOf(role));
    }
    g_.SetScope("");
    // "layers.3.mlp.up_proj" from "model.layers.3.mlp.up_proj.weight".
    const std::string_view name = weight_name;
    const std::size_t begin = name.starts_with("model.") ? 6 : 0;
    return g_.FullyConnected(x, w, bias, name.substr(begin, name.rfind('.') - begin));
  }

  TensorId Vector(Role role) {
    const auto length = static_cast<std::int32_t>(model::RoleShape(spec_, role).cols);
    return g_.Weight(WeightName(role, layer_), {length}, {role, layer_, quant::Scheme{}});
  }

  TensorId Norm(TensorId x, Role role, std::string_view name) {
    SetLayerScope("");
    const std::int32_t body = norms_.Find(g_.shape(x), spec_.norm_epsilon);
    return g_.RmsNormComposite(x, Vector(role), spec_.norm_epsilon, body, name);
  }

  TensorId Residual(TensorId x, TensorId change, std::string_view name) {
    SetLayerScope("");
    return g_.Add(x, change, name);
  }

  // x * cos + rotate_half(x) * sin, where rotate_half([lo, hi]) = [-hi, lo].
  TensorId Rotate(TensorId x) {
    SetLayerScope("self_attn");
    Shape half = g_.shape(x);  // [1, heads, tokens, head_dim]
    half.back() /= 2;
    const TensorId lo = g_.Slice(x, {0, 0, 0, 0}, half);
    const TensorId hi = g_.Slice(x, {0, 0, 0, half.back()}, half);
    const TensorId rotated = g_.Concat({g_.Mul(hi, g_.Scalar(-1.0f), "negated"), lo}, 3);
    return g_.Add(g_.Mul(x, cos_, "x_cos"), g_.Mul(rotated, sin_, "x_sin"), "rotated");
  }

  // [1, tokens, heads * head_dim] -> [1, heads, tokens, head_dim]. For one token both orders are
  // the same bytes.
  TensorId SplitHeads(TensorId x, std::int32_t heads) {
    SetLayerScope("self_attn");
    if (tokens_ == 1) return g_.Reshape(x, {1, heads, 1, d_.head_dim});
    return g_.Transpose(g_.Reshape(x, {1, tokens_, heads, d_.head_dim}), {0, 2, 1, 3});
  }

  // [1, tokens, kv_heads * head_dim] -> [1, kv_heads, head_dim, tokens], the value cache's order.
  TensorId SplitHeadsTransposed(TensorId x) {
    SetLayerScope("self_attn");
    if (tokens_ == 1) return g_.Reshape(x, {1, d_.kv_heads, d_.head_dim, 1});
    return g_.Transpose(g_.Reshape(x, {1, tokens_, d_.kv_heads, d_.head_dim}), {0, 2, 3, 1});
  }

  // [1, kv_heads, group * tokens, head_dim] -> [1, tokens, heads * head_dim]
  TensorId JoinHeads(TensorId x) {
    const Shape joined = {1, tokens_, d_.heads * d_.head_dim};
    if (tokens_ == 1) return g_.Reshape(x, joined);
    const TensorId split = g_.Reshape(x, {1, d_.heads, tokens_, d_.head_dim});
    return g_.Reshape(g_.Transpose(split, {0, 2, 1, 3}), joined);
  }

  // The mask once for each query head of a group: [1, 1, group * tokens, positions].
  TensorId StackedMask() {
    if (stacked_mask_ == kNoTensor) {
      g_.SetScope("");
      const auto group = static_cast<std::size_t>(d_.heads / d_.kv_heads);
      stacked_mask_ = group == 1 ? mask_ : g_.Concat(std::vector<TensorId>(group, mask_), 2);
      SetLayerScope("self_attn");
    }
    return stacked_mask_;
  }

  TensorId UpdateCache(const std::vector<TensorId>& caches, TensorId update, TensorId start,
                       const std::string& name) {
    const TensorId cache = caches[static_cast<std::size_t>(layer_)];
    const TensorId updated = g_.DynamicUpdateSlice(cache, update, start);
    g_.Rename(updated, key_ + "_" + name + "_output");
    outputs_[name] = updated;
    return updated;
  }

  void DeclareSignature() {
    Signature signature{.key = key_, .subgraph = g_.index(), .inputs = {}, .outputs = {}};
    for (const auto& [name, id] : inputs_) signature.inputs.emplace_back(name, id);
    for (const auto& [name, id] : outputs_) {
      signature.outputs.emplace_back(name, id);
      g_.Output(id);
    }
    graph_.signatures.push_back(std::move(signature));
  }

  void SetLayerScope(std::string_view part) {
    if (layer_ < 0) return g_.SetScope("");
    g_.SetScope("layers." + std::to_string(layer_) + (part.empty() ? "" : "." + std::string(part)));
  }

  SubgraphBuilder g_;
  Graph& graph_;
  NormBodies& norms_;
  const model::DecoderModel& model_;
  const model::DecoderSpec& spec_;
  const quant::Resolved& schemes_;
  const Dims& d_;
  std::string key_;
  std::int32_t tokens_;
  std::int64_t layer_ = 0;
  std::map<std::string, TensorId> inputs_, outputs_;  // by signature name
  TensorId embeddings_ = kNoTensor, input_pos_ = kNoTensor, mask_ = kNoTensor;
  std::vector<TensorId> key_caches_, value_caches_;
  TensorId cos_ = kNoTensor, sin_ = kNoTensor;
  TensorId key_start_ = kNoTensor, value_start_ = kNoTensor;
  TensorId stacked_mask_ = kNoTensor;
};

void BuildEmbedderSignature(Graph& graph, ConstantPool& pool, const WeightSource& table,
                            const Dims& d, const std::string& key, std::int32_t tokens) {
  SubgraphBuilder g(graph, pool, key);
  const TensorId ids = g.Input(key + "_token_ids", {1, tokens}, ElementType::kInt32);
  const TensorId w = g.Weight(WeightName(Role::kEmbedding, -1), {d.vocab, d.hidden}, table);
  // A runtime marks places without a token by negative ids.
  const TensorId known = g.Maximum(ids, g.Scalar(std::int32_t{0}));
  const TensorId rows = g.EmbeddingLookup(g.Reshape(known, {tokens}), w);
  const TensorId embeddings = g.Reshape(rows, {1, tokens, d.hidden});
  g.Rename(embeddings, key + "_embeddings_output");
  g.Output(embeddings);
  graph.signatures.push_back({.key = key,
                              .subgraph = g.index(),
                              .inputs = {{"token_ids", ids}},
                              .outputs = {{"embeddings", embeddings}}});
}

Status CheckDimensions(const model::DecoderSpec& spec, const BuildOptions& options) {
  const auto fits = [](std::int64_t a, std::int64_t b) {
    return a > 0 && b > 0 && a <= std::numeric_limits<std::int32_t>::max() / b;
  };
  const std::int64_t longest =
      options.prefill.empty() ? 1
                              : std::max<std::int64_t>(1, *std::max_element(options.prefill.begin(),
                                                                            options.prefill.end()));
  if (!fits(spec.num_heads, spec.head_dim) || !fits(spec.num_heads, longest) ||
      !fits(spec.vocab, 1) || !fits(spec.hidden, 1) || !fits(spec.ffn, 1) ||
      !fits(options.context, 1)) {
    return Status(Code::kUnsupported,
                  "a dimension of the model does not fit in the 32 bits of a TFLite shape");
  }
  return Status();
}

}  // namespace

std::string KeyCacheName(std::int64_t layer) { return "kv_cache_k_" + std::to_string(layer); }
std::string ValueCacheName(std::int64_t layer) { return "kv_cache_v_" + std::to_string(layer); }

Result<std::vector<std::int64_t>> PrefillLadder(const std::vector<std::int64_t>& lengths,
                                                std::int64_t context) {
  std::vector<std::int64_t> ladder;
  for (const std::int64_t length : lengths) {
    if (length < 1) {
      return Status(Code::kInvalidArgument,
                    StrCat("prefill length ", length, ": expected a positive number"));
    }
    if (length <= context) ladder.push_back(length);
  }
  std::sort(ladder.rbegin(), ladder.rend());
  ladder.erase(std::unique(ladder.begin(), ladder.end()), ladder.end());
  if (ladder.empty()) {
    return Status(Code::kInvalidArgument,
                  StrCat("no prefill length fits the context of ", context,
                         " positions; give one that is not larger, such as --prefill 1"));
  }
  return ladder;
}

Result<Graph> BuildDecoder(const model::DecoderModel& model, const quant::Resolved& schemes,
                           const BuildOptions& options) {
  HONE_TRY(CheckDimensions(model.spec, options));
  const Dims dims(model.spec, options.context);
  Graph graph;
  ConstantPool pool(graph);
  NormBodies norms(graph, pool);
  // Creating a builder reserves its subgraph, so that signatures come first, in order, and the
  // bodies of norms behind them.
  std::deque<DecoderBuilder> builders;
  for (const std::int64_t length : options.prefill) {
    builders.emplace_back(graph, pool, norms, model, schemes, dims,
                          "prefill_" + std::to_string(length), static_cast<std::int32_t>(length));
  }
  DecoderBuilder& decode =
      builders.emplace_back(graph, pool, norms, model, schemes, dims, "decode", 1);
  for (DecoderBuilder& builder : builders) builder.Build(&builder == &decode);
  HONE_TRY(Verify(graph));
  return graph;
}

Result<Graph> BuildEmbedder(const model::DecoderModel& model, const quant::Resolved& schemes,
                            const BuildOptions& options) {
  HONE_TRY(CheckDimensions(model.spec, options));
  const Dims dims(model.spec, options.context);
  Graph graph;
  ConstantPool pool(graph);
  const WeightSource table{Role::kEmbedding, -1, schemes.Get(Role::kEmbedding, -1)};
  BuildEmbedderSignature(graph, pool, table, dims, "decode_embedder", 1);
  for (const std::int64_t length : options.prefill) {
    BuildEmbedderSignature(graph, pool, table, dims, "prefill_embedder_" + std::to_string(length),
                           static_cast<std::int32_t>(length));
  }
  HONE_TRY(Verify(graph));
  return graph;
}

}  // namespace hone::graph
