// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Rules for rope, caches and attention, and for the ends of a layer's halves.
#include <algorithm>
#include <cmath>

#include "model/lift_reader.h"

namespace hone::model {
namespace {

using formats::tflite::Op;
using formats::tflite::Operator;
using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

}  // namespace

Result<Value> LiftReader::Roped(const Operator& op, const Value& times_cos,
                                const Value& times_sin) {
  const Value& cos = At(times_cos.b);
  const Value& sin = At(times_sin.b);
  if (times_cos.a != times_sin.a || !SameShape(op.inputs[0], op.inputs[1]) ||
      !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("two parts of the rotation of the same heads");
  }
  if (cos.number != sin.number) return Expected("cos and sin with the same magnitude");
  HONE_TRY(SetRope(cos.a, cos.number));
  HONE_TRY(SetRope(sin.a, sin.number));
  return Value{Kind::kRoped, -1, times_cos.a, -1, 0, 1.0f};
}

Status LiftReader::SetRope(int frequencies, float magnitude) {
  RopeTable table{graph_.Floats(frequencies).value_or(std::vector<float>()), magnitude};
  RopeTable& known = lifted.spec.rope;
  const auto finite = [](float f) { return std::isfinite(f); };
  if (!std::all_of(table.inv_freq.begin(), table.inv_freq.end(), finite) || !finite(magnitude)) {
    return Expected("rotary frequencies that are finite numbers");
  }
  if (known.inv_freq.empty()) known = table;
  if (known.inv_freq != table.inv_freq || known.magnitude != magnitude) {
    return Expected("the same rotary frequencies in every layer");
  }
  return Status();
}

Result<Value> LiftReader::CosOrSin(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  if (in[0].kind != Kind::kAngles || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("the angles of a position");
  }
  return Value{op.op == Op::kCos ? Kind::kCos : Kind::kSin, -1, in[0].a, -1, 0, 1.0f};
}

Result<Value> LiftReader::Slice(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<3>(op));
  const auto begin = graph_.Ints(op.inputs[1]);
  std::vector<std::int32_t> want = graph_.shape(op.inputs[0]);
  if (in[0].kind != Kind::kLinear || !begin || begin->size() != want.size() || want.empty() ||
      want.back() % 2 != 0) {
    return Expected("half of each projected head");
  }
  const std::int32_t half = want.back() / 2;
  want.back() = half;
  const bool rest_is_zero =
      std::all_of(begin->begin(), begin->end() - 1, [](std::int32_t v) { return v == 0; });
  if (!rest_is_zero || graph_.shape(op.outputs[0]) != want ||
      (begin->back() != 0 && begin->back() != half)) {
    return Expected("the first or the second half of the last dimension");
  }
  return Value{begin->back() == 0 ? Kind::kLowHalf : Kind::kHighHalf, -1, in[0].id};
}

LiftedLinear LiftReader::LinearOf(const Value& linear) const {
  const Operator& op = graph_.operators()[static_cast<std::size_t>(linear.n)];
  const int bias = Bias(op);
  return {At(op.inputs[1]).id, bias < 0 ? -1 : At(bias).id};
}

Result<Value> LiftReader::Logistic(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  if (in[0].kind != Kind::kLinear || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("the projection of a gate");
  }
  return Value{Kind::kSigmoid, -1, in[0].id};
}

Result<Value> LiftReader::Pack(const Operator& op) const {
  if (op.inputs.size() != 4 || op.options.axis.value_or(0) != 0 || OutElements(op) != 4) {
    return Expected("four values along axis 0");
  }
  int axis = -1;
  for (int i = 0; i < 4; ++i) {
    const std::int32_t input = op.inputs[static_cast<std::size_t>(i)];
    if (input < 0 || graph_.NumElements(input) != 1) return Expected("four single values");
    const auto zero = graph_.Ints(input);
    if (At(input).kind == Kind::kPosition && axis < 0) {
      axis = i;
    } else if (!zero || zero->front() != 0) {
      return Expected("the position once and zeros");
    }
  }
  if (axis != 2 && axis != 3) return Expected("the position third (keys) or last (values)");
  return Value{Kind::kCacheIndex, -1, -1, -1, axis};
}

Result<Value> LiftReader::DynamicUpdateSlice(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<3>(op));
  if (in[0].kind != Kind::kCache || in[2].kind != Kind::kCacheIndex) {
    return Expected("a cache of the signature, new heads and [0, 0, position, 0]");
  }
  const bool keys = in[2].n == 2;
  if (in[1].kind != (keys ? Kind::kRoped : Kind::kLinear) || (keys && in[1].number != 1.0f)) {
    return Expected(keys ? "rotated keys" : "projected values");
  }
  std::vector<std::int32_t> one = graph_.shape(op.inputs[0]);
  if (one.size() != 4 || one[0] != 1) return Expected("a cache with four dimensions");
  one[static_cast<std::size_t>(in[2].n)] = 1;
  if (graph_.shape(op.inputs[1]) != one || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected(keys ? "keys [1, kv heads, 1, head size] for a cache [1, kv heads, context, "
                           "head size]"
                         : "values [1, kv heads, head size, 1] for a cache [1, kv heads, head "
                           "size, context]");
  }
  if (!written_.insert(in[0].id).second) return Expected("one write to each cache");
  return Value{Kind::kWritten, -1, in[1].id, in[0].id, in[2].n};
}

