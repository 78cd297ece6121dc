// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Walks the operators; rules for sums and products. The other lift_reader_*.cc have the
// rest.
#include "model/lift_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hone::model {
namespace {

using formats::tflite::Op;
using formats::tflite::Operator;
using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

}  // namespace

Status LiftReader::Expected(std::string_view what) {
  return Status(Code::kUnsupported, StrCat("expected ", what));
}

LiftReader::LiftReader(LiftGraph& graph) : graph_(graph), values_(graph.num_tensors()) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const int id = static_cast<int>(i);
    if (!graph.IsConstant(id)) continue;
    values_[i].kind = Kind::kConstant;
    values_[i].id = id;
  }
}

Status LiftReader::SetInput(int id, Value value) {
  if (At(id).kind != Kind::kNone) return Expected("a tensor of its own");
  if (value.kind == Kind::kResidual) HONE_TRY(SetStart());
  value.id = id;
  values_[static_cast<std::size_t>(id)] = std::move(value);
  return Status();
}

Status LiftReader::Run() {
  for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
    Status status = Step(graph_.operators()[i]);
    if (!status.ok()) return std::move(status).Context(graph_.OperatorText(i));
  }
  return Status();
}

Status LiftReader::Step(const Operator& op) {
  for (const std::int32_t output : op.outputs) {
    if (At(output).kind != Kind::kNone) return Expected("outputs that nothing has written yet");
  }
  if (op.options.fused_activation != 0) return Expected("no fused activation");
  for (const std::int32_t input : op.inputs) {
    // An empty shape list is a constant without bytes: only RESHAPE has one, and ignores it.
    const bool empty = input >= 0 && graph_.NumElements(input) == 0;
    if (input >= 0 && !empty && At(input).kind == Kind::kNone) {
      return Expected("inputs that earlier operators have written");
    }
  }
  if (op.op == Op::kSplit || op.op == Op::kSplitV) return StepSplit(op);
  if (op.outputs.size() != 1) return Expected("one output that nothing has written yet");
  HONE_ASSIGN(Value value, Apply(op));
  if (value.id < 0) value.id = op.outputs[0];
  values_[static_cast<std::size_t>(op.outputs[0])] = std::move(value);
  return Status();
}

Status LiftReader::StepSplit(const Operator& op) {
  const bool sizes_given = op.op == Op::kSplitV;
  if (op.inputs.size() != (sizes_given ? 3U : 2U) ||
      std::any_of(op.inputs.begin(), op.inputs.end(), [](std::int32_t id) { return id < 0; })) {
    return Expected("a tensor and an axis");
  }
  const int x = op.inputs[sizes_given ? 0 : 1];
  const auto axis = graph_.Ints(op.inputs[sizes_given ? 2 : 0]);
  const int rank = static_cast<int>(graph_.shape(x).size());
  if (!axis || axis->size() != 1 || (axis->front() != rank - 1 && axis->front() != -1)) {
    return Expected("a split of the last dimension");
  }
  std::int64_t begin = 0;
  for (const std::int32_t output : op.outputs) {
    const std::int64_t size = graph_.Width(output);
    std::vector<std::int32_t> want = graph_.shape(x);
    if (want.empty() || begin + size > graph_.Width(x)) return Expected("parts of the input");
    want.back() = static_cast<std::int32_t>(size);
    if (graph_.shape(output) != want) return Expected("parts of the input");
    HONE_ASSIGN(Value value, SliceLast(x, begin, size));
    if (value.id < 0) value.id = output;
    if (At(output).kind != Kind::kNone) return Expected("an output for each part");
    values_[static_cast<std::size_t>(output)] = std::move(value);
    begin += size;
  }
  return begin == graph_.Width(x) ? Status() : Expected("parts that are all of the input");
}

Result<Value> LiftReader::Apply(const Operator& op) {
  if (AllConstant(op)) return Fold(op);
  if (AllPositional(op) && IsElementwise(op.op)) return Elementwise(op);
  if (const auto any = AnyNumber(op)) return *any;
  switch (op.op) {
    case Op::kReshape:
    case Op::kSqueeze:
    case Op::kExpandDims:
    case Op::kBroadcastTo:
      return Reshape(op);
    case Op::kTranspose:
      return Transpose(op);
    case Op::kCast:
      return Cast(op);
    case Op::kMaximum:
      return Maximum(op);
    case Op::kEmbeddingLookup:
      return EmbeddingLookup(op);
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
    case Op::kSqrt:
      return Root(op);
    case Op::kFullyConnected:
      return FullyConnected(op);
    case Op::kDequantize:
      return Dequantize(op);
    case Op::kSlice:
    case Op::kStridedSlice:
      return Slice(op);
    case Op::kPack:
      return Pack(op);
    case Op::kDynamicUpdateSlice:
      return DynamicUpdateSlice(op);
    case Op::kBatchMatMul:
      return BatchMatMul(op);
    case Op::kSoftmax:
      return Softmax(op);
    case Op::kSelect:
    case Op::kSelectV2:
      return SelectScores(op);
    default:
      return ApplyArithmetic(op);
  }
}

