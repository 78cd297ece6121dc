// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Rules for constants, norms, projections and activations.
#include <algorithm>
#include <cmath>
#include <utility>

#include "model/lift_curve.h"
#include "model/lift_reader.h"

namespace hone::model {
namespace {

using formats::tflite::Op;
using formats::tflite::Operator;
using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

// Constants of norms and biases; larger ones are matrices, and stay where they are.
constexpr std::int64_t kMaxFolded = 1 << 22;

}  // namespace

bool LiftReader::AllConstant(const Operator& op) const {
  return !op.inputs.empty() &&
         std::all_of(op.inputs.begin(), op.inputs.end(), [&](std::int32_t id) {
           return id >= 0 && (At(id).kind == Kind::kConstant || graph_.NumElements(id) == 0);
         });
}

// What is worked out from constants alone: 1 + w of a norm, a vector in another shape.
Result<Value> LiftReader::Fold(const Operator& op) {
  const Value& x = At(op.inputs[0]);
  const int out = op.outputs[0];
  if (x.kind != Kind::kConstant) return Expected("a constant");
  switch (op.op) {
    case Op::kReshape:
    case Op::kSqueeze:
    case Op::kExpandDims:
    case Op::kDequantize:
    case Op::kCast:
      if (InElements(op) != OutElements(op)) return Expected("as many values as the input has");
      if (op.op == Op::kCast && !graph_.Floats(x.id)) return Expected("a float constant");
      return x;
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
      break;
    default:
      return Expected("a constant that the file holds");
  }
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  const std::int64_t count = OutElements(op);
  if (count > kMaxFolded || InElements(op) > kMaxFolded) return Expected("a smaller constant");
  const auto a = graph_.Floats(in[0].id);
  const auto b = graph_.Floats(in[1].id);
  const auto fits = [&](const auto& list) {
    return list && (list->size() == 1 || static_cast<std::int64_t>(list->size()) == count);
  };
  if (!fits(a) || !fits(b) || count < 1) return Expected("two float constants of one size");
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float p = (*a)[a->size() == 1 ? 0 : i];
    const float q = (*b)[b->size() == 1 ? 0 : i];
    if (op.op == Op::kAdd) values[i] = p + q;
    if (op.op == Op::kSub) values[i] = p - q;
    if (op.op == Op::kMul) values[i] = p * q;
    if (op.op == Op::kDiv) values[i] = p / q;
  }
  graph_.SetFloats(out, std::move(values));
  Value value;
  value.kind = Kind::kConstant;
  return value;
}

// ---- norms ----

bool LiftReader::CanBeNormalized(const Value& value) const {
  return value.kind == Kind::kResidual || (value.kind == Kind::kLinear && value.number == 1.0f);
}

Result<Value> LiftReader::Norm(const Value& x, int x_id, int weight, float epsilon,
                               std::int64_t width) {
  if (!CanBeNormalized(x) || (x.kind == Kind::kResidual && graph_.NumElements(x_id) != width)) {
    return Expected("a norm of the residual stream or of a projection");
  }
  if (!(epsilon >= 0) || !std::isfinite(epsilon)) return Expected("an epsilon from 0 up");
  if (!epsilon_) epsilon_ = epsilon;
  if (*epsilon_ != epsilon) return Expected("the same epsilon in every norm");
  if (graph_.NumElements(weight) != width || graph_.Width(weight) != width) {
    return Expected(StrCat("a weight of ", width, " values"));
  }
  Value out;
  out.kind = Kind::kNorm;
  out.a = x.id;
  out.b = weight;
  out.n = static_cast<int>(width);
  return out;
}

Result<Value> LiftReader::TimesNormWeight(const Value& normalized, int weight) {
  return Norm(At(normalized.a), normalized.a, weight, normalized.number, normalized.n);
}

Result<Value> LiftReader::Composite(const Operator& op) {
  if (op.options.composite_name != "odml.rms_norm") {
    return Expected(
        StrCat("odml.rms_norm or a composite with a body, found ", op.options.composite_name));
  }
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  const auto epsilon =
      formats::tflite::FindCompositeNumber(op.options.composite_attributes, "epsilon");
  if (in[1].kind != Kind::kConstant || !epsilon || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("the residual stream or projected heads, a weight, and the attribute epsilon");
  }
  return Norm(in[0], op.inputs[0], in[1].id, static_cast<float>(*epsilon),
              graph_.Width(op.inputs[0]));
}

