// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Rules for caches, scores, masks and attention, and for the ends of a layer's halves.
#include <algorithm>
#include <cmath>
#include <utility>

#include "model/lift_reader.h"

namespace hone::model {
namespace {

using formats::tflite::Op;
using formats::tflite::Operator;
using formats::tflite::TensorType;
using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

// Scores that are lowered by as much as this are hidden: exp(-100) is 4e-44.
constexpr float kHiddenBelow = -100.0f;
// How far a scale and its inverse, both rounded, are from 1.
constexpr float kRounding = 1e-6f;

bool IsHeads(const Value& value) {
  return value.kind == Kind::kLinear || value.kind == Kind::kNorm || value.kind == Kind::kHeads;
}

// What a cap leaves of the scale before it: 1 where the two are inverse to each other.
float BeforeCap(float factor, float cap) {
  const float product = factor * cap;
  return std::abs(product - 1.0f) <= kRounding ? 1.0f : product;
}

}  // namespace

Result<Value> LiftReader::DynamicUpdateSlice(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<3>(op));
  if (in[0].kind != Kind::kCache || in[2].kind != Kind::kCacheIndex) {
    return Expected("a cache of the signature, new heads and [0, 0, position, 0]");
  }
  const bool projected = IsHeads(in[1]) && in[1].number == 1.0f;
  if (!projected && in[1].kind != Kind::kSlice) return Expected("keys or values as projected");
  std::vector<std::int32_t> one = graph_.shape(op.inputs[0]);
  if (one.size() != 4 || one[0] != 1) return Expected("a cache with four dimensions");
  one[static_cast<std::size_t>(in[2].n)] = 1;
  if (graph_.shape(op.inputs[1]) != one || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected(in[2].n == 2 ? "heads [1, kv heads, 1, head size] for a cache [1, kv heads, "
                                   "context, head size]"
                                 : "heads [1, kv heads, head size, 1] for a cache [1, kv heads, "
                                   "head size, context]");
  }
  if (!written_.insert(in[0].id).second) return Expected("one write to each cache");
  Value out;
  out.kind = Kind::kWritten;
  out.a = in[1].id;
  out.b = in[0].id;
  out.n = in[2].n;
  return out;
}

Result<Value> LiftReader::BatchMatMul(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  const bool keys = IsHeads(in[0]);
  const bool is_new = IsHeads(in[1]) && in[1].number == 1.0f;
  const bool is_old = in[1].kind == Kind::kCache && in[1].n != 0;
  if ((in[1].kind != Kind::kWritten && !is_new && !is_old) ||
      graph_.shape(op.inputs[0]).size() != 4 || graph_.shape(op.inputs[1]).size() != 4) {
    return Expected("heads times a cache");
  }
  const int share = is_new ? kNewPosition : is_old ? kOldPositions : kWholeCache;
  if (!keys && (in[0].kind != Kind::kWeights || in[0].n != share)) {
    return Expected("queries times keys, or attention weights times values");
  }
  // Of a new position both orders are the same bytes.
  const std::int64_t time = !is_new ? in[1].n : op.options.adj_y == keys ? 2 : 3;
  const bool transposed = (time == 2) == keys;
  if (op.options.adj_x || op.options.adj_y != transposed) {
    return Expected(transposed ? "adj_y alone" : "neither adj_x nor adj_y");
  }
  const std::vector<std::int32_t>& cache = graph_.shape(op.inputs[1]);
  const std::int64_t kv_heads = cache[1];
  const std::int64_t context = cache[time == 2 ? 2 : 3];
  const std::int64_t head_dim = cache[time == 2 ? 3 : 2];
  const std::int64_t group = graph_.shape(op.inputs[0])[2];
  if (is_new && context != 1) return Expected("one new position");
  HONE_TRY(SetHeads(kv_heads, group, head_dim, is_new ? lifted.spec.max_positions : context));
  const std::int64_t in_width = keys ? head_dim : context;
  const std::int64_t out_width = keys ? context : head_dim;
  if (!HasShape(op.inputs[0], {1, kv_heads, group, in_width}) ||
      !HasShape(op.outputs[0], {1, kv_heads, group, out_width})) {
    return Expected("the query heads of each key head as rows");
  }
  Value out;
  out.a = in[0].id;
  out.b = in[1].id;
  out.kind = keys ? Kind::kScores : Kind::kContext;
  out.n = share;
  if (keys) out.number = in[0].number;
  return out;
}

