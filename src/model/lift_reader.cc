// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Rules for views, sums and products, norms and projections. lift_reader_attention.cc has the rest.
#include "model/lift_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hone::model {
namespace {

using formats::tflite::Op;
using formats::tflite::Operator;
using formats::tflite::TensorType;
using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

}  // namespace

Status LiftReader::Expected(std::string_view what) {
  return Status(Code::kUnsupported, StrCat("expected ", what));
}

LiftReader::LiftReader(const LiftGraph& graph) : graph_(graph), values_(graph.num_tensors()) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const int id = static_cast<int>(i);
    if (graph.IsConstant(id)) values_[i] = {Kind::kConstant, id};
  }
}

Status LiftReader::SetInput(int id, Value value) {
  if (At(id).kind != Kind::kNone) return Expected("a tensor of its own");
  if (value.kind == Kind::kResidual) HONE_TRY(SetStart());
  value.id = id;
  values_[static_cast<std::size_t>(id)] = value;
  return Status();
}

Status LiftReader::Run() {
  for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
    const Operator& op = graph_.operators()[i];
    Status status = Step(static_cast<int>(i), op);
    if (!status.ok()) {
      return std::move(status).Context(StrCat("operator ", i, " ", OpName(op.op)));
    }
  }
  return Status();
}

Status LiftReader::Step(int index, const Operator& op) {
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

Result<Value> LiftReader::Apply(int index, const Operator& op) {
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

bool LiftReader::HasShape(int id, const std::vector<std::int64_t>& shape) const {
  return std::equal(graph_.shape(id).begin(), graph_.shape(id).end(), shape.begin(), shape.end());
}

bool LiftReader::IsFlat(Kind kind) {
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

Result<Value> LiftReader::Reshape(const Operator& op) const {
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

Result<Value> LiftReader::Transpose(const Operator& op) const {
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

Result<Value> LiftReader::Cast(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  if (in[0].kind != Kind::kPosition || graph_.tensor(op.outputs[0]).type != TensorType::kFloat32 ||
      OutElements(op) != 1) {
    return Expected("the position as float32");
  }
  return Value{Kind::kPositionFloat};
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
  return Value{Kind::kResidual, -1, in[1].id};
}

Status LiftReader::SetStart() {
  if (std::exchange(has_start_, true)) return Expected("one embedding of the token");
  return Status();
}

Result<Value> LiftReader::Mul(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  for (const std::size_t first : {0U, 1U}) {
    HONE_ASSIGN(const Value value,
                MulOrdered(op, in[first], in[1 - first], op.inputs[first], op.inputs[1 - first]));
    if (value.kind != Kind::kNone) return value;
  }
  return Expected(
      "a norm, a rotation by cos or sin, a scale, or a gate times its input (in float32)");
}

Result<Value> LiftReader::MulOrdered(const Operator& op, const Value& x, const Value& y, int x_id,
                                     int y_id) {
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

bool LiftReader::SameWidth(int a, int b) const {
  return graph_.NumElements(a) == graph_.NumElements(b) && graph_.NumElements(b) == graph_.Width(b);
}

Value LiftReader::Scaled(Value x, float scalar) {
  x.id = -1;
  x.number *= scalar;
  return x;
}

Result<Value> LiftReader::Add(const Operator& op) {
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

Result<Value> LiftReader::Concatenation(const Operator& op) const {
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

Result<Value> LiftReader::Norm(int residual, int weight, float epsilon) {
  if (!(epsilon >= 0) || !std::isfinite(epsilon)) return Expected("an epsilon from 0 up");
  if (lifted.spec.norm_epsilon == 0) lifted.spec.norm_epsilon = epsilon;
  if (lifted.spec.norm_epsilon != epsilon) return Expected("the same epsilon in every norm");
  return Value{Kind::kNorm, -1, residual, weight, 0, epsilon};
}

Result<Value> LiftReader::Composite(const Operator& op) {
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

Result<Value> LiftReader::Mean(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  const auto axes = graph_.Ints(op.inputs[1]);
  const int rank = static_cast<int>(graph_.shape(op.inputs[0]).size());
  if (in[0].kind != Kind::kSquare || !axes || axes->size() != 1 || OutElements(op) != 1 ||
      (axes->front() != rank - 1 && axes->front() != -1)) {
    return Expected("the mean of squares over the last dimension");
  }
  return Value{Kind::kMeanSquare, -1, in[0].a};
}

Result<Value> LiftReader::Rsqrt(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  if (in[0].kind != Kind::kMeanSquare || OutElements(op) != 1) {
    return Expected("a mean of squares");
  }
  return Value{Kind::kInverseRms, -1, in[0].a, -1, 0, in[0].number};
}

Result<Value> LiftReader::Dequantize(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  if (in[0].kind != Kind::kConstant || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("a constant");
  }
  return in[0];
}

Result<Value> LiftReader::FullyConnected(int index, const Operator& op) const {
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

}  // namespace hone::model
