// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Rules for numbers that depend on the position alone: angles, indices of the cache, and masks. A
// mask says something for every pair of a position p and a column c. All that decoders say depends
// on p - c, so a table over p - c holds the whole of it, and operators are worked out entry by
// entry: what a mask shows is computed, not recognized.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "model/lift_reader.h"

namespace hone::model {
namespace {

using formats::tflite::Op;
using formats::tflite::Operator;
using formats::tflite::TensorType;
using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

// No model has more; floats hold twice as many positions exactly.
constexpr std::int64_t kMaxContext = 1 << 21;

// What LiteRT-LM writes into a mask where a row must not look.
constexpr float kHidden = -0.7f * std::numeric_limits<float>::max();
constexpr float kHiddenHalf = -45824.0f;

bool IsComparison(Op op) {
  switch (op) {
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
    case Op::kEqual:
    case Op::kNotEqual:
      return true;
    default:
      return false;
  }
}

double Compute(Op op, const double* x) {
  switch (op) {
    case Op::kAdd:
      return x[0] + x[1];
    case Op::kSub:
      return x[0] - x[1];
    case Op::kMul:
      return x[0] * x[1];
    case Op::kDiv:
      return x[0] / x[1];
    case Op::kMaximum:
      return std::max(x[0], x[1]);
    case Op::kMinimum:
      return std::min(x[0], x[1]);
    case Op::kLess:
      return x[0] < x[1] ? 1 : 0;
    case Op::kLessEqual:
      return x[0] <= x[1] ? 1 : 0;
    case Op::kGreater:
      return x[0] > x[1] ? 1 : 0;
    case Op::kGreaterEqual:
      return x[0] >= x[1] ? 1 : 0;
    case Op::kEqual:
      return x[0] == x[1] ? 1 : 0;
    case Op::kNotEqual:
      return x[0] != x[1] ? 1 : 0;
    case Op::kLogicalAnd:
      return x[0] != 0 && x[1] != 0 ? 1 : 0;
    case Op::kLogicalOr:
      return x[0] != 0 || x[1] != 0 ? 1 : 0;
    case Op::kLogicalNot:
      return x[0] != 0 ? 0 : 1;
    case Op::kSelect:
    case Op::kSelectV2:
      return x[0] != 0 ? x[1] : x[2];
    case Op::kNeg:
      return -x[0];
    case Op::kAbs:
      return std::abs(x[0]);
    case Op::kRelu:
      return std::max(x[0], 0.0);
    case Op::kSquare:
      return x[0] * x[0];
    default:
      return x[0];  // kCast
  }
}

std::size_t Arity(Op op) {
  switch (op) {
    case Op::kLogicalNot:
    case Op::kNeg:
    case Op::kAbs:
    case Op::kRelu:
    case Op::kSquare:
    case Op::kCast:
      return 1;
    case Op::kSelect:
    case Op::kSelectV2:
      return 3;
    default:
      return 2;
  }
}

bool IsConstantAffine(const LiftAffine& a) { return a.position == 0 && a.column == 0; }

bool IsDistance(const LiftAffine& a) { return a.column != 0 && a.position == -a.column; }

}  // namespace

bool LiftReader::IsPositional(const Value& value) {
  return value.kind == Kind::kAffine || value.kind == Kind::kDistance;
}

bool LiftReader::IsElementwise(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kLogicalAnd:
    case Op::kLogicalOr:
    case Op::kLogicalNot:
    case Op::kSelect:
    case Op::kSelectV2:
    case Op::kNeg:
    case Op::kAbs:
    case Op::kRelu:
    case Op::kSquare:
    case Op::kCast:
      return true;
    default:
      return IsComparison(op);
  }
}