Result<Value> LiftReader::Square(int x_id) const {
  const Value& x = At(x_id);
  if (!CanBeNormalized(x)) {
    const auto curve = CurveOf(x);
    if (!curve) return Expected("the square of what is normalized, or of a gate");
    std::vector<double> squares = *curve;
    for (double& value : squares) value *= value;
    HONE_ASSIGN(Value out, MakeCurve(x, std::move(squares)));
    out.number = x.number * x.number;
    return out;
  }
  Value out;
  out.kind = Kind::kSquare;
  out.a = x.id;
  out.n = static_cast<int>(graph_.Width(x_id));
  return out;
}

Result<Value> LiftReader::Mean(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  const auto axes = graph_.Ints(op.inputs[1]);
  const int rank = static_cast<int>(graph_.shape(op.inputs[0]).size());
  if (in[0].kind != Kind::kSquare || !axes || axes->size() != 1 ||
      OutElements(op) * in[0].n != InElements(op) || graph_.Width(op.inputs[0]) != in[0].n ||
      (axes->front() != rank - 1 && axes->front() != -1)) {
    return Expected("the mean of squares over the last dimension");
  }
  Value out = in[0];
  out.kind = Kind::kMeanSquare;
  out.number = 0;
  out.id = -1;
  return out;
}

Result<Value> LiftReader::Root(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  if (in[0].kind != Kind::kMeanSquare || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("a mean of squares");
  }
  Value out = in[0];
  out.kind = op.op == Op::kSqrt ? Kind::kRms : Kind::kInverseRms;
  out.id = -1;
  return out;
}

// ---- projections ----

Result<Value> LiftReader::FullyConnected(const Operator& op) {
  if (op.inputs.size() < 2 || op.inputs.size() > 3 || op.inputs[0] < 0 || op.inputs[1] < 0) {
    return Expected("an input, a weight and perhaps a bias");
  }
  if (op.options.weights_format != 0) return Expected("weights in the plain format");
  const Value& x = At(op.inputs[0]);
  const Value& w = At(op.inputs[1]);
  if (x.kind != Kind::kNorm && x.kind != Kind::kContext && x.kind != Kind::kProduct &&
      x.kind != Kind::kResidual) {
    return Expected("the output of a norm, of the attention or of a gate");
  }
  if (x.kind == Kind::kContext && x.n != kWholeCache) return Expected("attention to all positions");
  if (w.kind != Kind::kConstant || graph_.shape(w.id).size() != 2) {
    return Expected("a constant matrix");
  }
  const std::int64_t rows = graph_.shape(w.id)[0];
  if (graph_.Width(w.id) != graph_.Width(op.inputs[0]) || InElements(op) != graph_.Width(w.id) ||
      OutElements(op) != rows || graph_.Width(op.outputs[0]) != rows) {
    return Expected("a matrix that fits input and output");
  }
  LiftedLinear linear;
  linear.weight = w.id;
  if (const int bias = Bias(op); bias >= 0) {
    if (At(bias).kind != Kind::kConstant || graph_.Width(bias) != rows ||
        graph_.NumElements(bias) != rows) {
      return Expected(StrCat("a constant bias of ", rows, " values"));
    }
    linear.bias = At(bias).id;
  }
  Value like;
  like.kind = Kind::kLinear;
  like.a = x.id;
  return NewLinear(like, linear);
}

Value LiftReader::NewLinear(const Value& like, LiftedLinear linear) {
  linears_.push_back(linear);
  Value out = like;
  out.n = static_cast<int>(linears_.size()) - 1;
  out.id = -1;
  return out;
}

LiftedLinear LiftReader::LinearOf(const Value& linear) const {
  return linears_[static_cast<std::size_t>(linear.n)];
}

std::int64_t LiftReader::RowsOf(const Value& linear) const {
  const LiftedLinear& facts = linears_[static_cast<std::size_t>(linear.n)];
  return facts.rows.count >= 0 ? facts.rows.count : graph_.shape(facts.weight)[0];
}

// ---- activations ----

std::optional<std::vector<double>> LiftReader::CurveOf(const Value& value) const {
  if (value.kind == Kind::kCurve) return value.data->curve;
  if (value.kind == Kind::kLinear) return CurvePoints();
  if (value.kind != Kind::kSquare || At(value.a).kind != Kind::kLinear) return std::nullopt;
  std::vector<double> squares = CurvePoints();
  for (double& x : squares) x *= x;
  return squares;
}