Status LiftReader::SetHeads(std::int64_t kv_heads, std::int64_t group, std::int64_t head_dim,
                            std::int64_t context) {
  DecoderSpec& spec = lifted.spec;
  if (kv_heads < 1 || group < 1 || head_dim < 1 || context < 0) return Expected("heads");
  if (spec.max_positions == 0) spec.max_positions = context;
  if (spec.num_heads == 0) {
    spec.num_heads = kv_heads * group;
    spec.num_kv_heads = kv_heads;
    spec.head_dim = head_dim;
  }
  if (spec.num_heads != kv_heads * group || spec.num_kv_heads != kv_heads ||
      spec.head_dim != head_dim || spec.max_positions != context) {
    return Expected("the same heads and context in every layer");
  }
  return Status();
}

Result<Value> LiftReader::AddMask(const Operator& op, const Value& scores, int scores_id,
                                  const Value& mask, int mask_id) {
  const std::int64_t width = graph_.Width(scores_id);
  const std::int64_t context = width - (scores.n == kSideBySide ? 1 : 0);
  if ((scores.n != kWholeCache && scores.n != kSideBySide) ||
      mask.data->own.has_value() != (scores.n == kSideBySide)) {
    return Expected("scores of all positions, and a mask for them");
  }
  if (graph_.Width(mask_id) != width || !SameShape(op.outputs[0], scores_id) || !IsBroadcast(op) ||
      static_cast<std::int64_t>(mask.data->table.size()) != 2 * context - 1 ||
      graph_.tensor(mask_id).type == TensorType::kBool) {
    return Expected("scores and a mask of the same context");
  }
  Value out = scores;
  out.kind = Kind::kMasked;
  out.id = -1;
  std::shared_ptr<const LiftData> added = mask.data;
  if (scores.n == kSideBySide) {
    HONE_ASSIGN(added, JoinMask(*mask.data));
  }
  if (scores.kind == Kind::kScores) {
    out.data = std::move(added);
    return out;
  }
  HONE_ASSIGN(auto sum, NewTable(context));
  for (std::size_t i = 0; i < sum->table.size(); ++i) {
    sum->table[i] = scores.data->table[i] + added->table[i];
  }
  HONE_ASSIGN(out.data, Keep(std::move(sum)));
  return out;
}

// Scores where a mask of type bool shows them, a very small number elsewhere.
Result<Value> LiftReader::SelectScores(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<3>(op));
  const bool shown_by_true = in[1].kind == Kind::kScores;
  const Value& scores = in[shown_by_true ? 1 : 2];
  const int scores_id = op.inputs[shown_by_true ? 1 : 2];
  const auto fill = Scalar(in[shown_by_true ? 2 : 1]);
  const std::int64_t context = graph_.Width(scores_id);
  if (in[0].kind != Kind::kDistance || scores.kind != Kind::kScores || !fill ||
      graph_.tensor(op.inputs[0]).type != TensorType::kBool || scores.n != kWholeCache ||
      in[0].data->own || graph_.Width(op.inputs[0]) != context ||
      !SameShape(op.outputs[0], scores_id) || !IsBroadcast(op) ||
      static_cast<std::int64_t>(in[0].data->table.size()) != 2 * context - 1) {
    return Expected("a mask of type bool, scores and a constant");
  }
  HONE_ASSIGN(auto table, NewTable(context));
  for (std::size_t i = 0; i < table->table.size(); ++i) {
    const bool shown = (in[0].data->table[i] != 0) == shown_by_true;
    table->table[i] = shown ? 0.0f : *fill;
  }
  Value out = scores;
  out.kind = Kind::kMasked;
  out.id = -1;
  HONE_ASSIGN(out.data, Keep(std::move(table)));
  return out;
}

Result<Value> LiftReader::Softmax(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  if (in[0].kind != Kind::kMasked || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("masked attention scores");
  }
  if (op.options.beta != 1.0f) return Expected("beta 1");
  Value out = in[0];
  out.kind = Kind::kWeights;
  out.id = -1;
  return out;
}

Result<Value> LiftReader::AddToResidual(const Operator& op, const Value& residual,
                                        const Value& change) {
  Value linear = change;
  int post_norm = -1;
  if (change.kind == Kind::kNorm) {
    linear = At(change.a);
    post_norm = change.b;
    if (linear.kind != Kind::kLinear || change.n != OutElements(op)) {
      return Expected("the norm of a whole projection");
    }
  }
  const Value& input = At(linear.a);
  if (OutElements(op) != InElements(op) ||
      graph_.NumElements(op.inputs[0]) != graph_.NumElements(op.inputs[1])) {
    return Expected("two rows of the hidden size");
  }
  const bool attention_next = residual.n % 2 == 0;
  if (residual.n / 2 + (attention_next ? 0 : 1) != static_cast<int>(lifted.layers.size())) {
    return Expected("one chain of layers");
  }
  if (attention_next && input.kind == Kind::kContext) {
    HONE_TRY(EndAttention(residual, input, linear, post_norm));
  } else if (!attention_next && input.kind == Kind::kProduct) {
    HONE_TRY(EndFeedForward(residual, input, linear, post_norm));
  } else {
    return Expected(attention_next ? "the output projection of the attention"
                                   : "the down projection of the feed-forward part");
  }
  HONE_TRY(Agree(residual_multiplier_, change.number, "factor of what is added"));
  HONE_TRY(Agree(post_norm_, post_norm >= 0, "norms after attention and feed-forward"));
  if (residual.n == 0) embedding_multiplier_ = residual.number;
  Value out;
  out.kind = Kind::kResidual;
  out.n = residual.n + 1;
  return out;
}