// Whether the output has the shape of the inputs, dimensions of 1 repeated.
bool LiftReader::IsBroadcast(const Operator& op) const {
  std::vector<std::int32_t> want;
  for (const std::int32_t id : op.inputs) {
    std::vector<std::int32_t> shape = graph_.shape(id);
    if (shape.size() > want.size()) std::swap(shape, want);
    const std::size_t offset = want.size() - shape.size();
    for (std::size_t i = 0; i < shape.size(); ++i) {
      want[offset + i] = std::max(want[offset + i], shape[i]);
    }
  }
  return want == graph_.shape(op.outputs[0]);
}

bool LiftReader::AllPositional(const Operator& op) const {
  bool any = false;
  for (const std::int32_t id : op.inputs) {
    if (id < 0 || (!IsPositional(At(id)) && At(id).kind != Kind::kConstant)) return false;
    any = any || IsPositional(At(id));
  }
  return any;
}

Result<Value> LiftReader::RuntimeMask(int id, std::int64_t window) {
  const std::int64_t context = graph_.Width(id);
  if (graph_.NumElements(id) != context) return Expected("a mask of one row");
  HONE_ASSIGN(auto data, NewTable(context));
  const TensorType type = graph_.tensor(id).type;
  float shown = 0, hidden = kHidden;
  if (type == TensorType::kBool) {
    shown = 1;
    hidden = 0;
  } else if (type == TensorType::kFloat16) {
    hidden = kHiddenHalf;
  } else if (type != TensorType::kFloat32) {
    return Expected("a mask of type bool, float16 or float32");
  }
  for (std::size_t i = 0; i < data->table.size(); ++i) {
    const std::int64_t distance = static_cast<std::int64_t>(i) - (context - 1);
    const bool seen = distance >= 0 && (window == 0 || distance < window);
    data->table[i] = seen ? shown : hidden;
  }
  Value out;
  out.kind = Kind::kDistance;
  HONE_ASSIGN(out.data, Keep(std::move(data)));
  return out;
}

Result<std::shared_ptr<LiftData>> LiftReader::NewTable(std::int64_t context) {
  if (context < 1 || context > kMaxContext) return Expected("a context that a graph can have");
  table_values_left_ -= 2 * context - 1;
  if (table_values_left_ < 0) return Expected("fewer operators on masks");
  auto data = std::make_shared<LiftData>();
  data->table.resize(static_cast<std::size_t>(2 * context - 1));
  return data;
}

Result<std::shared_ptr<const LiftData>> LiftReader::Keep(std::shared_ptr<LiftData> table) {
  for (const auto& known : tables_) {
    if (known->table == table->table && known->own == table->own) return known;
  }
  kept_values_left_ -= static_cast<std::int64_t>(table->table.size());
  if (kept_values_left_ < 0) return Expected("masks that are the same in many layers");
  tables_.push_back(table);
  return std::shared_ptr<const LiftData>(std::move(table));
}

Result<LiftReader::Operand> LiftReader::OperandOf(int id) const {
  const Value& value = At(id);
  if (value.kind == Kind::kDistance) return Operand{{}, value.data};
  if (value.kind == Kind::kAffine) return Operand{value.affine, nullptr};
  const auto numbers =
      graph_.NumElements(value.id) <= kMaxContext ? graph_.Numbers(value.id) : std::nullopt;
  if (!numbers || numbers->empty()) return Expected("constant numbers");
  LiftAffine affine;
  affine.offset = numbers->front();
  const bool equal = std::all_of(numbers->begin(), numbers->end(),
                                 [&](double v) { return v == numbers->front(); });
  if (equal) return Operand{affine, nullptr};
  affine.column = (*numbers)[1] - (*numbers)[0];
  affine.columns = static_cast<std::int64_t>(numbers->size());
  for (std::size_t i = 0; i < numbers->size(); ++i) {
    if ((*numbers)[i] != affine.offset + affine.column * static_cast<double>(i)) {
      return Expected("constants that count the columns");
    }
  }
  if (graph_.Width(id) != affine.columns) return Expected("columns along the last dimension");
  return Operand{affine, nullptr};
}