Result<Value> LiftReader::BatchMatMul(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  if (op.options.adj_x || !op.options.adj_y) return Expected("adj_y alone");
  if (in[1].kind != Kind::kWritten || graph_.shape(op.inputs[0]).size() != 4) {
    return Expected("heads times a cache");
  }
  const bool keys = in[1].n == 2;
  if (in[0].kind != (keys ? Kind::kRoped : Kind::kWeights)) {
    return Expected(keys ? "rotated queries times keys" : "attention weights times values");
  }
  const std::vector<std::int32_t>& x = graph_.shape(op.inputs[0]);
  const std::vector<std::int32_t>& cache = graph_.shape(op.inputs[1]);
  const std::int64_t kv_heads = cache[1];
  const std::int64_t context = cache[keys ? 2 : 3];
  const std::int64_t head_dim = cache[keys ? 3 : 2];
  const std::int64_t group = x[2];
  HONE_TRY(SetHeads(kv_heads, group, head_dim, context));
  const std::int64_t in_width = keys ? head_dim : context;
  const std::int64_t out_width = keys ? context : head_dim;
  if (!HasShape(op.inputs[0], {1, kv_heads, group, in_width}) ||
      !HasShape(op.outputs[0], {1, kv_heads, group, out_width})) {
    return Expected("the query heads of each key head as rows");
  }
  if (keys) return Value{Kind::kScores, -1, in[0].id, in[1].id, 0, in[0].number};
  return Value{Kind::kContext, -1, in[0].a, in[1].id};
}

Status LiftReader::SetHeads(std::int64_t kv_heads, std::int64_t group, std::int64_t head_dim,
                            std::int64_t context) {
  DecoderSpec& spec = lifted.spec;
  if (static_cast<std::int64_t>(2 * spec.rope.inv_freq.size()) != head_dim || kv_heads < 1 ||
      group < 1) {
    return Expected(StrCat("heads of ", 2 * spec.rope.inv_freq.size(), " values, as the rope has"));
  }
  if (spec.num_heads == 0) {
    spec.num_heads = kv_heads * group;
    spec.num_kv_heads = kv_heads;
    spec.head_dim = head_dim;
    spec.max_positions = context;
  }
  if (spec.num_heads != kv_heads * group || spec.num_kv_heads != kv_heads ||
      spec.head_dim != head_dim || spec.max_positions != context) {
    return Expected("the same heads and context in every layer");
  }
  return Status();
}

Result<Value> LiftReader::Softmax(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  if (in[0].kind != Kind::kMasked || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("masked attention scores");
  }
  if (op.options.beta != 1.0f) return Expected("beta 1");
  return Value{Kind::kWeights, -1, in[0].a};
}

Result<Value> LiftReader::AddToResidual(const Operator& op, const Value& residual,
                                        const Value& linear) {
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
    HONE_TRY(EndAttention(residual, input, linear));
  } else if (!attention_next && input.kind == Kind::kProduct) {
    HONE_TRY(EndFeedForward(residual, input, linear));
  } else {
    return Expected(attention_next ? "the output projection of the attention"
                                   : "the down projection of the feed-forward part");
  }
  return Value{Kind::kResidual, -1, -1, -1, residual.n + 1};
}

Status LiftReader::EndAttention(const Value& residual, const Value& context, const Value& o) {
  const Value& scores = At(context.a);
  const Value& q = At(At(scores.a).a);
  const Value& keys = At(scores.b);
  const Value& values = At(context.b);
  const Value& k = At(At(keys.a).a);
  const Value& v = At(values.a);
  const Value& norm = At(q.a);
  if (norm.kind != Kind::kNorm || norm.a != residual.id || k.a != q.a || v.a != q.a) {
    return Expected("queries, keys and values of one norm of the same residual stream");
  }
  DecoderSpec& spec = lifted.spec;
  if (lifted.layers.empty()) spec.attention_scale = scores.number;
  if (spec.attention_scale != scores.number) {
    return Expected("the same attention scale in every layer");
  }
  LiftedLayer layer;
  layer.input_norm = norm.b;
  layer.q = LinearOf(q);
  layer.k = LinearOf(k);
  layer.v = LinearOf(v);
  layer.o = LinearOf(o);
  lifted.layers.push_back(layer);
  return Status();
}

Status LiftReader::EndFeedForward(const Value& residual, const Value& product, const Value& down) {
  const Value& gate = At(product.a);
  const Value& up = At(product.b);
  const Value& norm = At(gate.a);
  LiftedLayer& layer = lifted.layers.back();
  if (norm.kind != Kind::kNorm || norm.a != residual.id || up.a != gate.a || layer.ffn_norm != -1) {
    return Expected("one gate and up projection of one norm of the same residual stream");
  }
  layer.ffn_norm = norm.b;
  layer.gate = LinearOf(gate);
  layer.up = LinearOf(up);
  layer.down = LinearOf(down);
  return Status();
}

Status LiftReader::EndLogits(int logits) {
  const Value& linear = At(logits);
  const Value norm = linear.kind == Kind::kLinear ? At(linear.a) : Value{};
  const Value residual = norm.kind == Kind::kNorm ? At(norm.a) : Value{};
  if (residual.kind != Kind::kResidual || lifted.layers.empty() ||
      residual.n != static_cast<int>(2 * lifted.layers.size())) {
    return Expected("logits that are a projection of the norm after the last layer");
  }
  lifted.final_norm = norm.b;
  lifted.head = LinearOf(linear);
  if (lifted.head.bias >= 0) return Expected("a head without a bias");
  return Status();
}

}  // namespace hone::model
