// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How large the buffers are that a runtime must hold for a model: what decides whether a GPU that
// limits a buffer's size can take it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/tflite/tflite.h"

namespace hone::formats::tflite {

struct TensorSize {
  std::string name;
  TensorType type = TensorType::kFloat32;
  std::vector<std::int32_t> shape;
  std::uint64_t bytes = 0;
  bool constant = false;  // a weight or another constant, else computed or an input
};

struct SignatureTensors {
  std::string key;                  // "prefill_1024"; empty for a model without signatures
  std::vector<TensorSize> largest;  // largest first; equal sizes in the order of the file
};

// The count largest tensors of each signature's subgraph, in the order of the signatures. The
// result of a RESHAPE is its input and is left out, as are shapes that are not fixed and types
// without a fixed size. Block scales are tensors of their own.
std::vector<SignatureTensors> LargestTensors(const Model& model, std::size_t count);

}  // namespace hone::formats::tflite
