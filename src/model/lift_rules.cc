// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lift_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

namespace hone::model {
namespace {

using formats::tflite::Op;
using formats::tflite::Operator;
using formats::tflite::TensorType;

// What a tensor means. All tensors are those of one token, so a reshape never changes a meaning.
enum class Kind : std::uint8_t {
  kNone,
  kConstant,
  kTokens,
  kPosition,
  kMask,
  kCache,
  kPositionFloat,
  kHalfAngles,   // a: frequencies
  kAngles,       // a: frequencies
  kCos,          // a: frequencies, number: magnitude
  kSin,          // a: frequencies, number: magnitude
  kCacheIndex,   // n: the axis where the position is
  kResidual,     // n: halves of layers done; a: the table if ids were looked up here
  kSquare,       // a: residual
  kMeanSquare,   // a: residual, number: epsilon
  kInverseRms,   // a: residual, number: epsilon
  kNormalized,   // a: residual, number: epsilon
  kNorm,         // a: residual, b: weight, number: epsilon
  kLinear,       // a: input, n: operator
  kTimesCos,     // a: linear, b: cos
  kLowHalf,      // a: linear
  kHighHalf,     // a: linear
  kNegatedHigh,  // a: linear
  kRotated,      // a: linear
  kTimesSin,     // a: linear, b: sin
  kRoped,        // a: linear, number: scale
  kWritten,      // a: linear or roped, b: cache, n: the axis of positions
  kScores,       // a: roped query, b: written keys, number: scale
  kMasked,       // a: scores
  kWeights,      // a: scores
  kContext,      // a: scores, b: written values
  kSigmoid,      // a: linear
  kGate,         // a: linear
  kProduct,      // a: gate's linear, b: up's linear
};

struct Value {
  Kind kind = Kind::kNone;
  int id = -1;  // the tensor where this meaning began; reshapes of it share it
  int a = -1, b = -1, n = 0;
  float number = 0;
};

Status Expected(std::string_view what) {
  return Status(Code::kUnsupported, StrCat("expected ", what));
}

class Reader {
 public:
  explicit Reader(const LiftGraph& graph) : graph_(graph), values_(graph.num_tensors()) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const int id = static_cast<int>(i);
      if (graph.IsConstant(id)) values_[i] = {Kind::kConstant, id};
    }
  }

  LiftedDecoder lifted;

  const Value& At(int id) const { return values_[static_cast<std::size_t>(id)]; }

  Status SetInput(int id, Value value) {
    if (At(id).kind != Kind::kNone) return Expected("a tensor of its own");
    if (value.kind == Kind::kResidual) HONE_TRY(SetStart());
    value.id = id;
    values_[static_cast<std::size_t>(id)] = value;
    return Status();
  }