// A constant stays one; what depends on p - c becomes a table.
Result<LiftReader::Operand> LiftReader::AsTable(const Operand& operand) {
  if (operand.table || IsConstantAffine(operand.affine)) return operand;
  if (!IsDistance(operand.affine)) return Expected("numbers that depend on position - column");
  const std::int64_t context = operand.affine.columns;
  HONE_ASSIGN(auto data, NewTable(context));
  for (std::size_t i = 0; i < data->table.size(); ++i) {
    const auto distance = static_cast<double>(static_cast<std::int64_t>(i) - (context - 1));
    data->table[i] = static_cast<float>(operand.affine.position * distance + operand.affine.offset);
  }
  HONE_ASSIGN(auto kept, Keep(std::move(data)));
  return Operand{{}, std::move(kept)};
}

Result<Value> LiftReader::AffineOf(const Operator& op, LiftAffine affine) const {
  const TensorType type = graph_.tensor(op.outputs[0]).type;
  if (type != TensorType::kFloat32 && type != TensorType::kInt32 && type != TensorType::kInt64) {
    return Expected("positions as int32 or float32");
  }
  if (affine.column == 0) affine.columns = 0;
  const std::int64_t width = affine.columns == 0 ? 1 : affine.columns;
  if (OutElements(op) != width || (width > 1 && graph_.Width(op.outputs[0]) != width)) {
    return Expected("one number, or one for each column");
  }
  // Beyond 2^24 floats are not the numbers that are meant.
  const double largest = std::abs(affine.position) + std::abs(affine.column);
  if (!(largest * static_cast<double>(kMaxContext) + std::abs(affine.offset) < 1e15)) {
    return Expected("positions and columns times small numbers");
  }
  Value out;
  out.kind = Kind::kAffine;
  out.affine = affine;
  return out;
}

Result<Value> LiftReader::TableOf(const Operator& op, const std::vector<Operand>& operands) {
  std::vector<Operand> tables;
  std::size_t size = 0;
  int with_own = 0, without_own = 0;
  for (const Operand& operand : operands) {
    HONE_ASSIGN(Operand table, AsTable(operand));
    if (table.table) {
      if (size != 0 && size != table.table->table.size()) return Expected("one context");
      size = table.table->table.size();
      ++(table.table->own ? with_own : without_own);
    }
    tables.push_back(std::move(table));
  }
  if (size == 0) return Expected("numbers that depend on position - column");
  if (with_own > 0 && without_own > 0) return Expected("masks with the same columns");
  const auto context = static_cast<std::int64_t>(size / 2 + 1);
  const std::int64_t columns = context + (with_own > 0 ? 1 : 0);
  if (graph_.Width(op.outputs[0]) != columns || OutElements(op) % columns != 0) {
    return Expected("a number for each column");
  }
  HONE_ASSIGN(auto data, NewTable(context));
  const TensorType type = graph_.tensor(op.outputs[0]).type;
  const auto compute = [&](const auto& entry) {
    double x[3] = {};
    for (std::size_t k = 0; k < tables.size(); ++k) {
      x[k] =
          tables[k].table ? static_cast<double>(entry(*tables[k].table)) : tables[k].affine.offset;
    }
    double y = Compute(op.op, x);
    if (type == TensorType::kBool) y = y != 0 ? 1 : 0;
    if (type == TensorType::kInt32 || type == TensorType::kInt64) y = std::trunc(y);
    return static_cast<float>(y);
  };
  for (std::size_t i = 0; i < size; ++i) {
    data->table[i] = compute([i](const LiftData& table) { return table.table[i]; });
  }
  if (with_own > 0) data->own = compute([](const LiftData& table) { return *table.own; });
  Value out;
  out.kind = Kind::kDistance;
  HONE_ASSIGN(out.data, Keep(std::move(data)));
  return out;
}

