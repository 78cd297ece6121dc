// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// One subgraph of a TFLite model with the look-ups that the lifter's rules need.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/tflite/tflite.h"
#include "model/decoder_spec.h"

namespace hone::model {

class LiftGraph {
 public:
  // The subgraph of a signature. Checks every index that the rules will follow, so that a model
  // that was changed in memory is as safe as one from the reader. model must outlive the result.
  static Result<LiftGraph> Open(const formats::tflite::Model& model, std::string_view signature);

  const formats::tflite::SignatureDef& signature() const { return *signature_; }
  const std::vector<formats::tflite::Operator>& operators() const { return subgraph_->operators; }
  std::size_t num_tensors() const { return subgraph_->tensors.size(); }
  const formats::tflite::Tensor& tensor(int id) const {
    return subgraph_->tensors[static_cast<std::size_t>(id)];
  }

  // Dimensions. None is negative, and their product fits (Open refuses others).
  const std::vector<std::int32_t>& shape(int id) const { return tensor(id).shape; }
  std::int64_t NumElements(int id) const;
  // The last dimension, 1 for a scalar.
  std::int64_t Width(int id) const;

  bool IsConstant(int id) const { return !Data(id).empty(); }
  // Values of a constant of type int32 or float32; nothing otherwise.
  std::optional<std::vector<std::int32_t>> Ints(int id) const;
  std::optional<std::vector<float>> Floats(int id) const;
  // The value of a constant with one float32.
  std::optional<float> Scalar(int id) const;

  // A constant as a weight [rows, cols]. Scale tables that the view needs are appended to
  // keep_alive. Errors say what is wrong with the tensor.
  Result<Weight> MakeWeight(int id, Shape expected,
                            std::vector<std::shared_ptr<const void>>* keep_alive) const;

 private:
  LiftGraph() = default;
  ByteSpan Data(int id) const;
  Status Check() const;

  const formats::tflite::Model* model_ = nullptr;
  const formats::tflite::Subgraph* subgraph_ = nullptr;
  const formats::tflite::SignatureDef* signature_ = nullptr;
};

}  // namespace hone::model
