// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/tflite/largest_tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace hone::formats::tflite {
namespace {

std::optional<std::uint64_t> TensorBytes(const Tensor& tensor) {
  std::uint64_t elements = 1;
  for (const std::int32_t dim : tensor.shape) {
    if (dim < 0) return std::nullopt;
    const auto product = MulChecked(elements, static_cast<std::uint64_t>(dim));
    if (!product) return std::nullopt;
    elements = *product;
  }
  return DataBytes(tensor.type, elements);
}

std::vector<TensorSize> LargestOf(const Subgraph& subgraph, std::size_t count) {
  std::vector<bool> reshaped(subgraph.tensors.size(), false);
  for (const Operator& op : subgraph.operators) {
    if (op.op != Op::kReshape) continue;
    for (const std::int32_t output : op.outputs) reshaped[static_cast<std::size_t>(output)] = true;
  }
  // Names are copied only for what is kept.
  std::vector<std::pair<std::uint64_t, std::size_t>> sizes;
  for (std::size_t i = 0; i < subgraph.tensors.size(); ++i) {
    if (reshaped[i]) continue;
    if (const auto bytes = TensorBytes(subgraph.tensors[i])) sizes.emplace_back(*bytes, i);
  }
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (sizes.size() > count) sizes.resize(count);
  std::vector<TensorSize> out;
  for (const auto& [bytes, index] : sizes) {
    const Tensor& tensor = subgraph.tensors[index];
    out.push_back({.name = tensor.name,
                   .type = tensor.type,
                   .shape = tensor.shape,
                   .bytes = bytes,
                   .constant = tensor.buffer != 0});
  }
  return out;
}

}  // namespace

std::vector<SignatureTensors> LargestTensors(const Model& model, std::size_t count) {
  std::vector<SignatureTensors> out;
  for (const SignatureDef& signature : model.signatures) {
    out.push_back(
        {.key = signature.key, .largest = LargestOf(model.subgraphs[signature.subgraph], count)});
  }
  if (out.empty() && !model.subgraphs.empty()) {
    out.push_back({.key = "", .largest = LargestOf(model.subgraphs[0], count)});
  }
  return out;
}

}  // namespace hone::formats::tflite