// The norm before a half of a layer; -1 if the half reads the residual stream itself.
Result<int> LiftReader::PreNorm(const Value& input, const Value& residual) {
  const bool normed = input.kind == Kind::kNorm;
  if (normed ? input.a != residual.id || input.number != 1.0f
             : input.kind != Kind::kResidual || input.id != residual.id) {
    return Expected("projections of one norm of the same residual stream");
  }
  HONE_TRY(Agree(pre_norm_, normed, "norms before attention and feed-forward"));
  return normed ? input.b : -1;
}

// The projection of query or key heads, and their norm if there is one.
Result<LiftedLinear> LiftReader::HeadLinear(const Value& value, int* norm) {
  Value x = value.kind == Kind::kHeads ? At(value.a) : value;
  QkNorm kind = QkNorm::kNone;
  std::int64_t width = 0;
  if (x.kind == Kind::kNorm) {
    *norm = x.b;
    width = x.n;
    x = At(x.a);
  }
  if (x.kind != Kind::kLinear) return Expected("projected heads");
  if (value.kind == Kind::kHeads && value.n != lifted.spec.head_dim) {
    return Expected(StrCat("heads of ", lifted.spec.head_dim, " values, found ", value.n));
  }
  const std::int64_t rows = RowsOf(x), head_dim = lifted.spec.head_dim;
  if (*norm >= 0) {
    if (width != head_dim && width != rows) return Expected("a norm of each head or of all heads");
    kind = width == rows ? QkNorm::kWholeRow : QkNorm::kPerHead;
    // With one head both are the same: the other projection of the layer, or of another, decides.
    if (rows == head_dim && width == rows) kind = qk_norm_.value_or(QkNorm::kPerHead);
  }
  if (rows % head_dim != 0) return Expected("a projection of whole heads");
  const bool tells = *norm < 0 || rows != head_dim || lifted.spec.num_heads == 1;
  if (tells) HONE_TRY(Agree(qk_norm_, kind, "norms of queries and keys"));
  return LinearOf(x);
}

Status LiftReader::SetScale(const Value& weights) {
  const float factor = weights.cap == 0 ? weights.factor : BeforeCap(weights.factor, weights.cap);
  HONE_TRY(Agree(attention_scale_, weights.number * factor, "attention scale"));
  return Agree(attention_softcap_, weights.cap, "softcap of the scores");
}

// A row shows its own position and the window - 1 before it, and nothing after it.
Result<std::int64_t> LiftReader::WindowOf(const Value& weights) const {
  const std::vector<float>& table = weights.data->table;
  const auto own = table.size() / 2;
  std::size_t shown = own;
  while (shown < table.size() && table[shown] == 0) ++shown;
  const auto hidden = [](float value) { return value <= kHiddenBelow; };
  const auto at = [&](std::size_t i) { return table.begin() + static_cast<std::ptrdiff_t>(i); };
  if (shown == own || !std::all_of(table.begin(), at(own), hidden) ||
      !std::all_of(at(shown), table.end(), hidden)) {
    return Expected("a mask that shows a position itself and some before it, and hides the rest");
  }
  return shown == table.size() ? 0 : static_cast<std::int64_t>(shown - own);
}

