// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/builder.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "graph/subgraph_builder.h"
#include "graph/weight_name.h"

namespace hone::graph {
namespace {

using model::Role;

// Dimensions of a decoder as the graph's integers. Checked by CheckDimensions.
struct Dims {
  Dims(const model::DecoderSpec& spec, const BuildOptions& options)
      : hidden(static_cast<std::int32_t>(spec.hidden)),
        heads(static_cast<std::int32_t>(spec.num_heads)),
        kv_heads(static_cast<std::int32_t>(spec.num_kv_heads)),
        head_dim(static_cast<std::int32_t>(spec.head_dim)),
        vocab(static_cast<std::int32_t>(spec.vocab)),
        positions(static_cast<std::int32_t>(options.context)),
        half_cache(options.half_cache) {}
  std::int32_t hidden, heads, kv_heads, head_dim, vocab;
  std::int32_t positions;  // of the cache
  bool half_cache;
};

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

// [1, tokens, rotary dimensions] each.
struct Rotation {
  TensorId cos = kNoTensor, sin = kNoTensor;
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
    BuildRotations();
    BuildCachePositions();
    TensorId x = embeddings_;  // [1, tokens, hidden]
    for (std::int64_t layer = 0; layer < spec_.num_layers; ++layer) {
      layer_ = layer;
      const bool cache_only = !with_logits && layer == spec_.num_layers - 1;
      const TensorId a = spec_.pre_norm ? Norm(x, Role::kInputNorm, "input_layernorm") : x;
      const TensorId attended = Attention(a, cache_only);
      if (cache_only) break;
      x = Residual(x, attended, Role::kPostAttentionNorm, "attention_residual");
      const TensorId b = spec_.pre_norm ? Norm(x, Role::kFfnNorm, NormName(Role::kFfnNorm)) : x;
      x = Residual(x, FeedForward(b), Role::kPostFfnNorm, "output");
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
    const ElementType cache = d_.half_cache ? ElementType::kFloat16 : ElementType::kFloat32;
    for (std::int64_t i = 0; i < spec_.num_layers; ++i) {
      const Shape key_shape = {1, d_.kv_heads, d_.positions, d_.head_dim};
      const Shape value_shape = {1, d_.kv_heads, d_.head_dim, d_.positions};
      key_caches_.push_back(input(KeyCacheName(i), key_shape, cache));
      value_caches_.push_back(input(ValueCacheName(i), value_shape, cache));
    }
  }

  // The position of every row as a float, exact up to 2^24: [1, tokens, 1].
  TensorId Position() {
    if (position_ == kNoTensor) {
      position_ = g_.CastToFloat(g_.Reshape(input_pos_, {1, tokens_, 1}));
    }
    return position_;
  }

  // One table of cos and sin for each rope that a layer uses.
  void BuildRotations() {
    rotations_.resize(spec_.ropes.size());
    for (std::int64_t layer = 0; layer < spec_.num_layers; ++layer) {
      const std::int32_t index = model::GetLayerSpec(spec_, layer).rope;
      if (index == model::kNoRope) continue;
      Rotation& rotation = rotations_[static_cast<std::size_t>(index)];
      if (rotation.cos != kNoTensor) continue;
      g_.SetScope(index == 0 ? "rotary_emb" : "rotary_emb_" + std::to_string(index));
      rotation = BuildRotation(spec_.ropes[static_cast<std::size_t>(index)]);
    }
  }

