// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a tensor of a decoder's graph can mean. lift_reader.h says how meanings are found.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/decoder_spec.h"

namespace hone::model {

enum class LiftKind : std::uint8_t {
  kNone,
  kConstant,
  kTokens,
  kCache,      // n: the axis of positions if an auxiliary graph writes it, else 0
  kSlice,      // new keys or values in an auxiliary graph that writes them
  kAnyNumber,  // a number of the runtime, or made of it, that must not change the result
  kZero,       // all zeros

  kAffine,      // affine.position * p + affine.column * c + affine.offset; p the position of the
                // token, c the column of the cache
  kDistance,    // table: a number for each p - c
  kAngles,      // angles: position times each frequency
  kTrig,        // trigs
  kCacheIndex,  // n: the axis where the position is; the others are 0

  kResidual,    // n: halves of layers done, a: the table if ids were looked up here, number: scale
  kSquare,      // a: what is normalized, n: values that share a norm
  kMeanSquare,  // the same, number: epsilon
  kRms,         // the same
  kInverseRms,  // the same
  kNormalized,  // the same
  kNorm,        // the same, b: weight, number: scale
  kLinear,      // a: input, n: index of the linear, number: scale
  kHeads,       // a: linear or norm, heads: for each dimension of a head, number: scale
  kWritten,     // a: linear, norm or heads, b: cache, n: the axis of positions
  kScores,      // n: a LiftShare, a: queries, b: written keys, factor: scale of the scores; number:
                // scale of the queries; cap: 0 or the scale after tanh
  kMasked,      // as kScores, table: what is added for each p - c
  kWeights,     // as kMasked
  kContext,     // n: a LiftShare, a: weights, b: written values
  kCurve,       // a: linear, curve: function of it, number: scale; factor: c if tanh(c x), else 0
  kProduct,     // a: gate's linear, b: up's linear, n: activation
};

// In a split cache the new position is not in the cache yet: scores of the cache and of the new
// position are made apart and put side by side.
enum LiftShare : int {
  kWholeCache,  // with the new position written
  kOldPositions,
  kNewPosition,
  kSideBySide,
};

// A number that depends on the position p: 1, cos(p f) or sin(p f), each times a factor.
struct LiftTrig {
  enum class Kind : std::uint8_t { kOne, kCos, kSin };
  Kind kind = Kind::kOne;
  float frequency = 0;
  float factor = 1;
  bool operator==(const LiftTrig&) const = default;
};

// number * trig * x[dimension]
struct LiftTerm {
  std::int32_t dimension = 0;
  float number = 1;
  LiftTrig trig;
};
using LiftSum = std::vector<LiftTerm>;

struct LiftAffine {
  double position = 0, column = 0, offset = 0;
  std::int64_t columns = 0;  // how many, if column is not 0
};

struct LiftData {
  std::vector<float> table;  // [2 * context - 1], index p - c + context - 1; bools are 0 and 1
  std::optional<float> own;  // for the new position, in a column behind those of the cache
  std::vector<float> angles;
  std::vector<LiftTrig> trigs;
  std::vector<LiftSum> heads;  // [width]
  std::vector<double> curve;   // at the points of lift_curve.h
};

struct LiftValue {
  LiftKind kind = LiftKind::kNone;
  int id = -1;  // the tensor where this meaning began; views of it share it
  int a = -1, b = -1, n = 0;
  float number = 1, factor = 1, cap = 0;
  LiftAffine affine;
  std::shared_ptr<const LiftData> data;
};

}  // namespace hone::model
