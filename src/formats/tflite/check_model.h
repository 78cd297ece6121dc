// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The semantic checks that reader and writer share.
#pragma once

#include "base/status.h"
#include "formats/tflite/tflite.h"

namespace hone::formats::tflite {

struct CheckOptions {
  Code code = Code::kDataLoss;  // of every error
  bool for_writing = false;     // also what TFLite itself demands of quantization
};

// Every index in range, shapes sound, constants of the size that shape and type need, scale counts,
// composites with as many operands as their bodies and without cycles.
Status CheckModel(const Model& model, const CheckOptions& options);

// "subgraph 3 (decode)", "tensor 7 (w)", "operator 4 (ADD)".
std::string SubgraphText(std::size_t index, const std::string& name);
std::string TensorText(std::size_t index, const std::string& name);
std::string OperatorText(std::size_t index, Op op);

}  // namespace hone::formats::tflite
