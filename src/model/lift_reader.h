// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Reads a graph by what its tensors mean. Every tensor gets a meaning ("the residual stream after
// layer 3", "query heads after rope"); every operator has a rule from the meanings of its inputs to
// the meaning of its output. Names and the order of operators do not matter.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/tflite/tflite.h"
#include "model/lift_graph.h"
#include "model/lift_rules.h"
#include "model/lift_value.h"

namespace hone::model {

class LiftReader {
 public:
  using Operator = formats::tflite::Operator;
  // All tensors are those of one token, so a reshape never changes a meaning.
  using Kind = LiftKind;
  using Value = LiftValue;

  // kUnsupported: "expected ...".
  static Status Expected(std::string_view what);

  // graph must outlive the reader.
  explicit LiftReader(LiftGraph& graph);

  LiftedDecoder lifted;

  const Value& At(int id) const { return values_[static_cast<std::size_t>(id)]; }
  Status SetInput(int id, Value value);
  // The mask that the runtime gives: what it says for each distance of a position from a column.
  // window: columns that a row can see; 0: all up to its position.
  Result<Value> RuntimeMask(int id, std::int64_t window);
  // Gives every tensor its meaning.
  Status Run();
  // The end of the graph: a projection of the norm of the last residual stream.
  Status EndLogits(int logits);
  // Puts what all layers share into the spec.
  void Finish();

 private:
  // Where a slice begins and how large it is, for each dimension of its input.
  struct Part {
    std::vector<std::int64_t> begin, size;
  };
  // A number for each p - c, or the same for all.
  struct Operand {
    LiftAffine affine;
    std::shared_ptr<const LiftData> table;
  };

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
  // The same shape, or one row of as many values.
  bool SameValues(int a, int b) const {
    const bool rows =
        graph_.NumElements(a) == graph_.Width(a) && graph_.NumElements(b) == graph_.Width(b);
    return SameShape(a, b) || (rows && graph_.Width(a) == graph_.Width(b));
  }
  static int Bias(const Operator& op) { return op.inputs.size() == 3 ? op.inputs[2] : -1; }
  // The value of a constant with one number.
  std::optional<float> Scalar(const Value& value) const;
  bool IsZero(const Value& value) const;
  bool IsPosition(const Value& value) const;

  // lift_reader.cc
  Status Step(const Operator& op);
  Status StepSplit(const Operator& op);
  Result<Value> Apply(const Operator& op);
  Result<Value> ApplyArithmetic(const Operator& op);
  bool HasShape(int id, const std::vector<std::int64_t>& shape) const;
  Result<Value> Maximum(const Operator& op) const;
  Result<Value> EmbeddingLookup(const Operator& op);
  Status SetStart();
  Result<Value> Mul(const Operator& op);
  Result<Value> MulOrdered(const Operator& op, const Value& x, const Value& y, int x_id, int y_id);
  Result<Value> Scaled(const Value& x, float scalar) const;
  Result<Value> Div(const Operator& op);
  Result<Value> Add(const Operator& op);
  Result<Value> Sub(const Operator& op);
  Result<Value> Neg(const Operator& op);
  Result<Value> Dequantize(const Operator& op) const;

  // lift_reader_views.cc
  static bool IsFlat(Kind kind);
  Result<Value> Reshape(const Operator& op) const;
  Result<Value> Transpose(const Operator& op) const;
  Result<Value> Cast(const Operator& op);
  Result<Value> Concatenation(const Operator& op);
  Result<Part> FindPart(const Operator& op) const;
  Result<Value> Slice(const Operator& op);
  // Values [begin, begin + size) of the last dimension of x.
  Result<Value> SliceLast(int x, std::int64_t begin, std::int64_t size);

  // lift_reader_linear.cc: constants, norms, projections, activations.
  bool AllConstant(const Operator& op) const;
  Result<Value> Fold(const Operator& op);
  Result<Value> Norm(const Value& x, int x_id, int weight, float epsilon, std::int64_t width);
  Result<Value> TimesNormWeight(const Value& normalized, int weight);
  // What can be normalized: the residual stream, or a projection as it is.
  bool CanBeNormalized(const Value& value) const;
  Result<Value> Composite(const Operator& op);
  Result<Value> Square(int x) const;
  Result<Value> Mean(const Operator& op) const;
  Result<Value> Root(const Operator& op) const;
  Result<Value> FullyConnected(const Operator& op);
  Value NewLinear(const Value& like, LiftedLinear linear);
  LiftedLinear LinearOf(const Value& linear) const;
  std::int64_t RowsOf(const Value& linear) const;
  // nullopt unless it is a function of a projection. Without the scale.
  std::optional<std::vector<double>> CurveOf(const Value& value) const;
  Result<Value> CurveFunction(const Operator& op);
  Result<Value> CurveSum(const Value& x, const Value& y, double sign);
  Result<Value> CurveProduct(const Value& x, const Value& y);
  Result<Value> MakeCurve(const Value& base, std::vector<double> curve) const;