  // cos and sin of position * inv_freq, the same for both halves: [1, tokens, rotary dimensions].
  Rotation BuildRotation(const model::RopeTable& table) {
    Rotation out;
    const auto pairs = static_cast<std::int32_t>(table.inv_freq.size());
    const TensorId position = Position();
    const TensorId half = g_.Mul(position, g_.Floats(table.inv_freq, {1, 1, pairs}), "angle");
    const TensorId angle = g_.Concat({half, half}, 2);
    out.cos = g_.Cos(angle);
    out.sin = g_.Sin(angle);
    if (table.magnitude != 1.0f) {
      const TensorId magnitude = g_.Scalar(table.magnitude);
      out.cos = g_.Mul(out.cos, magnitude, "cos_scaled");
      out.sin = g_.Mul(out.sin, magnitude, "sin_scaled");
    }
    return out;
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
    const TensorId k = Rotate(SplitHeads(x, Role::kK, Role::kKNorm, d_.kv_heads));
    const TensorId v = SplitHeadsTransposed(Linear(x, Role::kV));
    const TensorId keys = UpdateCache(key_caches_, k, key_start_, KeyCacheName(layer_));
    const TensorId values = UpdateCache(value_caches_, v, value_start_, ValueCacheName(layer_));
    if (cache_only) return kNoTensor;

    // softmax(q K^T * scale + mask) V. The query heads that share a key head are stacked as rows.
    const TensorId q = Rotate(SplitHeads(x, Role::kQ, Role::kQNorm, d_.heads));
    const std::int32_t rows = d_.heads / d_.kv_heads * tokens_;
    const TensorId scaled = g_.Mul(q, g_.Scalar(spec_.attention_scale), "query");
    const TensorId query = g_.Reshape(scaled, {1, d_.kv_heads, rows, d_.head_dim});
    // [1, kv, rows, positions]
    const TensorId scores =
        Softcap(g_.MatMulTransposed(query, CacheAsFloat(keys), "scores"), spec_.attention_softcap);
    const TensorId probs = g_.Softmax(g_.Add(scores, StackedMask(), "masked"));
    const TensorId context = g_.MatMulTransposed(probs, CacheAsFloat(values), "context");
    return Linear(JoinHeads(context), Role::kO);
  }

  // down(activation(gate(x)) * up(x)), silu(z) = z * sigmoid(z).
  TensorId FeedForward(TensorId x) {
    const TensorId gate = Linear(x, Role::kGate);
    const TensorId active = spec_.activation == model::Activation::kSilu
                                ? g_.Mul(gate, g_.Logistic(gate), "silu")
                                : g_.Gelu(gate, spec_.activation == model::Activation::kGeluTanh);
    const TensorId up = Linear(x, Role::kUp);
    return Linear(g_.Mul(active, up, "gated"), Role::kDown);
  }

  void BuildLogits(TensorId x) {
    layer_ = -1;
    const TensorId normed = Norm(x, Role::kFinalNorm, "norm");
    const TensorId head =
        Linear(Scale(normed, spec_.logits_multiplier, "norm_scaled"), Role::kHead);
    const TensorId logits = Softcap(head, spec_.logits_softcap);
    g_.Rename(logits, key_ + "_logits_output");
    outputs_["logits"] = logits;
  }

  // x * factor, or x itself where that changes nothing.
  TensorId Scale(TensorId x, float factor, std::string_view name) {
    return factor == 1.0f ? x : g_.Mul(x, g_.Scalar(factor), name);
  }

  // cap * tanh(x / cap); a cap of 0 leaves x as it is.
  TensorId Softcap(TensorId x, float cap) {
    if (cap == 0.0f) return x;
    const TensorId bent = g_.Tanh(g_.Mul(x, g_.Scalar(1.0f / cap), "softcap_scaled"));
    return g_.Mul(bent, g_.Scalar(cap), "softcap");
  }

  // x w^T + bias
  TensorId Linear(TensorId x, Role role) {
    const std::string weight_name = WeightName(spec_, role, layer_);
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
    return g_.Weight(WeightName(spec_, role, layer_), {length}, {role, layer_, quant::Scheme{}});
  }

  TensorId Norm(TensorId x, Role role, std::string_view name) {
    SetLayerScope("");
    const std::int32_t body = norms_.Find(g_.shape(x), spec_.norm_epsilon);
    return g_.RmsNormComposite(x, Vector(role), spec_.norm_epsilon, body, name);
  }