Result<Value> LiftReader::ApplyArithmetic(const Operator& op) {
  switch (op.op) {
    case Op::kMul:
      return Mul(op);
    case Op::kDiv:
      return Div(op);
    case Op::kAdd:
      return Add(op);
    case Op::kSub:
      return Sub(op);
    case Op::kNeg:
      return Neg(op);
    case Op::kSquare:
    case Op::kPow:
    case Op::kLogistic:
    case Op::kTanh:
    case Op::kGelu:
      return CurveFunction(op);
    default:
      return Expected("an operator of a Llama decoder");
  }
}

std::optional<float> LiftReader::Scalar(const Value& value) const {
  return value.kind == Kind::kConstant ? graph_.Scalar(value.id) : std::nullopt;
}

bool LiftReader::IsPosition(const Value& value) const {
  return value.kind == Kind::kAffine && value.affine.position == 1 && value.affine.column == 0 &&
         value.affine.offset == 0;
}

bool LiftReader::IsZero(const Value& value) const {
  if (value.kind == Kind::kZero) return true;
  return value.kind == Kind::kAffine && value.affine.position == 0 && value.affine.column == 0 &&
         value.affine.offset == 0;
}

bool LiftReader::HasShape(int id, const std::vector<std::int64_t>& shape) const {
  return std::equal(graph_.shape(id).begin(), graph_.shape(id).end(), shape.begin(), shape.end());
}