Result<Value> LiftReader::Elementwise(const Operator& op) {
  if (op.inputs.size() != Arity(op.op)) return Expected(StrCat(Arity(op.op), " inputs"));
  if (!IsBroadcast(op)) return Expected("an output of the shape that the inputs give");
  if (op.op == Op::kMul || op.op == Op::kDiv) {
    for (std::size_t i = 0; i < 2; ++i) {
      const Value& constant = At(op.inputs[1 - i]);
      const bool vector = constant.kind == Kind::kConstant && graph_.NumElements(constant.id) > 1;
      if (IsPosition(At(op.inputs[i])) && vector && (i == 0 || op.op == Op::kMul)) {
        return Angles(op, constant, op.op == Op::kDiv);
      }
    }
  }
  std::vector<Operand> operands;
  bool tables = false;
  for (const std::int32_t id : op.inputs) {
    HONE_ASSIGN(Operand operand, OperandOf(id));
    tables = tables || operand.table;
    operands.push_back(std::move(operand));
  }
  if (tables) return TableOf(op, operands);
  LiftAffine a = operands[0].affine;
  const LiftAffine b = operands.size() > 1 ? operands[1].affine : LiftAffine();
  if (a.columns != 0 && b.columns != 0 && a.columns != b.columns) return Expected("one context");
  const bool sum = op.op == Op::kAdd || op.op == Op::kSub || IsComparison(op.op);
  if (sum) {
    const double sign = op.op == Op::kAdd ? 1 : -1;
    a.position += sign * b.position;
    a.column += sign * b.column;
    a.offset += sign * b.offset;
    a.columns = std::max(a.columns, b.columns);
    if (!IsComparison(op.op)) return AffineOf(op, a);
    // x < y where x - y < 0.
    return TableOf(op, {Operand{a, nullptr}, Operand()});
  }
  const bool scaled_by_b = op.op == Op::kMul && IsConstantAffine(b);
  const bool scaled_by_a = op.op == Op::kMul && IsConstantAffine(a);
  const bool divided = op.op == Op::kDiv && IsConstantAffine(b) && b.offset != 0 &&
                       graph_.tensor(op.outputs[0]).type == TensorType::kFloat32;
  if (scaled_by_b || scaled_by_a || divided || op.op == Op::kNeg) {
    const LiftAffine& x = scaled_by_a ? b : a;
    const double scale = op.op == Op::kNeg ? -1
                         : divided         ? 1 / b.offset
                         : scaled_by_a     ? a.offset
                                           : b.offset;
    return AffineOf(op, {x.position * scale, x.column * scale, x.offset * scale, x.columns});
  }
  if (op.op == Op::kCast && graph_.tensor(op.outputs[0]).type != TensorType::kBool) {
    return AffineOf(op, a);
  }
  return TableOf(op, operands);
}

// ---- angles ----

// The position times constant frequencies, or by constant periods.
Result<Value> LiftReader::Angles(const Operator& op, const Value& constant, bool divide) const {
  const auto floats = graph_.Floats(constant.id);
  const auto count = static_cast<std::int64_t>(floats ? floats->size() : 0);
  if (count == 0 || graph_.tensor(op.outputs[0]).type != TensorType::kFloat32 ||
      OutElements(op) != count || graph_.Width(op.outputs[0]) != count) {
    return Expected("a constant frequency for each pair of a head");
  }
  auto data = std::make_shared<LiftData>();
  data->angles = *floats;
  for (float& f : data->angles) f = divide ? 1.0f / f : f;
  Value out;
  out.kind = Kind::kAngles;
  out.data = std::move(data);
  return out;
}

std::optional<std::vector<float>> LiftReader::AnglesOf(const Value& value) const {
  if (value.kind == Kind::kAngles) return value.data->angles;
  // One frequency: the position times a number.
  if (value.kind != Kind::kAffine || value.affine.column != 0 || value.affine.offset != 0) {
    return std::nullopt;
  }
  return std::vector<float>{static_cast<float>(value.affine.position)};
}

