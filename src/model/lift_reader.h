// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Reads a graph by what its tensors mean. Every tensor gets a meaning ("the residual stream after
// layer 3", "query heads after rope"); every operator has a rule from the meanings of its inputs to
// the meaning of its output. Names and the order of operators do not matter.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/tflite/tflite.h"
#include "model/lift_graph.h"
#include "model/lift_rules.h"

namespace hone::model {

class LiftReader {
 public:
  using Operator = formats::tflite::Operator;

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

  // kUnsupported: "expected ...".
  static Status Expected(std::string_view what);

  // graph must outlive the reader.
  explicit LiftReader(const LiftGraph& graph);

  LiftedDecoder lifted;

  const Value& At(int id) const { return values_[static_cast<std::size_t>(id)]; }
  Status SetInput(int id, Value value);
  // Gives every tensor its meaning.
  Status Run();
  // The end of the graph: a projection of the norm of the last residual stream.
  Status EndLogits(int logits);

 private:
  // The meanings of the inputs of an operator that has exactly kCount of them.
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
  bool SameShape(int a, int b) const { return graph_.shape(a) == graph_.shape(b); }
  static int Bias(const Operator& op) { return op.inputs.size() == 3 ? op.inputs[2] : -1; }
  Status Step(int index, const Operator& op);
  Result<Value> Apply(int index, const Operator& op);
  bool HasShape(int id, const std::vector<std::int64_t>& shape) const;
  // Whether numbers may be viewed in another shape without a change of meaning.
  static bool IsFlat(Kind kind);
  Result<Value> Reshape(const Operator& op) const;
  // A transpose that moves only dimensions of size 1 is a reshape.
  Result<Value> Transpose(const Operator& op) const;
  Result<Value> Cast(const Operator& op) const;
  Result<Value> Maximum(const Operator& op) const;
  Result<Value> EmbeddingLookup(const Operator& op);
  Status SetStart();
  Result<Value> Mul(const Operator& op);
  // The meaning of x times y, or kNone.
  Result<Value> MulOrdered(const Operator& op, const Value& x, const Value& y, int x_id, int y_id);
  // The same number of values, all of them in the last dimension of b.
  bool SameWidth(int a, int b) const;
  static Value Scaled(Value x, float scalar);
  Result<Value> Add(const Operator& op);
  Result<Value> Roped(const Operator& op, const Value& times_cos, const Value& times_sin);
  Status SetRope(int frequencies, float magnitude);
  Result<Value> CosOrSin(const Operator& op) const;
  Result<Value> Concatenation(const Operator& op) const;
  Result<Value> Slice(const Operator& op) const;
  Result<Value> Norm(int residual, int weight, float epsilon);
  Result<Value> Composite(const Operator& op);
  Result<Value> Mean(const Operator& op) const;
  Result<Value> Rsqrt(const Operator& op) const;
  Result<Value> Dequantize(const Operator& op) const;
  Result<Value> FullyConnected(int index, const Operator& op) const;
  LiftedLinear LinearOf(const Value& linear) const;
  Result<Value> Logistic(const Operator& op) const;
  Result<Value> Pack(const Operator& op) const;
  Result<Value> DynamicUpdateSlice(const Operator& op);
  Result<Value> BatchMatMul(const Operator& op);
  Status SetHeads(std::int64_t kv_heads, std::int64_t group, std::int64_t head_dim,
                  std::int64_t context);
  Result<Value> Softmax(const Operator& op) const;
  Result<Value> AddToResidual(const Operator& op, const Value& residual, const Value& linear);
  Status EndAttention(const Value& residual, const Value& context, const Value& o);
  Status EndFeedForward(const Value& residual, const Value& product, const Value& down);

  const LiftGraph& graph_;
  std::vector<Value> values_;
  bool has_start_ = false;
  std::set<int> written_;  // caches
};

}  // namespace hone::model