  // "post_attention_layernorm" from "model.layers.3.post_attention_layernorm.weight".
  std::string NormName(Role role) const {
    const std::string weight = WeightName(spec_, role, layer_);
    const std::size_t end = weight.rfind('.');
    const std::size_t begin = weight.rfind('.', end - 1) + 1;
    return weight.substr(begin, end - begin);
  }

  // x + post_norm(change) * multiplier
  TensorId Residual(TensorId x, TensorId change, Role post_norm, std::string_view name) {
    if (spec_.post_norm) change = Norm(change, post_norm, NormName(post_norm));
    SetLayerScope("");
    return g_.Add(x, Scale(change, spec_.residual_multiplier, "residual_scaled"), name);
  }

  // x * cos + rotate_half(x) * sin, where rotate_half([lo, hi]) = [-hi, lo]. Dimensions of a head
  // behind the table's stay as they are.
  TensorId Rotate(TensorId x) {
    const std::int32_t index = model::GetLayerSpec(spec_, layer_).rope;
    if (index == model::kNoRope) return x;
    SetLayerScope("self_attn");
    const Rotation& rotation = rotations_[static_cast<std::size_t>(index)];
    Shape part = g_.shape(x);  // [1, heads, tokens, head_dim]
    const std::int32_t rotary = g_.shape(rotation.cos).back();
    const std::int32_t rest = part.back() - rotary;
    part.back() = rotary;
    const TensorId turning = rest == 0 ? x : g_.Slice(x, {0, 0, 0, 0}, part);
    Shape half = part;
    half.back() /= 2;
    const TensorId lo = g_.Slice(turning, {0, 0, 0, 0}, half);
    const TensorId hi = g_.Slice(turning, {0, 0, 0, half.back()}, half);
    const TensorId rotated = g_.Concat({g_.Mul(hi, g_.Scalar(-1.0f), "negated"), lo}, 3);
    const TensorId x_sin = g_.Mul(rotated, rotation.sin, "x_sin");
    const TensorId turned = g_.Add(g_.Mul(turning, rotation.cos, "x_cos"), x_sin, "rotated");
    if (rest == 0) return turned;
    part.back() = rest;
    return g_.Concat({turned, g_.Slice(x, {0, 0, 0, rotary}, part)}, 3);
  }

  // The linear's result by heads: [1, heads, tokens, head_dim], with its norm if there is one. For
  // one token [1, 1, heads, head_dim] has the same bytes.
  TensorId SplitHeads(TensorId x, Role linear, Role norm, std::int32_t heads) {
    TensorId y = Linear(x, linear);
    if (spec_.qk_norm == model::QkNorm::kWholeRow) y = HeadNorm(y, norm);
    SetLayerScope("self_attn");
    if (spec_.qk_norm == model::QkNorm::kPerHead) {
      y = HeadNorm(g_.Reshape(y, {1, tokens_, heads, d_.head_dim}), norm);
      if (tokens_ > 1) return g_.Transpose(y, {0, 2, 1, 3});
    }
    if (tokens_ == 1) return g_.Reshape(y, {1, heads, 1, d_.head_dim});
    return g_.Transpose(g_.Reshape(y, {1, tokens_, heads, d_.head_dim}), {0, 2, 1, 3});
  }

