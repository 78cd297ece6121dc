// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Rules for operators that only move numbers: views, casts, slices, and parts put together.
#include <algorithm>
#include <utility>

#include "model/lift_reader.h"

namespace hone::model {
namespace {

using formats::tflite::Op;
using formats::tflite::Operator;
using formats::tflite::TensorType;
using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

bool IsFloat(TensorType type) {
  return type == TensorType::kFloat32 || type == TensorType::kFloat16;
}

}  // namespace

// Whether the numbers may be viewed in another shape without a change of meaning.
bool LiftReader::IsFlat(Kind kind) {
  switch (kind) {
    case Kind::kTokens:
    case Kind::kAffine:
    case Kind::kZero:
    case Kind::kDistance:
    case Kind::kAngles:
    case Kind::kTrig:
    case Kind::kCacheIndex:
    case Kind::kResidual:
    case Kind::kMeanSquare:
    case Kind::kRms:
    case Kind::kInverseRms:
    case Kind::kNorm:
    case Kind::kLinear:
    case Kind::kHeads:
    case Kind::kScores:
    case Kind::kMasked:
    case Kind::kWeights:
    case Kind::kContext:
    case Kind::kCurve:
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
  const bool copies = op.op == Op::kBroadcastTo && x.kind == Kind::kDistance &&
                      OutElements(op) % std::max<std::int64_t>(1, graph_.Width(op.outputs[0])) == 0;
  if (InElements(op) != OutElements(op) && !copies) {
    return Expected("as many values as the input has");
  }
  const bool by_width = x.kind == Kind::kDistance || x.kind == Kind::kScores ||
                        x.kind == Kind::kMasked || x.kind == Kind::kWeights ||
                        x.kind == Kind::kCacheIndex;
  const bool columns = x.kind == Kind::kAffine && x.affine.column != 0;
  if ((by_width || columns) && graph_.Width(op.inputs[0]) != graph_.Width(op.outputs[0])) {
    return Expected("a mask or scores that keep their last dimension");
  }
  return x;
}

// A transpose that moves only dimensions of size 1 is a reshape.
Result<Value> LiftReader::Transpose(const Operator& op) const {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  const auto order = graph_.Ints(op.inputs[1]);
  const std::vector<std::int32_t>& from = graph_.shape(op.inputs[0]);
  const std::vector<std::int32_t>& to = graph_.shape(op.outputs[0]);
  if (!IsFlat(in[0].kind) || in[0].kind == Kind::kDistance) return Expected("projected heads");
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

Result<Value> LiftReader::Cast(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<1>(op));
  const TensorType from = graph_.tensor(op.inputs[0]).type;
  const TensorType to = graph_.tensor(op.outputs[0]).type;
  const bool known = IsFlat(in[0].kind) || in[0].kind == Kind::kWritten ||
                     in[0].kind == Kind::kCache || in[0].kind == Kind::kNormalized ||
                     in[0].kind == Kind::kSquare;
  // Half precision would round positions and angles.
  const bool exact = in[0].kind == Kind::kAffine || in[0].kind == Kind::kAngles;
  if (!known || (exact && to != TensorType::kFloat32) || !SameShape(op.inputs[0], op.outputs[0]) ||
      !IsFloat(to) || (!IsFloat(from) && in[0].kind != Kind::kZero)) {
    return Expected("a float of another precision, or the position as float32");
  }
  return in[0];
}

Result<Value> LiftReader::Concatenation(const Operator& op) {
  if (op.inputs.empty() || op.inputs[0] < 0) return Expected("inputs");
  const int rank = static_cast<int>(graph_.shape(op.inputs[0]).size());
  int axis = op.options.axis.value_or(0);
  if (axis < 0) axis += rank;
  if (rank == 1 && graph_.tensor(op.outputs[0]).type == TensorType::kInt32) return Pack(op);
  std::vector<float> angles;
  std::vector<LiftTrig> trigs;
  std::int64_t elements = 0;
  bool all_masks = true, all_angles = true, all_trigs = true;
  for (const std::int32_t input : op.inputs) {
    if (input < 0) return Expected("inputs");
    const Value& x = At(input);
    elements += graph_.NumElements(input);
    all_masks = all_masks && x.kind == Kind::kDistance && SameShape(input, op.inputs[0]) &&
                x.data == At(op.inputs[0]).data;
    const auto part = AnglesOf(x);
    all_angles = all_angles && part && graph_.Width(input) == graph_.NumElements(input);
    if (all_angles) angles.insert(angles.end(), part->begin(), part->end());
    all_trigs = all_trigs && graph_.Width(input) == graph_.NumElements(input) &&
                (x.kind == Kind::kTrig || x.kind == Kind::kConstant);
    if (!all_trigs) continue;
    if (x.kind == Kind::kTrig) {
      trigs.insert(trigs.end(), x.data->trigs.begin(), x.data->trigs.end());
      continue;
    }
    const auto constants = graph_.Floats(x.id);
    if (!constants) return Expected("constants of type float beside cos and sin");
    for (const float f : *constants) trigs.push_back({LiftTrig::Kind::kOne, 0, f});
  }
  if (elements != OutElements(op)) return Expected("an output that holds all inputs");
  // One copy for each head of a group.
  if (all_masks && axis < rank - 1 && graph_.Width(op.outputs[0]) == graph_.Width(op.inputs[0])) {
    return At(op.inputs[0]);
  }
  if (axis == rank - 1 && op.inputs.size() == 2) {
    const Kind kind = At(op.inputs[0]).kind;
    if (kind == Kind::kScores) return JoinScores(op);
    if (kind == Kind::kDistance) return SplitMask(op);
  }
  if (axis != rank - 1 || graph_.Width(op.outputs[0]) != elements) {
    if (axis == rank - 1) return HeadsConcatenation(op);
    return Expected("copies of the mask, or parts along the last dimension");
  }
  Value out;
  auto data = std::make_shared<LiftData>();
  if (all_angles) {
    out.kind = Kind::kAngles;
    data->angles = std::move(angles);
  } else if (all_trigs) {
    out.kind = Kind::kTrig;
    data->trigs = std::move(trigs);
  } else {
    return HeadsConcatenation(op);
  }
  out.data = std::move(data);
  return out;
}

Result<LiftReader::Part> LiftReader::FindPart(const Operator& op) const {
  const bool strided = op.op == Op::kStridedSlice;
  const std::size_t count = strided ? 4 : 3;
  if (op.inputs.size() != count ||
      std::any_of(op.inputs.begin(), op.inputs.end(), [](std::int32_t id) { return id < 0; })) {
    return Expected(StrCat(count, " inputs"));
  }
  const std::vector<std::int32_t>& shape = graph_.shape(op.inputs[0]);
  const auto begin = graph_.Ints(op.inputs[1]);
  const auto end = graph_.Ints(op.inputs[2]);
  const auto strides =
      strided ? graph_.Ints(op.inputs[3]) : std::vector<std::int32_t>(shape.size(), 1);
  if (!begin || !end || !strides || begin->size() != shape.size() || end->size() != shape.size() ||
      strides->size() != shape.size() || op.options.ellipsis_mask != 0 ||
      op.options.new_axis_mask != 0 || op.options.end_is_offset) {
    return Expected("a constant begin and end for each dimension");
  }
  Part part;
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto bit = [&](std::int32_t mask) { return strided && i < 31 && ((mask >> i) & 1) != 0; };
    const std::int64_t dim = shape[i];
    std::int64_t from = (*begin)[i], to = (*end)[i];
    if (strided) {
      if (from < 0) from += dim;
      if (to < 0) to += dim;
      if (bit(op.options.begin_mask)) from = 0;
      if (bit(op.options.end_mask)) to = dim;
      if (bit(op.options.shrink_axis_mask)) to = from + 1;
      to = std::min(to, dim);
    } else {
      to = to == -1 ? dim : from + to;
    }
    if ((*strides)[i] != 1 || from < 0 || to > dim || from >= to) {
      return Expected("steps of 1 inside the input");
    }
    part.begin.push_back(from);
    part.size.push_back(to - from);
    elements *= to - from;
  }
  if (elements != OutElements(op)) return Expected("an output of the size of the slice");
  return part;
}

Result<Value> LiftReader::Slice(const Operator& op) {
  HONE_ASSIGN(const Part part, FindPart(op));
  const std::vector<std::int32_t>& shape = graph_.shape(op.inputs[0]);
  const Value& x = At(op.inputs[0]);
  if (x.kind == Kind::kCacheIndex && shape.size() == 1 && part.size[0] == 1) {
    Value out;
    out.kind = Kind::kAffine;
    out.affine.position = part.begin[0] == x.n ? 1 : 0;
    return out;
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool last = i + 1 == shape.size();
    if (!last && part.size[i] != shape[i]) return Expected("a part of the last dimension");
  }
  if (OutElements(op) == InElements(op) && IsFlat(x.kind)) return x;
  if (shape.empty() || graph_.Width(op.outputs[0]) != part.size.back()) {
    return Expected("a part of the last dimension");
  }
  return SliceLast(op.inputs[0], part.begin.back(), part.size.back());
}

Result<Value> LiftReader::SliceLast(int x_id, std::int64_t begin, std::int64_t size) {
  const Value& x = At(x_id);
  const bool one_row = graph_.NumElements(x_id) == graph_.Width(x_id);
  const auto cut = [&](const auto& list) {
    using List = std::decay_t<decltype(list)>;
    return List(list.begin() + begin, list.begin() + begin + size);
  };
  if (x.kind == Kind::kLinear && one_row && graph_.shape(x_id).size() <= 3) {
    if (graph_.Width(x_id) != RowsOf(x)) return Expected("a part of a projection");
    LiftedLinear linear = LinearOf(x);
    linear.rows = {std::max<std::int64_t>(0, linear.rows.begin) + begin, size};
    return NewLinear(x, linear);
  }
  if (x.kind == Kind::kTrig && one_row) {
    Value out = x;
    out.id = -1;
    auto data = std::make_shared<LiftData>();
    data->trigs = cut(x.data->trigs);
    out.data = std::move(data);
    return out;
  }
  if (x.kind == Kind::kWeights && x.n == kSideBySide) {
    const std::int64_t context = graph_.Width(x_id) - 1;
    const bool old = begin == 0 && size == context;
    if (!old && (begin != context || size != 1)) {
      return Expected("the weights of the cache, or those of the new position");
    }
    Value out = x;
    out.n = old ? kOldPositions : kNewPosition;
    return out;
  }
  HONE_ASSIGN(Value out, HeadsOf(x_id));
  auto data = std::make_shared<LiftData>();
  data->heads = cut(out.data->heads);
  out.data = std::move(data);
  out.id = -1;
  return out;
}

}  // namespace hone::model
