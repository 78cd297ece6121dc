// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How large the tensors of a graph are: what decides whether a GPU that limits a buffer's size can
// take it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir.h"

namespace hone::graph {

struct TensorSize {
  std::string signature;  // "prefill_1024"
  std::string name;
  Shape shape;
  std::uint64_t bytes = 0;  // as stored: a float takes 4 bytes, a weight what its scheme takes
  bool constant = false;
};

// The count largest tensors of each signature, largest first, in the order of the signatures. A
// RESHAPE's result is its input and is left out. The same rules as formats/tflite/largest_tensors.h
// for the file that comes of the graph.
std::vector<TensorSize> LargestTensors(const Graph& graph, std::size_t count);

}  // namespace hone::graph