  // lift_reader_position.cc: numbers that depend on the position.
  static bool IsPositional(const Value& value);
  static bool IsElementwise(formats::tflite::Op op);
  bool AllPositional(const Operator& op) const;
  bool IsBroadcast(const Operator& op) const;
  Result<Value> Elementwise(const Operator& op);
  Result<Operand> OperandOf(int id) const;
  Result<Operand> AsTable(const Operand& operand);
  Result<Value> TableOf(const Operator& op, const std::vector<Operand>& operands);
  Result<Value> AffineOf(const Operator& op, LiftAffine affine) const;
  Result<std::shared_ptr<LiftData>> NewTable(std::int64_t context);
  // The table, or an earlier one that is equal: layers repeat the same masks.
  Result<std::shared_ptr<const LiftData>> Keep(std::shared_ptr<LiftData> table);
  Result<Value> Angles(const Operator& op, const Value& constant, bool divide) const;
  std::optional<std::vector<float>> AnglesOf(const Value& value) const;
  Result<Value> CosOrSin(const Operator& op) const;
  Result<Value> Pack(const Operator& op) const;
  std::optional<Value> AnyNumber(const Operator& op) const;

  // lift_reader_heads.cc: the algebra of rope.
  Result<Value> HeadsOf(int id) const;
  Result<Value> HeadsTimesTrig(const Operator& op, int x, int trig) const;
  Result<Value> HeadsSum(const Operator& op, double sign) const;
  Result<Value> HeadsConcatenation(const Operator& op) const;
  // The table that turned these heads; nothing if none did.
  Result<std::optional<RopeTable>> FindRope(const Value& heads) const;

  // lift_reader_attention.cc
  Result<Value> DynamicUpdateSlice(const Operator& op);
  Result<Value> BatchMatMul(const Operator& op);
  Status SetHeads(std::int64_t kv_heads, std::int64_t group, std::int64_t head_dim,
                  std::int64_t context);
  Result<Value> AddMask(const Operator& op, const Value& scores, int scores_id, const Value& mask,
                        int mask_id);
  Result<Value> SelectScores(const Operator& op);
  Result<Value> Softmax(const Operator& op) const;
  Result<Value> AddToResidual(const Operator& op, const Value& residual, const Value& change);
  Status EndAttention(const Value& residual, const Value& context, const Value& o, int post_norm);
  Status EndFeedForward(const Value& residual, const Value& product, const Value& down,
                        int post_norm);
  Status SetScale(const Value& weights);
  // lift_reader_split.cc
  int AddWritten(int update, int cache, int axis);
  Result<Value> SplitMask(const Operator& op);
  Result<Value> JoinScores(const Operator& op);
  Result<Value> JoinContexts(const Operator& op);
  Result<std::shared_ptr<const LiftData>> JoinMask(const LiftData& mask);
  Result<std::int64_t> WindowOf(const Value& weights) const;
  Result<int> PreNorm(const Value& input, const Value& residual);
  Result<LiftedLinear> HeadLinear(const Value& heads, int* norm);

  // Checks that a fact is the same wherever it is found.
  template <typename T>
  static Status Agree(std::optional<T>& known, const T& found, std::string_view what) {
    if (!known) known = found;
    if (*known != found) return Expected(StrCat("the same ", what, " in every layer"));
    return Status();
  }

  LiftGraph& graph_;
  std::vector<Value> values_;
  std::vector<LiftedLinear> linears_;
  bool has_start_ = false;
  std::set<int> written_;  // caches
  std::vector<std::shared_ptr<const LiftData>> tables_;
  std::int64_t kept_values_left_ = 1 << 25;  // bounds of what a small file can ask for
  std::int64_t table_values_left_ = 1 << 29;

  std::optional<float> epsilon_, embedding_multiplier_, residual_multiplier_;
  std::optional<float> attention_scale_, attention_softcap_;
  std::optional<bool> pre_norm_, post_norm_;
  std::optional<QkNorm> qk_norm_;
  std::optional<Activation> activation_;
};

}  // namespace hone::model
