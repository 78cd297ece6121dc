// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/largest_tensors.h"

#include <algorithm>

#include "codec/weight.h"

namespace hone::graph {
namespace {

std::uint64_t NumElements(const Shape& shape) {
  std::uint64_t n = 1;
  for (const std::int32_t d : shape) n *= static_cast<std::uint64_t>(d);
  return n;
}

std::uint64_t Bytes(const Graph& graph, const Tensor& tensor) {
  if (tensor.type == ElementType::kFloat16) return 2 * NumElements(tensor.shape);
  if (tensor.type != ElementType::kWeight) return 4 * NumElements(tensor.shape);
  const WeightSource& source = *graph.constants[static_cast<std::size_t>(tensor.constant)].weight;
  const std::int64_t cols = tensor.shape.back();
  const std::int64_t rows =
      static_cast<std::int64_t>(NumElements(tensor.shape)) / std::max<std::int64_t>(1, cols);
  return codec::CodesBytes(source.scheme.type, rows, cols);
}

}  // namespace

std::vector<TensorSize> LargestTensors(const Graph& graph, std::size_t count) {
  std::vector<TensorSize> out;
  for (const Signature& signature : graph.signatures) {
    const Subgraph& subgraph = graph.subgraphs[static_cast<std::size_t>(signature.subgraph)];
    std::vector<bool> reshaped(subgraph.tensors.size(), false);
    for (const Operation& op : subgraph.operations) {
      if (op.kind == OpKind::kReshape) reshaped[static_cast<std::size_t>(op.output)] = true;
    }
    std::vector<TensorSize> sizes;
    for (std::size_t i = 0; i < subgraph.tensors.size(); ++i) {
      const Tensor& tensor = subgraph.tensors[i];
      if (reshaped[i]) continue;
      sizes.push_back({.signature = signature.key,
                       .name = tensor.name,
                       .shape = tensor.shape,
                       .bytes = Bytes(graph, tensor),
                       .constant = tensor.constant != kNoConstant});
    }
    std::stable_sort(sizes.begin(), sizes.end(),
                     [](const TensorSize& a, const TensorSize& b) { return a.bytes > b.bytes; });
    if (sizes.size() > count) sizes.resize(count);
    out.insert(out.end(), sizes.begin(), sizes.end());
  }
  return out;
}

}  // namespace hone::graph