  // Gives every tensor its meaning.
  Status Run() {
    for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
      const Operator& op = graph_.operators()[i];
      Status status = Step(static_cast<int>(i), op);
      if (!status.ok()) {
        return std::move(status).Context(StrCat("operator ", i, " ", OpName(op.op)));
      }
    }
    return Status();
  }

 private:
  const LiftGraph& graph_;
  std::vector<Value> values_;
  bool has_start_ = false;
  std::set<int> written_;  // caches

  Status Step(int index, const Operator& op) {
    if (op.outputs.size() != 1 || At(op.outputs[0]).kind != Kind::kNone) {
      return Expected("one output that nothing has written yet");
    }
    if (op.options.fused_activation != 0) return Expected("no fused activation");
    for (const std::int32_t input : op.inputs) {
      // An empty shape list is a constant without bytes: only RESHAPE has one, and ignores it.
      const bool empty = input >= 0 && graph_.NumElements(input) == 0;
      if (input >= 0 && !empty && At(input).kind == Kind::kNone) {
        return Expected("inputs that earlier operators have written");
      }
    }
    HONE_ASSIGN(Value value, Apply(index, op));
    if (value.id < 0) value.id = op.outputs[0];
    values_[static_cast<std::size_t>(op.outputs[0])] = value;
    return Status();
  }

  Result<Value> Apply(int index, const Operator& op) {
    switch (op.op) {
      case Op::kReshape:
        return Reshape(op);
      case Op::kTranspose:
        return Transpose(op);
      case Op::kCast:
        return Cast(op);
      case Op::kMaximum:
        return Maximum(op);
      case Op::kEmbeddingLookup:
        return EmbeddingLookup(op);
      case Op::kMul:
        return Mul(op);
      case Op::kAdd:
        return Add(op);
      case Op::kConcatenation:
        return Concatenation(op);
      case Op::kCos:
      case Op::kSin:
        return CosOrSin(op);
      case Op::kStablehloComposite:
        return Composite(op);
      case Op::kMean:
        return Mean(op);
      case Op::kRsqrt:
        return Rsqrt(op);
      case Op::kFullyConnected:
        return FullyConnected(index, op);
      case Op::kDequantize:
        return Dequantize(op);
      case Op::kSlice:
        return Slice(op);
      case Op::kPack:
        return Pack(op);
      case Op::kDynamicUpdateSlice:
        return DynamicUpdateSlice(op);
      case Op::kBatchMatMul:
        return BatchMatMul(op);
      case Op::kSoftmax:
        return Softmax(op);
      case Op::kLogistic:
        return Logistic(op);
      default:
        return Expected("an operator of a Llama decoder");
    }
  }

  // The meanings of the inputs of an operator that has exactly count of them.
  template <std::size_t kCount>
  Result<std::array<Value, kCount>> Inputs(const Operator& op) const {
    std::array<Value, kCount> out;
    if (op.inputs.size() != kCount) return Expected(StrCat(kCount, " inputs"));
    for (std::size_t i = 0; i < kCount; ++i) {
      if (op.inputs[i] < 0) return Expected(StrCat(kCount, " inputs"));
      out[i] = At(op.inputs[i]);
    }
    return out;
  }

  std::int64_t InElements(const Operator& op) const { return graph_.NumElements(op.inputs[0]); }
  std::int64_t OutElements(const Operator& op) const { return graph_.NumElements(op.outputs[0]); }
  bool HasShape(int id, const std::vector<std::int64_t>& shape) const {
    return std::equal(graph_.shape(id).begin(), graph_.shape(id).end(), shape.begin(), shape.end());
  }
  bool SameShape(int a, int b) const { return graph_.shape(a) == graph_.shape(b); }

  // Whether numbers may be viewed in another shape without a change of meaning.
  static bool IsFlat(Kind kind) {
    switch (kind) {
      case Kind::kTokens:
      case Kind::kPosition:
      case Kind::kMask:
      case Kind::kPositionFloat:
      case Kind::kResidual:
      case Kind::kMeanSquare:
      case Kind::kInverseRms:
      case Kind::kNorm:
      case Kind::kLinear:
      case Kind::kRoped:
      case Kind::kContext:
      case Kind::kProduct:
        return true;
      default:
        return false;
    }
  }

  Result<Value> Reshape(const Operator& op) const {
    // The output's shape says it all; the second input only repeats it.
    if (op.inputs.empty() || op.inputs[0] < 0) return Expected("an input");
    const Value& x = At(op.inputs[0]);
    if (!IsFlat(x.kind)) return Expected("a tensor of the decoder that can be viewed in any shape");
    if (InElements(op) != OutElements(op)) return Expected("as many values as the input has");
    if (x.kind == Kind::kMask && graph_.Width(op.inputs[0]) != graph_.Width(op.outputs[0])) {
      return Expected("a mask that keeps its last dimension");
    }
    return x;
  }

  // A transpose that moves only dimensions of size 1 is a reshape.
  Result<Value> Transpose(const Operator& op) const {
    HONE_ASSIGN(const auto in, Inputs<2>(op));
    const auto order = graph_.Ints(op.inputs[1]);
    const std::vector<std::int32_t>& from = graph_.shape(op.inputs[0]);
    const std::vector<std::int32_t>& to = graph_.shape(op.outputs[0]);
    if (!IsFlat(in[0].kind) || in[0].kind == Kind::kMask) return Expected("projected heads");
    if (!order || order->size() != from.size() || to.size() != from.size()) {
      return Expected("a constant order of all dimensions");
    }
    std::int32_t last = -1;
    std::vector<bool> seen(from.size(), false);
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::int32_t axis = (*order)[i];
      if (axis < 0 || static_cast<std::size_t>(axis) >= from.size() ||
          seen[static_cast<std::size_t>(axis)] || to[i] != from[static_cast<std::size_t>(axis)]) {
        return Expected("a constant order of all dimensions");
      }
      seen[static_cast<std::size_t>(axis)] = true;
      if (to[i] == 1) continue;
      if (axis < last) return Expected("an order that moves only dimensions of size 1");
      last = axis;
    }
    return in[0];
  }

  Result<Value> Cast(const Operator& op) const {
    HONE_ASSIGN(const auto in, Inputs<1>(op));
    if (in[0].kind != Kind::kPosition ||
        graph_.tensor(op.outputs[0]).type != TensorType::kFloat32 || OutElements(op) != 1) {
      return Expected("the position as float32");
    }
    return Value{Kind::kPositionFloat};
  }

  Result<Value> Maximum(const Operator& op) const {
    HONE_ASSIGN(const auto in, Inputs<2>(op));
    for (int i = 0; i < 2; ++i) {
      const auto limit = graph_.Ints(op.inputs[static_cast<std::size_t>(1 - i)]);
      if (in[static_cast<std::size_t>(i)].kind == Kind::kTokens && limit && limit->size() == 1 &&
          limit->front() == 0 && OutElements(op) == 1) {
        return in[static_cast<std::size_t>(i)];
      }
    }
    return Expected("token ids and 0");
  }

  Result<Value> EmbeddingLookup(const Operator& op) {
    HONE_ASSIGN(const auto in, Inputs<2>(op));
    if (in[0].kind != Kind::kTokens || in[1].kind != Kind::kConstant ||
        graph_.shape(in[1].id).size() != 2 || OutElements(op) != graph_.Width(in[1].id)) {
      return Expected("token ids and a constant table");
    }
    HONE_TRY(SetStart());
    return Value{Kind::kResidual, -1, in[1].id};
  }

  Status SetStart() {
    if (std::exchange(has_start_, true)) return Expected("one embedding of the token");
    return Status();
  }

  // ---- multiplication and addition: tries both orders of the inputs ----

  Result<Value> Mul(const Operator& op) {
    HONE_ASSIGN(const auto in, Inputs<2>(op));
    for (const std::size_t first : {0U, 1U}) {
      HONE_ASSIGN(const Value value, MulOrdered(op, in[first], in[1 - first], op.inputs[first],
                                                op.inputs[1 - first]));
      if (value.kind != Kind::kNone) return value;
    }
    return Expected(
        "a norm, a rotation by cos or sin, a scale, or a gate times its input (in float32)");
  }

  // The meaning of x times y, or kNone.
  Result<Value> MulOrdered(const Operator& op, const Value& x, const Value& y, int x_id, int y_id) {
    const int out = op.outputs[0];
    const auto scalar = graph_.Scalar(y_id);
    switch (x.kind) {
      case Kind::kPositionFloat:
        if (y.kind == Kind::kConstant && graph_.Floats(y.id) && SameWidth(out, y_id)) {
          return Value{Kind::kHalfAngles, -1, y.id};
        }
        break;
      case Kind::kCos:
      case Kind::kSin:
        if (scalar && SameShape(out, x_id)) return Scaled(x, *scalar);
        break;
      case Kind::kResidual:
        if (y.kind == Kind::kResidual && x.id == y.id && SameShape(out, x_id)) {
          return Value{Kind::kSquare, -1, x.id};
        }
        if (y.kind == Kind::kInverseRms && y.a == x.id && SameWidth(out, x_id)) {
          return Value{Kind::kNormalized, -1, x.id, -1, 0, y.number};
        }
        break;
      case Kind::kNormalized:
        if (y.kind == Kind::kConstant && SameWidth(out, y_id)) return Norm(x.a, y.id, x.number);
        break;
      case Kind::kLinear:
        if ((y.kind == Kind::kCos) && graph_.Width(x_id) == graph_.Width(y_id) &&
            SameShape(out, x_id)) {
          return Value{Kind::kTimesCos, -1, x.id, y.id};
        }
        if (y.kind == Kind::kSigmoid && y.a == x.id && SameShape(out, x_id)) {
          return Value{Kind::kGate, -1, x.id};
        }
        break;
      case Kind::kRotated:
        if (y.kind == Kind::kSin && graph_.Width(x_id) == graph_.Width(y_id) &&
            SameShape(out, x_id)) {
          return Value{Kind::kTimesSin, -1, x.a, y.id};
        }
        break;
      case Kind::kHighHalf:
        if (scalar && *scalar == -1.0f && SameShape(out, x_id)) {
          return Value{Kind::kNegatedHigh, -1, x.a};
        }
        break;
      case Kind::kRoped:
      case Kind::kScores:
        if (scalar && SameShape(out, x_id)) return Scaled(x, *scalar);
        break;
      case Kind::kGate:
        if (y.kind == Kind::kLinear && SameShape(out, x_id) && SameShape(out, y_id)) {
          return Value{Kind::kProduct, -1, x.a, y.id};
        }
        break;
      default:
        break;
    }
    return Value{};
  }

  // The same number of values, all of them in the last dimension of b.
  bool SameWidth(int a, int b) const {
    return graph_.NumElements(a) == graph_.NumElements(b) &&
           graph_.NumElements(b) == graph_.Width(b);
  }

  static Value Scaled(Value x, float scalar) {
    x.id = -1;
    x.number *= scalar;
    return x;
  }

  Result<Value> Add(const Operator& op) {
    HONE_ASSIGN(const auto in, Inputs<2>(op));
    for (const std::size_t first : {0U, 1U}) {
      const Value& x = in[first];
      const Value& y = in[1 - first];
      const int x_id = op.inputs[first];
      const int y_id = op.inputs[1 - first];
      if (x.kind == Kind::kResidual && y.kind == Kind::kLinear) return AddToResidual(op, x, y);
      if (x.kind == Kind::kTimesCos && y.kind == Kind::kTimesSin) return Roped(op, x, y);
      if (x.kind == Kind::kScores && y.kind == Kind::kMask) {
        if (graph_.Width(x_id) != graph_.Width(y_id) || !SameShape(op.outputs[0], x_id)) {
          return Expected("scores and a mask of the same context");
        }
        return Value{Kind::kMasked, -1, x.id};
      }
      const auto scalar = graph_.Scalar(y_id);
      if (x.kind == Kind::kMeanSquare && x.number == 0 && scalar && OutElements(op) == 1) {
        return Value{Kind::kMeanSquare, -1, x.a, -1, 0, *scalar};
      }
    }
    return Expected("a residual and a projection, two parts of a rotation, or scores and the mask");
  }

  Result<Value> Roped(const Operator& op, const Value& times_cos, const Value& times_sin) {
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

  Status SetRope(int frequencies, float magnitude) {
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

  // ---- rope ----

  Result<Value> CosOrSin(const Operator& op) const {
    HONE_ASSIGN(const auto in, Inputs<1>(op));
    if (in[0].kind != Kind::kAngles || !SameShape(op.inputs[0], op.outputs[0])) {
      return Expected("the angles of a position");
    }
    return Value{op.op == Op::kCos ? Kind::kCos : Kind::kSin, -1, in[0].a, -1, 0, 1.0f};
  }

  Result<Value> Concatenation(const Operator& op) const {
    if (op.inputs.empty() || op.inputs[0] < 0) return Expected("inputs");
    const int rank = static_cast<int>(graph_.shape(op.inputs[0]).size());
    int axis = op.options.axis.value_or(0);
    if (axis < 0) axis += rank;
    std::int64_t elements = 0;
    bool all_masks = true;
    for (const std::int32_t input : op.inputs) {
      if (input < 0 || !SameShape(input, op.inputs[0])) return Expected("inputs of one shape");
      elements += graph_.NumElements(input);
      all_masks = all_masks && At(input).kind == Kind::kMask;
    }
    if (elements != OutElements(op)) return Expected("an output that holds all inputs");
    if (all_masks && axis < rank - 1) return At(op.inputs[0]);  // one copy for each head of a group
    if (op.inputs.size() != 2 || axis != rank - 1) {
      return Expected("copies of the mask, or two halves along the last dimension");
    }
    const Value& x = At(op.inputs[0]);
    const Value& y = At(op.inputs[1]);
    if (x.kind == Kind::kHalfAngles && x.id == y.id && SameWidth(op.inputs[0], op.inputs[1])) {
      return Value{Kind::kAngles, -1, x.a};
    }
    if (x.kind == Kind::kNegatedHigh && y.kind == Kind::kLowHalf && x.a == y.a) {
      return Value{Kind::kRotated, -1, x.a};
    }
    return Expected("angles twice, or the negated second half of heads before the first");
  }

  Result<Value> Slice(const Operator& op) const {
    HONE_ASSIGN(const auto in, Inputs<3>(op));
    const auto begin = graph_.Ints(op.inputs[1]);
    std::vector<std::int32_t> want = graph_.shape(op.inputs[0]);
    if (in[0].kind != Kind::kLinear || !begin || begin->size() != want.size() || want.empty() ||
        want.back() % 2 != 0) {
      return Expected("half of each projected head");
    }
    const std::int32_t half = want.back() / 2;
    want.back() = half;
    const bool rest_is_zero = std::all_of(begin->begin(), begin->end() - 1,
                                          [](std::int32_t v) { return v == 0; });
    if (!rest_is_zero || graph_.shape(op.outputs[0]) != want ||
        (begin->back() != 0 && begin->back() != half)) {
      return Expected("the first or the second half of the last dimension");
    }
    return Value{begin->back() == 0 ? Kind::kLowHalf : Kind::kHighHalf, -1, in[0].id};
  }

  // ---- norms ----

  Result<Value> Norm(int residual, int weight, float epsilon) {
    if (!(epsilon >= 0) || !std::isfinite(epsilon)) return Expected("an epsilon from 0 up");
    if (lifted.spec.norm_epsilon == 0) lifted.spec.norm_epsilon = epsilon;
    if (lifted.spec.norm_epsilon != epsilon) return Expected("the same epsilon in every norm");
    return Value{Kind::kNorm, -1, residual, weight, 0, epsilon};
  }

  Result<Value> Composite(const Operator& op) {
    if (op.options.composite_name != "odml.rms_norm") {
      return Expected(StrCat("odml.rms_norm, found ", op.options.composite_name));
    }
    HONE_ASSIGN(const auto in, Inputs<2>(op));
    const auto epsilon =
        formats::tflite::FindCompositeNumber(op.options.composite_attributes, "epsilon");
    if (in[0].kind != Kind::kResidual || in[1].kind != Kind::kConstant || !epsilon ||
        OutElements(op) != InElements(op)) {
      return Expected("the residual stream, a weight, and the attribute epsilon");
    }
    return Norm(in[0].id, in[1].id, static_cast<float>(*epsilon));
  }

  Result<Value> Mean(const Operator& op) const {
    HONE_ASSIGN(const auto in, Inputs<2>(op));
    const auto axes = graph_.Ints(op.inputs[1]);
    const int rank = static_cast<int>(graph_.shape(op.inputs[0]).size());
    if (in[0].kind != Kind::kSquare || !axes || axes->size() != 1 || OutElements(op) != 1 ||
        (axes->front() != rank - 1 && axes->front() != -1)) {
      return Expected("the mean of squares over the last dimension");
    }
    return Value{Kind::kMeanSquare, -1, in[0].a};
  }

  Result<Value> Rsqrt(const Operator& op) const {
    HONE_ASSIGN(const auto in, Inputs<1>(op));
    if (in[0].kind != Kind::kMeanSquare || OutElements(op) != 1) {
      return Expected("a mean of squares");
    }
    return Value{Kind::kInverseRms, -1, in[0].a, -1, 0, in[0].number};
  }

  // ---- projections ----

  Result<Value> Dequantize(const Operator& op) const {
    HONE_ASSIGN(const auto in, Inputs<1>(op));
    if (in[0].kind != Kind::kConstant || !SameShape(op.inputs[0], op.outputs[0])) {
      return Expected("a constant");
    }
    return in[0];
  }

  Result<Value> FullyConnected(int index, const Operator& op) const {
    if (op.inputs.size() < 2 || op.inputs.size() > 3 || op.inputs[0] < 0 || op.inputs[1] < 0) {
      return Expected("an input, a weight and perhaps a bias");
    }
    if (op.options.weights_format != 0) return Expected("weights in the plain format");
    const Value& x = At(op.inputs[0]);
    const Value& w = At(op.inputs[1]);
    if (x.kind != Kind::kNorm && x.kind != Kind::kContext && x.kind != Kind::kProduct) {
      return Expected("the output of a norm, of the attention or of a gate");
    }
    if (w.kind != Kind::kConstant || graph_.shape(w.id).size() != 2) {
      return Expected("a constant matrix");
    }
    const std::int64_t rows = graph_.shape(w.id)[0];
    if (graph_.Width(w.id) != graph_.Width(op.inputs[0]) || InElements(op) != graph_.Width(w.id) ||
        OutElements(op) != rows || graph_.Width(op.outputs[0]) != rows) {
      return Expected("a matrix that fits input and output");
    }
    if (const int bias = Bias(op); bias >= 0) {
      if (At(bias).kind != Kind::kConstant || graph_.shape(bias).size() != 1 ||
          graph_.NumElements(bias) != rows) {
        return Expected(StrCat("a constant bias of ", rows, " values"));
      }
    }
    return Value{Kind::kLinear, -1, x.id, -1, index};
  }

  static int Bias(const Operator& op) { return op.inputs.size() == 3 ? op.inputs[2] : -1; }

  LiftedLinear LinearOf(const Value& linear) const {
    const Operator& op = graph_.operators()[static_cast<std::size_t>(linear.n)];
    const int bias = Bias(op);
    return {At(op.inputs[1]).id, bias < 0 ? -1 : At(bias).id};
  }

  Result<Value> Logistic(const Operator& op) const {
    HONE_ASSIGN(const auto in, Inputs<1>(op));
    if (in[0].kind != Kind::kLinear || !SameShape(op.inputs[0], op.outputs[0])) {
      return Expected("the projection of a gate");
    }
    return Value{Kind::kSigmoid, -1, in[0].id};
  }

  // ---- attention ----

  Result<Value> Pack(const Operator& op) const {
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

  Result<Value> DynamicUpdateSlice(const Operator& op) {
    HONE_ASSIGN(const auto in, Inputs<3>(op));
    if (in[0].kind != Kind::kCache || in[2].kind != Kind::kCacheIndex) {
      return Expected("a cache of the signature, new heads and [0, 0, position, 0]");
    }
    const bool keys = in[2].n == 2;
    if (in[1].kind != (keys ? Kind::kRoped : Kind::kLinear) ||
        (keys && in[1].number != 1.0f)) {
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

  Result<Value> BatchMatMul(const Operator& op) {
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

  Status SetHeads(std::int64_t kv_heads, std::int64_t group, std::int64_t head_dim,
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

  Result<Value> Softmax(const Operator& op) const {
    HONE_ASSIGN(const auto in, Inputs<1>(op));
    if (in[0].kind != Kind::kMasked || !SameShape(op.inputs[0], op.outputs[0])) {
      return Expected("masked attention scores");
    }
    if (op.options.beta != 1.0f) return Expected("beta 1");
    return Value{Kind::kWeights, -1, in[0].a};
  }

  // ---- the two ends of a layer's halves ----

  Result<Value> AddToResidual(const Operator& op, const Value& residual, const Value& linear) {
    const Value& input = At(linear.a);
    if (OutElements(op) != InElements(op) ||
        graph_.NumElements(op.inputs[0]) != graph_.NumElements(op.inputs[1])) {
      return Expected("two rows of the hidden size");
    }
    const bool attention_next = residual.n % 2 == 0;
    if (residual.n / 2 + (attention_next ? 0 : 1) !=
        static_cast<int>(lifted.layers.size())) {
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

  Status EndAttention(const Value& residual, const Value& context, const Value& o) {
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

  Status EndFeedForward(const Value& residual, const Value& product, const Value& down) {
    const Value& gate = At(product.a);
    const Value& up = At(product.b);
    const Value& norm = At(gate.a);
    LiftedLayer& layer = lifted.layers.back();
    if (norm.kind != Kind::kNorm || norm.a != residual.id || up.a != gate.a ||
        layer.ffn_norm != -1) {
      return Expected("one gate and up projection of one norm of the same residual stream");
    }
    layer.ffn_norm = norm.b;
    layer.gate = LinearOf(gate);
    layer.up = LinearOf(up);
    layer.down = LinearOf(down);
    return Status();
  }

 public:
  // The end of the graph: a projection of the norm of the last residual stream.
  Status EndLogits(int logits) {
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
};

bool StartsWith(std::string_view text, std::string_view prefix) { return text.starts_with(prefix); }

// The meaning of a signature's input by its name, which LiteRT-LM relies on.
Result<Value> InputMeaning(const std::string& name) {
  if (name == "embeddings") return Value{Kind::kResidual};
  if (name == "tokens") return Value{Kind::kTokens};
  if (name == "input_pos") return Value{Kind::kPosition};
  if (name == "mask") return Value{Kind::kMask};
  if (StartsWith(name, "kv_cache_k_") || StartsWith(name, "kv_cache_v_")) {
    return Value{Kind::kCache};
  }
  return Status(Code::kUnsupported, StrCat("input ", name, ": expected embeddings or tokens, "
                                           "input_pos, mask and kv_cache_k_* and kv_cache_v_*"));
}

// Every cache output is the cache input of the same name with the new position written.
Status CheckOutputs(const LiftGraph& graph, const Reader& reader, int* logits) {
  for (const auto& [name, id] : graph.signature().outputs) {
    if (name == "logits") {
      *logits = static_cast<int>(id);
      continue;
    }
    const auto& inputs = graph.signature().inputs;
    const auto input = std::find_if(inputs.begin(), inputs.end(),
                                    [&, &n = name](const auto& in) { return in.first == n; });
    const Value& value = reader.At(static_cast<int>(id));
    const int axis = StartsWith(name, "kv_cache_k_") ? 2 : 3;
    if (input == inputs.end() || value.kind != Kind::kWritten ||
        value.b != static_cast<int>(input->second) || value.n != axis) {
      return Status(Code::kUnsupported,
                    StrCat("output ", name, ": expected the cache of that name with the new "
                                            "position written"));
    }
  }
  if (*logits < 0) return Status(Code::kUnsupported, "there is no output logits");
  // Two caches a layer; each is written once, so the outputs are all of them.
  const std::size_t caches = 2 * reader.lifted.layers.size();
  if (graph.signature().outputs.size() != caches + 1) {
    return Status(Code::kUnsupported,
                  StrCat("the signature has ", graph.signature().outputs.size(),
                         " outputs, expected logits and ", caches, " caches"));
  }
  return Status();
}

}  // namespace

Result<LiftedDecoder> ReadDecoder(const LiftGraph& graph) {
  Reader reader(graph);
  int start = -1;
  for (const auto& [name, tensor] : graph.signature().inputs) {
    HONE_ASSIGN(const Value value, InputMeaning(name));
    const int id = static_cast<int>(tensor);
    const bool single = value.kind == Kind::kTokens || value.kind == Kind::kPosition;
    if (single && graph.NumElements(id) != 1) {
      return Status(Code::kUnsupported, StrCat("input ", name, ": expected one value"));
    }
    HONE_TRY(reader.SetInput(id, value).Context(StrCat("input ", name)));
    if (value.kind == Kind::kResidual) start = id;
  }
  HONE_TRY(reader.Run());
  int logits = -1;
  HONE_TRY(CheckOutputs(graph, reader, &logits));
  HONE_TRY(reader.EndLogits(logits).Context("output logits"));
  LiftedDecoder& lifted = reader.lifted;
  for (std::size_t i = 0; start < 0 && i < graph.num_tensors(); ++i) {
    const Value& value = reader.At(static_cast<int>(i));
    if (value.kind == Kind::kResidual && value.n == 0) start = value.id;
  }
  lifted.embedding_table = reader.At(start).a;
  lifted.spec.hidden = graph.NumElements(start);
  lifted.spec.ffn = graph.shape(lifted.layers[0].gate.weight)[0];
  lifted.spec.num_layers = static_cast<std::int64_t>(lifted.layers.size());
  return std::move(lifted);
}

Result<int> ReadEmbedder(const LiftGraph& graph) {
  const auto& signature = graph.signature();
  if (signature.inputs.size() != 1 || signature.outputs.size() != 1) {
    return Status(Code::kUnsupported, "expected one input and one output");
  }
  Reader reader(graph);
  const int tokens = static_cast<int>(signature.inputs[0].second);
  if (graph.NumElements(tokens) != 1) {
    return Status(Code::kUnsupported, "expected one token id as input");
  }
  HONE_TRY(reader.SetInput(tokens, Value{Kind::kTokens}));
  HONE_TRY(reader.Run());
  const Value& out = reader.At(static_cast<int>(signature.outputs[0].second));
  if (out.kind != Kind::kResidual || out.a < 0) {
    return Status(Code::kUnsupported, "expected rows of a table as output");
  }
  return out.a;
}

}  // namespace hone::model