Result<Value> LiftReader::CosOrSin(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  const auto angles = AnglesOf(in[0]);
  if (!angles || graph_.tensor(op.inputs[0]).type != TensorType::kFloat32 ||
      !SameShape(op.inputs[0], op.outputs[0]) ||
      graph_.Width(op.outputs[0]) != static_cast<std::int64_t>(angles->size()) ||
      OutElements(op) != graph_.Width(op.outputs[0])) {
    return Expected("the angles of a position");
  }
  const auto kind = op.op == Op::kCos ? LiftTrig::Kind::kCos : LiftTrig::Kind::kSin;
  auto data = std::make_shared<LiftData>();
  for (const float f : *angles) data->trigs.push_back({kind, f, 1});
  Value out;
  out.kind = Kind::kTrig;
  out.data = std::move(data);
  return out;
}

// ---- indices ----

// The place of the new position in a cache. Also a CONCATENATION of single numbers.
Result<Value> LiftReader::Pack(const Operator& op) const {
  if (op.inputs.size() != 4 || op.options.axis.value_or(0) != 0 || OutElements(op) != 4) {
    return Expected("four values along axis 0");
  }
  int axis = -1;
  for (int i = 0; i < 4; ++i) {
    const std::int32_t input = op.inputs[static_cast<std::size_t>(i)];
    if (input < 0 || graph_.NumElements(input) != 1) return Expected("four single values");
    const auto zero = graph_.Ints(input);
    if (IsPosition(At(input)) && axis < 0) {
      axis = i;
    } else if (!IsZero(At(input)) && (!zero || zero->front() != 0)) {
      return Expected("the position once and zeros");
    }
  }
  if (axis != 2 && axis != 3) return Expected("the position third or last");
  Value out;
  out.kind = Kind::kCacheIndex;
  out.n = axis;
  return out;
}

// Whole numbers of the runtime's parameters, which no rule lets near the result unless they are
// multiplied by 0.
std::optional<Value> LiftReader::AnyNumber(const Operator& op) const {
  bool any = false;
  const bool sum_of_index = op.op == Op::kSum && !op.inputs.empty() && op.inputs[0] >= 0 &&
                            At(op.inputs[0]).kind == Kind::kCacheIndex;
  for (const std::int32_t id : op.inputs) {
    if (id < 0) return std::nullopt;
    const Kind kind = At(id).kind;
    any = any || kind == Kind::kAnyNumber || kind == Kind::kZero;
    const bool known = kind == Kind::kAnyNumber || kind == Kind::kZero || kind == Kind::kConstant ||
                       kind == Kind::kAffine || sum_of_index;
    if (!known) return std::nullopt;
  }
  if (!any && !sum_of_index) return std::nullopt;
  for (std::size_t i = 0; op.op == Op::kAdd && op.inputs.size() == 2 && i < 2; ++i) {
    const Value& x = At(op.inputs[i]);
    if (x.kind == Kind::kAffine && At(op.inputs[1 - i]).kind == Kind::kZero &&
        SameShape(op.inputs[i], op.outputs[0])) {
      return x;
    }
  }
  Value out;
  out.kind = Kind::kAnyNumber;
  const auto zero = [&](std::int32_t id) {
    const auto ints = graph_.Ints(id);
    return IsZero(At(id)) ||
           (ints && !ints->empty() &&
            std::all_of(ints->begin(), ints->end(), [](std::int32_t v) { return v == 0; }));
  };
  const bool whole = graph_.tensor(op.outputs[0]).type == TensorType::kInt32 ||
                     graph_.tensor(op.outputs[0]).type == TensorType::kInt64;
  const bool product = op.op == Op::kMul && op.inputs.size() == 2 && whole &&
                       (zero(op.inputs[0]) || zero(op.inputs[1]));
  const bool all_zero =
      std::all_of(op.inputs.begin(), op.inputs.end(), zero) &&
      (op.op == Op::kAdd || op.op == Op::kSub || op.op == Op::kSum || op.op == Op::kCast);
  const bool view =
      (op.op == Op::kCast || op.op == Op::kReshape) && !op.inputs.empty() && zero(op.inputs[0]);
  if (product || all_zero || view) out.kind = Kind::kZero;
  return out;
}

}  // namespace hone::model