Result<Value> LiftReader::Maximum(const Operator& op) const {
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

Result<Value> LiftReader::EmbeddingLookup(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  if (in[0].kind != Kind::kTokens || in[1].kind != Kind::kConstant ||
      graph_.shape(in[1].id).size() != 2 || OutElements(op) != graph_.Width(in[1].id)) {
    return Expected("token ids and a constant table");
  }
  HONE_TRY(SetStart());
  Value out;
  out.kind = Kind::kResidual;
  out.a = in[1].id;
  return out;
}

Status LiftReader::SetStart() {
  if (std::exchange(has_start_, true)) return Expected("one embedding of the token");
  return Status();
}

Result<Value> LiftReader::Dequantize(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  if (in[0].kind != Kind::kConstant || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("a constant");
  }
  return in[0];
}

Result<Value> LiftReader::Mul(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  for (const std::size_t first : {0U, 1U}) {
    HONE_ASSIGN(Value value,
                MulOrdered(op, in[first], in[1 - first], op.inputs[first], op.inputs[1 - first]));
    if (value.kind != Kind::kNone) return value;
  }
  return Expected(
      "a norm, a rotation by cos or sin, a scale, or a gate times its input (in float32)");
}

// The meaning of x times y, or kNone.
Result<Value> LiftReader::MulOrdered(const Operator& op, const Value& x, const Value& y, int x_id,
                                     int y_id) {
  const int out = op.outputs[0];
  if (const auto scalar = Scalar(y); scalar && SameShape(out, x_id)) return Scaled(x, *scalar);
  const bool same_source = x.id == y.id && SameShape(x_id, y_id) && SameShape(out, x_id);
  if (same_source && (CanBeNormalized(x) || CurveOf(x))) return Square(x_id);
  if (y.kind == Kind::kTrig && SameShape(out, x_id)) {
    if (x.kind == Kind::kLinear || x.kind == Kind::kNorm || x.kind == Kind::kHeads) {
      return HeadsTimesTrig(op, x_id, y_id);
    }
  }
  if (y.kind == Kind::kInverseRms && CanBeNormalized(x) && y.a == x.id && SameShape(out, x_id) &&
      graph_.Width(x_id) == y.n && graph_.Width(y_id) == 1 &&
      graph_.NumElements(y_id) * y.n == graph_.NumElements(x_id)) {
    Value value = y;
    value.kind = Kind::kNormalized;
    value.id = -1;
    return value;
  }
  if (x.kind == Kind::kNormalized && y.kind == Kind::kConstant && SameShape(out, x_id)) {
    return TimesNormWeight(x, y.id);
  }
  if (SameValues(out, x_id) && SameValues(out, y_id) && (CurveOf(x) || CurveOf(y))) {
    return CurveProduct(x, y);
  }
  return Value{};
}

// x times a number, or kNone.
Result<Value> LiftReader::Scaled(const Value& x, float scalar) const {
  Value out = x;
  out.id = -1;
  switch (x.kind) {
    case Kind::kTrig: {
      auto data = std::make_shared<LiftData>(*x.data);
      for (LiftTrig& trig : data->trigs) trig.factor *= scalar;
      out.data = std::move(data);
      return out;
    }
    case Kind::kResidual:
      if (x.n != 0) return Value{};
      out.number *= scalar;
      return out;
    case Kind::kNorm:
    case Kind::kLinear:
    case Kind::kHeads:
    case Kind::kCurve:
      out.number *= scalar;
      return out;
    case Kind::kSquare: {
      HONE_ASSIGN(Value curve, MakeCurve(x, *CurveOf(x)));
      curve.number *= scalar;
      return curve;
    }
    case Kind::kScores:
      (x.cap == 0 ? out.factor : out.cap) *= scalar;
      // A cap of 0 would read as none.
      if (out.cap == 0 && x.cap != 0) return Expected("a softcap other than 0");
      return out;
    default:
      return Value{};
  }
}

Result<Value> LiftReader::Div(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  if (const auto scalar = Scalar(in[1]); scalar && SameShape(op.inputs[0], op.outputs[0])) {
    const float inverse = 1.0f / *scalar;
    if (!std::isfinite(inverse)) return Expected("a divisor other than 0");
    HONE_ASSIGN(Value value, Scaled(in[0], inverse));
    if (value.kind != Kind::kNone) return value;
  }
  if (in[1].kind == Kind::kRms && CanBeNormalized(in[0]) && in[1].a == in[0].id &&
      graph_.Width(op.inputs[0]) == in[1].n && graph_.Width(op.inputs[1]) == 1 &&
      SameShape(op.inputs[0], op.outputs[0])) {
    Value value = in[1];
    value.kind = Kind::kNormalized;
    value.id = -1;
    return value;
  }
  return Expected("a scaled tensor, or what is normalized by its root mean square");
}

Result<Value> LiftReader::Add(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  for (const std::size_t first : {0U, 1U}) {
    const Value& x = in[first];
    const Value& y = in[1 - first];
    const int x_id = op.inputs[first];
    const int y_id = op.inputs[1 - first];
    if (x.kind == Kind::kResidual && (y.kind == Kind::kLinear || y.kind == Kind::kNorm)) {
      return AddToResidual(op, x, y);
    }
    if ((x.kind == Kind::kScores || x.kind == Kind::kMasked) && y.kind == Kind::kDistance) {
      return AddMask(op, x, x_id, y, y_id);
    }
    if (IsZero(y) && SameShape(op.outputs[0], x_id)) return x;
    if (x.kind == Kind::kMeanSquare && x.number == 0 && SameShape(op.outputs[0], x_id)) {
      if (const auto scalar = Scalar(y)) {
        Value value = x;
        value.number = *scalar;
        value.id = -1;
        return value;
      }
    }
    const bool vector = y.kind == Kind::kConstant && x.kind == Kind::kLinear;
    if (vector && graph_.NumElements(y.id) == RowsOf(x) && graph_.Width(y_id) == RowsOf(x) &&
        graph_.Width(x_id) == RowsOf(x) && SameValues(op.outputs[0], x_id) && x.number == 1.0f &&
        LinearOf(x).bias < 0) {
      LiftedLinear linear = LinearOf(x);
      if (linear.rows.count >= 0) return Expected("a bias before the projections are separated");
      linear.bias = y.id;
      return NewLinear(x, linear);
    }
    if (CurveOf(x) && Scalar(y) && SameShape(op.outputs[0], x_id)) return CurveSum(x, y, 1);
  }
  if (in[0].kind == Kind::kHeads || in[1].kind == Kind::kHeads) return HeadsSum(op, 1);
  if (in[0].kind == Kind::kContext && in[1].kind == Kind::kContext) return JoinContexts(op);
  if (CurveOf(in[0]) && CurveOf(in[1]) && SameShape(op.inputs[0], op.inputs[1]) &&
      SameShape(op.inputs[0], op.outputs[0])) {
    return CurveSum(in[0], in[1], 1);
  }
  return Expected("a residual and a projection, two parts of a rotation, or scores and the mask");
}

Result<Value> LiftReader::Sub(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  if (in[0].kind == Kind::kHeads || in[1].kind == Kind::kHeads) return HeadsSum(op, -1);
  if (CurveOf(in[0]) && SameShape(op.inputs[0], op.outputs[0])) return CurveSum(in[0], in[1], -1);
  return Expected("two parts of a rotation");
}

Result<Value> LiftReader::Neg(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  if (SameShape(op.inputs[0], op.outputs[0])) {
    HONE_ASSIGN(Value value, Scaled(in[0], -1.0f));
    if (value.kind != Kind::kNone) return value;
  }
  return Expected("a part of a rotation");
}

}  // namespace hone::model