Status LiftReader::EndAttention(const Value& residual, const Value& context, const Value& o,
                                int post_norm) {
  const Value& weights = At(context.a);
  const Value& keys = At(weights.b);
  const Value& values = At(context.b);
  const Value& q = At(weights.a);
  const Value& k = At(keys.a);
  LiftedLayer layer;
  HONE_ASSIGN(layer.q, HeadLinear(q, &layer.q_norm));
  HONE_ASSIGN(layer.k, HeadLinear(k, &layer.k_norm));
  const Value& v = At(values.a);
  if (v.kind != Kind::kLinear) return Expected("values as projected");
  layer.v = LinearOf(v);
  if ((layer.q_norm < 0) != (layer.k_norm < 0)) return Expected("norms of both queries and keys");
  const auto input_of = [&](const Value& heads) {
    const Value* x = &heads;
    if (x->kind == Kind::kHeads) x = &At(x->a);
    if (x->kind == Kind::kNorm) x = &At(x->a);
    return x->a;
  };
  if (input_of(k) != input_of(q) || v.a != input_of(q)) {
    return Expected("queries, keys and values of one norm of the same residual stream");
  }
  HONE_ASSIGN(layer.input_norm, PreNorm(At(input_of(q)), residual));
  HONE_TRY(SetScale(weights));
  HONE_ASSIGN(const auto q_rope, FindRope(q));
  HONE_ASSIGN(const auto k_rope, FindRope(k));
  const auto same = [](const RopeTable& a, const RopeTable& b) {
    return a.inv_freq == b.inv_freq && a.magnitude == b.magnitude;
  };
  if (q_rope.has_value() != k_rope.has_value() || (q_rope && !same(*q_rope, *k_rope))) {
    return Expected("the same rope for queries and keys");
  }
  LayerSpec facts;
  facts.rope = kNoRope;
  if (q_rope) {
    std::vector<RopeTable>& ropes = lifted.spec.ropes;
    const auto found = std::find_if(ropes.begin(), ropes.end(),
                                    [&](const RopeTable& r) { return same(r, *q_rope); });
    facts.rope = static_cast<std::int32_t>(found - ropes.begin());
    if (found == ropes.end()) ropes.push_back(*q_rope);
  }
  HONE_ASSIGN(facts.window, WindowOf(weights));
  lifted.spec.layer_specs.push_back(facts);
  layer.o = LinearOf(o);
  layer.post_attention_norm = post_norm;
  layer.key_cache = keys.b;
  layer.value_cache = values.b;
  layer.key_update = keys.a;
  layer.value_update = values.a;
  lifted.layers.push_back(layer);
  return Status();
}

Status LiftReader::EndFeedForward(const Value& residual, const Value& product, const Value& down,
                                  int post_norm) {
  const Value& gate = At(product.a);
  const Value& up = At(product.b);
  LiftedLayer& layer = lifted.layers.back();
  if (up.a != gate.a || layer.down.weight != -1) {
    return Expected("one gate and up projection of one norm of the same residual stream");
  }
  HONE_ASSIGN(layer.ffn_norm, PreNorm(At(gate.a), residual));
  HONE_TRY(Agree(activation_, static_cast<Activation>(product.n), "activation"));
  layer.gate = LinearOf(gate);
  layer.up = LinearOf(up);
  layer.down = LinearOf(down);
  layer.post_ffn_norm = post_norm;
  if (lifted.spec.ffn == 0) lifted.spec.ffn = RowsOf(gate);
  return Status();
}

Status LiftReader::EndLogits(int logits) {
  Value linear = At(logits);
  float multiplier = linear.number;
  if (linear.kind == Kind::kCurve && linear.factor != 0) {  // cap * tanh(x / cap)
    if (linear.number == 0) return Expected("a softcap other than 0");
    lifted.spec.logits_softcap = linear.number;
    multiplier = BeforeCap(linear.factor, linear.number);
    linear = At(linear.a);
  }
  const Value norm = linear.kind == Kind::kLinear ? At(linear.a) : Value{};
  const Value residual = norm.kind == Kind::kNorm ? At(norm.a) : Value{};
  if (residual.kind != Kind::kResidual || lifted.layers.empty() ||
      residual.n != static_cast<int>(2 * lifted.layers.size())) {
    return Expected("logits that are a projection of the norm after the last layer");
  }
  lifted.spec.logits_multiplier = norm.number * multiplier;
  lifted.final_norm = norm.b;
  lifted.head = LinearOf(linear);
  if (lifted.head.bias >= 0 || lifted.head.rows.count >= 0) {
    return Expected("a head without a bias that is a matrix of its own");
  }
  return Status();
}

void LiftReader::Finish() {
  DecoderSpec& spec = lifted.spec;
  spec.norm_epsilon = epsilon_.value_or(0);
  spec.embedding_multiplier = embedding_multiplier_.value_or(1);
  spec.residual_multiplier = residual_multiplier_.value_or(1);
  spec.attention_scale = attention_scale_.value_or(1);
  spec.attention_softcap = attention_softcap_.value_or(0);
  spec.pre_norm = pre_norm_.value_or(true);
  spec.post_norm = post_norm_.value_or(false);
  spec.qk_norm = qk_norm_.value_or(QkNorm::kNone);
  spec.activation = activation_.value_or(Activation::kSilu);
  const bool ordinary = std::all_of(spec.layer_specs.begin(), spec.layer_specs.end(),
                                    [](const LayerSpec& layer) { return layer == LayerSpec(); });
  if (ordinary) spec.layer_specs.clear();
}

}  // namespace hone::model
