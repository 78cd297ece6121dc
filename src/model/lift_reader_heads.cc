// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The algebra of rope. Every dimension of a head is a sum of dimensions of the projected head, each
// times a number and perhaps cos or sin. Slices, parts put together, signs and products are worked
// out dimension by dimension; in the end the sums say whether, and by which frequencies, the head
// has turned.
#include <algorithm>
#include <cmath>
#include <utility>

#include "model/lift_reader.h"

namespace hone::model {
namespace {

using formats::tflite::Operator;
using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

constexpr std::int64_t kMaxHeadDim = 1 << 14;
constexpr std::size_t kMaxTerms = 4;

// Moves a scale into the sums so that parts of one scale can be put together.
void FoldScale(std::vector<LiftSum>& heads, float ratio) {
  if (ratio == 1.0f) return;
  for (LiftSum& sum : heads) {
    for (LiftTerm& term : sum) term.number *= ratio;
  }
}

}  // namespace

// Projected heads as sums of themselves.
Result<Value> LiftReader::HeadsOf(int id) const {
  const Value& x = At(id);
  const std::int64_t width = graph_.Width(id);
  if (x.kind == Kind::kHeads) {
    if (static_cast<std::int64_t>(x.data->heads.size()) != width) {
      return Expected("heads in the last dimension");
    }
    return x;
  }
  const bool projected =
      x.kind == Kind::kLinear || (x.kind == Kind::kNorm && At(x.a).kind == Kind::kLinear);
  if (!projected || width < 1 || width > kMaxHeadDim) return Expected("projected heads");
  Value out;
  out.kind = Kind::kHeads;
  out.a = x.id;
  out.n = static_cast<int>(width);
  out.number = x.number;
  auto data = std::make_shared<LiftData>();
  for (std::int32_t i = 0; i < width; ++i) data->heads.push_back({LiftTerm{i, 1, {}}});
  out.data = std::move(data);
  return out;
}

Result<Value> LiftReader::HeadsTimesTrig(const Operator& op, int x_id, int trig_id) const {
  HONE_ASSIGN(Value out, HeadsOf(x_id));
  const Value& trig = At(trig_id);
  const std::int64_t width = graph_.Width(x_id);
  if (graph_.NumElements(trig_id) != width || graph_.Width(trig_id) != width ||
      static_cast<std::int64_t>(trig.data->trigs.size()) != width ||
      !SameShape(x_id, op.outputs[0])) {
    return Expected("cos or sin for each dimension of a head");
  }
  auto data = std::make_shared<LiftData>(*out.data);
  for (std::size_t i = 0; i < data->heads.size(); ++i) {
    for (LiftTerm& term : data->heads[i]) {
      if (term.trig.kind != LiftTrig::Kind::kOne) return Expected("one product with cos or sin");
      term.trig = trig.data->trigs[i];
      if (term.trig.kind != LiftTrig::Kind::kOne) continue;
      term.number *= term.trig.factor;  // a dimension that cos 1 or sin 0 leaves alone
      term.trig.factor = 1;
    }
    std::erase_if(data->heads[i], [](const LiftTerm& term) { return term.number == 0; });
  }
  out.data = std::move(data);
  out.id = -1;
  return out;
}

Result<Value> LiftReader::HeadsSum(const Operator& op, double sign) const {
  HONE_ASSIGN(const auto in, Inputs<2>(op));
  HONE_ASSIGN(Value x, HeadsOf(op.inputs[0]));
  HONE_ASSIGN(const Value y, HeadsOf(op.inputs[1]));
  if (x.a != y.a || x.n != y.n || !SameShape(op.inputs[0], op.inputs[1]) ||
      !SameShape(op.inputs[0], op.outputs[0])) {
    return Expected("two parts of the rotation of the same heads");
  }
  auto data = std::make_shared<LiftData>(*x.data);
  std::vector<LiftSum> other = y.data->heads;
  FoldScale(other, y.number / x.number * static_cast<float>(sign));
  for (std::size_t i = 0; i < other.size(); ++i) {
    LiftSum& sum = data->heads[i];
    sum.insert(sum.end(), other[i].begin(), other[i].end());
    if (sum.size() > kMaxTerms) return Expected("two parts of a rotation");
  }
  x.data = std::move(data);
  x.id = -1;
  return x;
}

Result<Value> LiftReader::HeadsConcatenation(const Operator& op) const {
  Value out;
  auto data = std::make_shared<LiftData>();
  for (const std::int32_t input : op.inputs) {
    HONE_ASSIGN(const Value part, HeadsOf(input));
    const auto shape = [&](int id) {
      auto dims = graph_.shape(id);
      if (!dims.empty()) dims.pop_back();
      return dims;
    };
    if (out.kind == Kind::kNone) {
      out = part;
      out.number = std::abs(part.number);
    }
    if (part.a != out.a || part.n != out.n || shape(input) != shape(op.outputs[0])) {
      return Expected("angles twice, or parts of the same heads");
    }
    std::vector<LiftSum> heads = part.data->heads;
    FoldScale(heads, part.number / out.number);
    data->heads.insert(data->heads.end(), heads.begin(), heads.end());
    if (static_cast<std::int64_t>(data->heads.size()) > kMaxHeadDim) {
      return Expected("parts of the same heads");
    }
  }
  if (out.kind == Kind::kNone ||
      static_cast<std::int64_t>(data->heads.size()) != graph_.Width(op.outputs[0])) {
    return Expected("parts of the same heads along the last dimension");
  }
  out.data = std::move(data);
  out.id = -1;
  return out;
}

Result<std::optional<RopeTable>> LiftReader::FindRope(const Value& value) const {
  if (value.kind != Kind::kHeads) return std::optional<RopeTable>();
  const std::vector<LiftSum>& heads = value.data->heads;
  const auto fail = [] {
    return Expected(
        "heads turned by rope: x cos - y sin and y cos + x sin for dimensions of the first and "
        "second half");
  };
  std::size_t rotary = 0;
  while (rotary < heads.size() && heads[rotary].size() == 2) ++rotary;
  const std::size_t half = rotary / 2;
  if (heads.size() != static_cast<std::size_t>(value.n) || rotary % 2 != 0) return fail();
  for (std::size_t i = rotary; i < heads.size(); ++i) {
    const bool same = heads[i].size() == 1 && heads[i][0].trig.kind == LiftTrig::Kind::kOne &&
                      heads[i][0].number == 1.0f &&
                      heads[i][0].dimension == static_cast<std::int32_t>(i);
    if (!same) return fail();
  }
  if (rotary == 0) return std::optional<RopeTable>();
  RopeTable table;
  for (std::size_t i = 0; i < rotary; ++i) {
    LiftTerm cos = heads[i][0], sin = heads[i][1];
    if (cos.trig.kind == LiftTrig::Kind::kSin) std::swap(cos, sin);
    const bool first = i < half;
    const std::size_t other = first ? i + half : i - half;
    if (i == 0) table.magnitude = cos.trig.factor;
    if (first) table.inv_freq.push_back(cos.trig.frequency);
    const float frequency = table.inv_freq[first ? i : other];
    const bool right = cos.trig == LiftTrig{LiftTrig::Kind::kCos, frequency, table.magnitude} &&
                       sin.trig == LiftTrig{LiftTrig::Kind::kSin, frequency, table.magnitude} &&
                       cos.number == 1.0f && sin.number == (first ? -1.0f : 1.0f) &&
                       cos.dimension == static_cast<std::int32_t>(i) &&
                       sin.dimension == static_cast<std::int32_t>(other);
    if (!right) return fail();
    if (!std::isfinite(frequency) || !std::isfinite(table.magnitude)) {
      return Expected("rotary frequencies that are finite numbers");
    }
  }
  return std::optional<RopeTable>(std::move(table));
}

}  // namespace hone::model