  TensorId HeadNorm(TensorId x, Role role) {
    SetLayerScope("self_attn");
    const std::int32_t body = norms_.Find(g_.shape(x), spec_.norm_epsilon);
    return g_.RmsNormComposite(x, Vector(role), spec_.norm_epsilon, body, NormName(role));
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

  // The layer's mask once for each query head of a group: [1, 1, group * tokens, positions].
  TensorId StackedMask() {
    std::int64_t window = model::GetLayerSpec(spec_, layer_).window;
    if (window >= d_.positions) window = 0;  // as wide as the cache
    const auto [found, added] = stacked_masks_.try_emplace(window, kNoTensor);
    if (added) {
      g_.SetScope("");
      const TensorId mask = window == 0 ? mask_ : WindowMask(window);
      const auto group = static_cast<std::size_t>(d_.heads / d_.kv_heads);
      found->second = group == 1 ? mask : g_.Concat(std::vector<TensorId>(group, mask), 2);
      SetLayerScope("self_attn");
    }
    return found->second;
  }

  // The mask with the columns before the window taken out: column c of a row at position p is
  // outside if p - (c + window - 1) is 1 or more. What is added stays finite beside the mask's own
  // values, also in fp16, so a row of padding, which sees nothing, still has a softmax.
  TensorId WindowMask(std::int64_t window) {
    constexpr float kOutside = -1e4f;
    g_.SetScope("window_" + std::to_string(window));
    std::vector<float> last_row(static_cast<std::size_t>(d_.positions));
    for (std::size_t c = 0; c < last_row.size(); ++c) {
      last_row[c] = static_cast<float>(static_cast<std::int64_t>(c) + window - 1);
    }
    const TensorId position = g_.Reshape(Position(), {1, 1, tokens_, 1});
    const TensorId beyond =
        g_.Sub(position, g_.Floats(last_row, {1, 1, 1, d_.positions}), "beyond");
    const TensorId positive = g_.Maximum(beyond, g_.Scalar(0.0f), "positive");
    const TensorId outside = g_.Minimum(positive, g_.Scalar(1.0f), "outside");
    return g_.Add(mask_, g_.Mul(outside, g_.Scalar(kOutside), "added"), "mask");
  }

  TensorId UpdateCache(const std::vector<TensorId>& caches, TensorId update, TensorId start,
                       const std::string& name) {
    const TensorId cache = caches[static_cast<std::size_t>(layer_)];
    if (d_.half_cache) {
      SetLayerScope("self_attn");
      update = g_.Cast(update, ElementType::kFloat16);
    }
    const TensorId updated = g_.DynamicUpdateSlice(cache, update, start);
    g_.Rename(updated, key_ + "_" + name + "_output");
    outputs_[name] = updated;
    return updated;
  }

  TensorId CacheAsFloat(TensorId cache) {
    return d_.half_cache ? g_.Cast(cache, ElementType::kFloat32) : cache;
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
  TensorId position_ = kNoTensor;
  std::vector<Rotation> rotations_;  // [ropes]
  TensorId key_start_ = kNoTensor, value_start_ = kNoTensor;
  std::map<std::int64_t, TensorId> stacked_masks_;  // by window
};

void BuildEmbedderSignature(Graph& graph, ConstantPool& pool, const WeightSource& table,
                            const model::DecoderSpec& spec, const Dims& d, const std::string& key,
                            std::int32_t tokens) {
  SubgraphBuilder g(graph, pool, key);
  const TensorId ids = g.Input(key + "_token_ids", {1, tokens}, ElementType::kInt32);
  const TensorId w = g.Weight(WeightName(spec, Role::kEmbedding, -1), {d.vocab, d.hidden}, table);
  // A runtime marks places without a token by negative ids.
  const TensorId known = g.Maximum(ids, g.Scalar(std::int32_t{0}));
  TensorId rows = g.EmbeddingLookup(g.Reshape(known, {tokens}), w);
  if (spec.embedding_multiplier != 1.0f) {
    rows = g.Mul(rows, g.Scalar(spec.embedding_multiplier), "scaled");
  }
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
  const Dims dims(model.spec, options);
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
  const Dims dims(model.spec, options);
  Graph graph;
  ConstantPool pool(graph);
  const WeightSource table{Role::kEmbedding, -1, schemes.Get(Role::kEmbedding, -1)};
  BuildEmbedderSignature(graph, pool, table, model.spec, dims, "decode_embedder", 1);
  for (const std::int64_t length : options.prefill) {
    BuildEmbedderSignature(graph, pool, table, model.spec, dims,
                           "prefill_embedder_" + std::to_string(length),
                           static_cast<std::int32_t>(length));
  }
  HONE_TRY(Verify(graph));
  return graph;
}

}  // namespace hone::graph
