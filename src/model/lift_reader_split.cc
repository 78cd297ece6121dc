// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Rules for split caches: the graph reads the cache as it was, and the new keys and values beside
// it; an auxiliary graph writes them. Put together, that is the same attention.
#include <algorithm>
#include <utility>

#include "model/lift_reader.h"

namespace hone::model {
namespace {

using formats::tflite::Operator;
using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

}  // namespace

// The cache as it will be, as a tensor of its own.
int LiftReader::AddWritten(int update, int cache, int axis) {
  Value out;
  out.kind = Kind::kWritten;
  out.id = static_cast<int>(values_.size());
  out.a = update;
  out.b = cache;
  out.n = axis;
  values_.push_back(out);
  return out.id;
}

// A mask for the cache, and one number for the new position behind it.
Result<Value> LiftReader::SplitMask(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  const Value& own = in[1];
  if (in[0].kind != Kind::kDistance || in[0].data->own || own.kind != Kind::kAffine ||
      own.affine.position != 0 || own.affine.column != 0 ||
      graph_.Width(op.outputs[0]) != graph_.Width(op.inputs[0]) + 1) {
    return Expected("a mask of the cache and one of the new position");
  }
  auto data = std::make_shared<LiftData>(*in[0].data);
  data->own = static_cast<float>(own.affine.offset);
  Value out;
  out.kind = Kind::kDistance;
  HONE_ASSIGN(out.data, Keep(std::move(data)));
  return out;
}

// What the mask says of each position: of the new one what stands behind the cache, whose own
// column must be hidden, because what is in it is old.
Result<std::shared_ptr<const LiftData>> LiftReader::JoinMask(const LiftData& mask) {
  auto data = std::make_shared<LiftData>();
  data->table = mask.table;
  float& own = data->table[data->table.size() / 2];
  if (!(own <= -100.0f)) return Expected("a mask that hides the column that will be written");
  own = *mask.own;
  return Keep(std::move(data));
}

// Scores of the cache, then those of the new position.
Result<Value> LiftReader::JoinScores(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  const Value& old = in[0];
  const Value& added = in[1];
  const auto plain = [](const Value& x) { return x.factor == 1.0f && x.cap == 0; };
  if (old.kind != Kind::kScores || added.kind != Kind::kScores || old.n != kOldPositions ||
      added.n != kNewPosition || old.a != added.a || !plain(old) || !plain(added) ||
      graph_.Width(op.outputs[0]) != graph_.Width(op.inputs[0]) + 1) {
    return Expected("scores of the cache and of the new position");
  }
  Value out = old;
  out.id = -1;
  out.n = kSideBySide;
  out.b = AddWritten(added.b, old.b, At(old.b).n);
  return out;
}

Result<Value> LiftReader::JoinContexts(const Operator& op) {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  const bool old_first = in[0].n == kOldPositions;
  const Value& old = in[old_first ? 0 : 1];
  const Value& added = in[old_first ? 1 : 0];
  if (old.n != kOldPositions || added.n != kNewPosition || old.a != added.a ||
      !SameShape(op.inputs[0], op.inputs[1]) || !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("what the cache and the new position add, with the weights of one softmax");
  }
  Value out = old;
  out.id = -1;
  out.n = kWholeCache;
  out.b = AddWritten(added.b, old.b, At(old.b).n);
  return out;
}

}  // namespace hone::model
