// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// One subgraph of a TFLite model with the look-ups that the lifter's rules need. Composites are
// replaced by the operators of their bodies; odml.rms_norm stays, because its rule knows it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/tflite/tflite.h"
#include "model/decoder_spec.h"

namespace hone::model {

// Rows [begin, begin + count) of a tensor; count -1: all of them.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t count = -1;
};

class LiftGraph {
 public:
  // The subgraph of a signature. Checks every index that the rules will follow, so that a model
  // that was changed in memory is as safe as one from the reader. model must outlive the result.
  static Result<LiftGraph> Open(const formats::tflite::Model& model, std::string_view signature);

  const formats::tflite::SignatureDef& signature() const { return *signature_; }
  const std::vector<formats::tflite::Operator>& operators() const { return operators_; }
  // "operator 7 MUL", "operator 7 STABLEHLO_COMPOSITE odml.rope: operator 2 MUL".
  std::string OperatorText(std::size_t index) const;
  std::size_t num_tensors() const { return tensors_.size(); }
  const formats::tflite::Tensor& tensor(int id) const {
    return tensors_[static_cast<std::size_t>(id)];
  }

  // Dimensions. None is negative, and their product fits (Open refuses others).
  const std::vector<std::int32_t>& shape(int id) const { return tensor(id).shape; }
  std::int64_t NumElements(int id) const;
  // The last dimension, 1 for a scalar.
  std::int64_t Width(int id) const;

  bool IsConstant(int id) const { return !Data(id).empty() || folded_.contains(id); }
  // Values of a constant of type int32 (or int64 in its range); float32, float16 or worked out;
  // bool. Nothing otherwise.
  std::optional<std::vector<std::int32_t>> Ints(int id) const;
  std::optional<std::vector<float>> Floats(int id) const;
  std::optional<std::vector<std::uint8_t>> Bools(int id) const;
  // The value of a constant with one float.
  std::optional<float> Scalar(int id) const;
  // Any of the three as numbers.
  std::optional<std::vector<double>> Numbers(int id) const;
  // Makes a tensor a constant with these values, which were worked out from other constants.
  void SetFloats(int id, std::vector<float> values);

  // A constant as a weight [rows, cols]. Scale tables that the view needs are appended to
  // keep_alive. Errors say what is wrong with the tensor.
  Result<Weight> MakeWeight(int id, RowRange rows, Shape expected,
                            std::vector<std::shared_ptr<const void>>* keep_alive) const;

 private:
  LiftGraph() = default;
  ByteSpan Data(int id) const;
  Status Check(const formats::tflite::Subgraph& subgraph) const;
  Status AddOperators(const formats::tflite::Subgraph& subgraph, const std::vector<int>& ids,
                      const std::string& where, int depth);
  Status Inline(const formats::tflite::Operator& composite, const std::string& where, int depth);
  Result<codec::WeightView> MakeView(int id, codec::WeightType type,
                                     std::vector<std::shared_ptr<const void>>* keep_alive) const;

  const formats::tflite::Model* model_ = nullptr;
  const formats::tflite::SignatureDef* signature_ = nullptr;
  std::vector<formats::tflite::Tensor> tensors_;
  std::vector<formats::tflite::Operator> operators_;
  std::vector<std::string> places_;  // [operators]
  std::map<int, std::shared_ptr<const std::vector<float>>> folded_;
};

}  // namespace hone::model