// A function of the projection that base is, or is a function of.
Result<Value> LiftReader::MakeCurve(const Value& base, std::vector<double> curve) const {
  Value out;
  out.kind = Kind::kCurve;
  out.a = base.kind == Kind::kLinear ? base.id : base.a;
  out.factor = 0;
  // A scaled projection is a function of the unscaled one.
  if (At(out.a).kind != Kind::kLinear) return Expected("a function of one projection");
  auto data = std::make_shared<LiftData>();
  data->curve = std::move(curve);
  out.data = std::move(data);
  return out;
}

Result<Value> LiftReader::CurveFunction(const Operator& op) {
  const bool power = op.op == Op::kPow;
  if (op.inputs.size() != (power ? 2U : 1U) || op.inputs[0] < 0 ||
      !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("one input of the same shape");
  }
  const Value& x = At(op.inputs[0]);
  const auto exponent = power && op.inputs[1] >= 0 ? Scalar(At(op.inputs[1])) : std::nullopt;
  if (power && (!exponent || (*exponent != 2.0f && *exponent != 3.0f))) {
    return Expected("the constant exponent 2 or 3");
  }
  if (op.op == Op::kSquare || (power && *exponent == 2.0f)) return Square(op.inputs[0]);
  if (x.kind == Kind::kScores && op.op == Op::kTanh && x.cap == 0) {
    Value out = x;
    out.cap = 1;
    out.id = -1;
    return out;
  }
  auto curve = CurveOf(x);
  if (!curve) return Expected("the projection of a gate");
  const double scale = x.kind == Kind::kSquare ? 1.0 : static_cast<double>(x.number);
  for (double& value : *curve) {
    const double y = value * scale;
    if (op.op == Op::kLogistic) value = 1 / (1 + std::exp(-y));
    if (op.op == Op::kTanh) value = std::tanh(y);
    if (op.op == Op::kGelu) value = op.options.approximate ? GeluTanh(y) : GeluErf(y);
    if (power) value = y * y * y;
  }
  HONE_ASSIGN(Value out, MakeCurve(x, *std::move(curve)));
  if (op.op == Op::kTanh && x.kind == Kind::kLinear) out.factor = x.number;
  return out;
}

// x + sign y, where y is a function of the same projection or a number.
Result<Value> LiftReader::CurveSum(const Value& x, const Value& y, double sign) {
  auto sum = CurveOf(x);
  const auto scalar = Scalar(y);
  const auto other = CurveOf(y);
  if (!sum || (!scalar && !other)) return Expected("two functions of one projection");
  const double x_scale = x.kind == Kind::kSquare ? 1.0 : static_cast<double>(x.number);
  const double y_scale = y.kind == Kind::kSquare ? 1.0 : static_cast<double>(y.number);
  for (std::size_t i = 0; i < sum->size(); ++i) {
    const double right = scalar ? static_cast<double>(*scalar) : (*other)[i] * y_scale;
    (*sum)[i] = (*sum)[i] * x_scale + sign * right;
  }
  HONE_ASSIGN(const Value out, MakeCurve(x, *std::move(sum)));
  if (scalar) return out;
  HONE_ASSIGN(const Value check, MakeCurve(y, {}));
  if (LinearOf(At(check.a)).weight != LinearOf(At(out.a)).weight || At(check.a).n != At(out.a).n) {
    return Expected("two functions of one projection");
  }
  return out;
}

// A function of a gate times another function of it, or times the projection beside it.
Result<Value> LiftReader::CurveProduct(const Value& x, const Value& y) {
  const auto a = CurveOf(x);
  const auto b = CurveOf(y);
  if (!a || !b) return Value{};
  HONE_ASSIGN(Value out, MakeCurve(x, *a));
  HONE_ASSIGN(const Value other, MakeCurve(y, *b));
  if (At(out.a).n == At(other.a).n) {
    std::vector<double> product = *a;
    for (std::size_t i = 0; i < product.size(); ++i) product[i] *= (*b)[i];
    HONE_ASSIGN(out, MakeCurve(x, std::move(product)));
    const float x_scale = x.kind == Kind::kSquare ? 1.0f : x.number;
    out.number = x_scale * (y.kind == Kind::kSquare ? 1.0f : y.number);
    return out;
  }
  const bool gate_first = x.kind == Kind::kCurve && y.kind == Kind::kLinear && y.number == 1.0f;
  if (!gate_first) return Value{};
  std::vector<double> curve = *a;
  for (double& value : curve) value *= static_cast<double>(x.number);
  const auto activation = FindActivation(curve);
  if (!activation) return Expected("an activation that is SiLU or GELU");
  Value product;
  product.kind = Kind::kProduct;
  product.a = out.a;
  product.b = y.id;
  product.n = static_cast<int>(*activation);
  return product;
}

}  // namespace hone::model
