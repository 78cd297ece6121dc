// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/subgraph_builder.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace hone::graph {
namespace {

template <typename T>
std::vector<std::byte> ToBytes(std::span<const T> values) {
  std::vector<std::byte> bytes(values.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Aligned at the last axis; an axis of length 1, or a missing one, stretches.
Shape BroadcastShape(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int32_t da = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int32_t db = i < b.size() ? b[b.size() - 1 - i] : 1;
    HONE_CHECK(da == db || da == 1 || db == 1);
    out[out.size() - 1 - i] = da == 1 ? db : da;
  }
  return out;
}

std::string ShapeText(const Shape& shape) {
  std::string text;
  for (const std::int32_t n : shape) text += (text.empty() ? "" : "x") + std::to_string(n);
  return text.empty() ? "scalar" : text;
}

}  // namespace

std::int32_t ConstantPool::Bytes(std::vector<std::byte> bytes) {
  const auto next = static_cast<std::int32_t>(graph_.constants.size());
  const auto [it, added] = by_bytes_.try_emplace(std::move(bytes), next);
  if (added) graph_.constants.push_back({.bytes = it->first, .weight = std::nullopt});
  return it->second;
}

std::int32_t ConstantPool::Weight(const WeightSource& source) {
  const auto next = static_cast<std::int32_t>(graph_.constants.size());
  const auto [it, added] = by_weight_.try_emplace({source.role, source.layer}, next);
  if (added) graph_.constants.push_back({.bytes = {}, .weight = source});
  return it->second;
}

SubgraphBuilder::SubgraphBuilder(Graph& graph, ConstantPool& pool, std::string name)
    : graph_(graph), pool_(pool), index_(static_cast<std::int32_t>(graph.subgraphs.size())) {
  graph_.subgraphs.push_back(
      {.name = std::move(name), .tensors = {}, .inputs = {}, .outputs = {}, .operations = {}});
}

const Shape& SubgraphBuilder::shape(TensorId value) const {
  return subgraph().tensors[static_cast<std::size_t>(value)].shape;
}

std::string SubgraphBuilder::UniqueName(std::string_view leaf) {
  std::string name = scope_.empty() ? std::string(leaf) : scope_ + "." + std::string(leaf);
  const int uses = used_names_[name]++;
  return uses == 0 ? name : name + "_" + std::to_string(uses);
}

TensorId SubgraphBuilder::NewTensor(std::string name, Shape shape, ElementType type,
                                    std::int32_t constant) {
  subgraph().tensors.push_back(
      {.name = std::move(name), .shape = std::move(shape), .type = type, .constant = constant});
  return static_cast<TensorId>(subgraph().tensors.size()) - 1;
}

TensorId SubgraphBuilder::ConstantTensor(std::string name, Shape shape, ElementType type,
                                         std::int32_t constant) {
  const std::tuple key{constant, type, shape};
  const auto found = constant_tensors_.find(key);
  if (found != constant_tensors_.end()) return found->second;
  const TensorId id = NewTensor(std::move(name), std::move(shape), type, constant);
  constant_tensors_[key] = id;
  return id;
}

TensorId SubgraphBuilder::Input(std::string name, Shape shape, ElementType type) {
  const TensorId id = NewTensor(std::move(name), std::move(shape), type, kNoConstant);
  subgraph().inputs.push_back(id);
  return id;
}

void SubgraphBuilder::Rename(TensorId value, std::string name) {
  subgraph().tensors[static_cast<std::size_t>(value)].name = std::move(name);
}

TensorId SubgraphBuilder::Weight(std::string name, Shape shape, const WeightSource& source) {
  return ConstantTensor(std::move(name), std::move(shape), ElementType::kWeight,
                        pool_.Weight(source));
}

TensorId SubgraphBuilder::Scalar(float value) { return Floats({&value, 1}, {}); }

TensorId SubgraphBuilder::Scalar(std::int32_t value) {
  return ConstantTensor("const.i32." + std::to_string(value), {}, ElementType::kInt32,
                        pool_.Bytes(ToBytes<std::int32_t>({&value, 1})));
}

TensorId SubgraphBuilder::Floats(std::span<const float> v, Shape shape) {
  const std::int32_t constant = pool_.Bytes(ToBytes<float>(v));
  std::string name = "const.f32." + ShapeText(shape) + "." + std::to_string(constant);
  return ConstantTensor(std::move(name), std::move(shape), ElementType::kFloat32, constant);
}

TensorId SubgraphBuilder::Ints(const Shape& v) {
  return ConstantTensor("const.i32x." + ShapeText(v), {static_cast<std::int32_t>(v.size())},
                        ElementType::kInt32, pool_.Bytes(ToBytes<std::int32_t>(v)));
}

TensorId SubgraphBuilder::Append(OpKind kind, std::vector<TensorId> inputs, Shape shape,
                                 ElementType type, std::string_view name) {
  const TensorId output = NewTensor(UniqueName(name), std::move(shape), type, kNoConstant);
  subgraph().operations.push_back({.kind = kind, .inputs = std::move(inputs), .output = output});
  return output;
}

TensorId SubgraphBuilder::Unary(OpKind kind, TensorId x, std::string_view name) {
  return Append(kind, {x}, shape(x), ElementType::kFloat32, name);
}

TensorId SubgraphBuilder::Binary(OpKind kind, TensorId a, TensorId b, std::string_view name) {
  const ElementType type = subgraph().tensors[static_cast<std::size_t>(a)].type;
  return Append(kind, {a, b}, BroadcastShape(shape(a), shape(b)), type, name);
}

TensorId SubgraphBuilder::Add(TensorId a, TensorId b, std::string_view name) {
  return Binary(OpKind::kAdd, a, b, name);
}

TensorId SubgraphBuilder::Mul(TensorId a, TensorId b, std::string_view name) {
  return Binary(OpKind::kMul, a, b, name);
}

TensorId SubgraphBuilder::Sub(TensorId a, TensorId b, std::string_view name) {
  return Binary(OpKind::kSub, a, b, name);
}

TensorId SubgraphBuilder::Maximum(TensorId a, TensorId b, std::string_view name) {
  return Binary(OpKind::kMaximum, a, b, name);
}

TensorId SubgraphBuilder::Minimum(TensorId a, TensorId b, std::string_view name) {
  return Binary(OpKind::kMinimum, a, b, name);
}

TensorId SubgraphBuilder::Gelu(TensorId x, bool approximate) {
  const TensorId out = Unary(OpKind::kGelu, x, "gelu");
  LastOperation().approximate = approximate;
  return out;
}

TensorId SubgraphBuilder::Cast(TensorId x, ElementType type) {
  return Append(OpKind::kCast, {x}, shape(x), type, "cast");
}

TensorId SubgraphBuilder::Reshape(TensorId x, const Shape& to) {
  const ElementType type = subgraph().tensors[static_cast<std::size_t>(x)].type;
  return Append(OpKind::kReshape, {x, Ints(to)}, to, type, "reshape");
}

TensorId SubgraphBuilder::Transpose(TensorId x, const Shape& permutation) {
  Shape out;
  for (const std::int32_t axis : permutation)
    out.push_back(shape(x)[static_cast<std::size_t>(axis)]);
  return Append(OpKind::kTranspose, {x, Ints(permutation)}, std::move(out), ElementType::kFloat32,
                "transpose");
}

TensorId SubgraphBuilder::Slice(TensorId x, const Shape& begin, const Shape& size) {
  const ElementType type = subgraph().tensors[static_cast<std::size_t>(x)].type;
  return Append(OpKind::kSlice, {x, Ints(begin), Ints(size)}, size, type, "slice");
}

TensorId SubgraphBuilder::Concat(const std::vector<TensorId>& parts, std::int32_t axis) {
  Shape out = shape(parts.front());
  std::int32_t& length = out[static_cast<std::size_t>(axis)];
  length = 0;
  for (const TensorId part : parts) length += shape(part)[static_cast<std::size_t>(axis)];
  const TensorId result =
      Append(OpKind::kConcatenation, parts, std::move(out), ElementType::kFloat32, "concat");
  LastOperation().axis = axis;
  return result;
}

TensorId SubgraphBuilder::Pack(const std::vector<TensorId>& scalars) {
  return Append(OpKind::kPack, scalars, {static_cast<std::int32_t>(scalars.size())},
                ElementType::kInt32, "pack");
}

TensorId SubgraphBuilder::MeanOfLastAxis(TensorId x) {
  Shape out = shape(x);
  out.back() = 1;
  const auto axis = static_cast<std::int32_t>(out.size()) - 1;
  return Append(OpKind::kMean, {x, Ints({axis})}, std::move(out), ElementType::kFloat32, "mean");
}

TensorId SubgraphBuilder::FullyConnected(TensorId x, TensorId w, TensorId bias,
                                         std::string_view name) {
  Shape out = shape(x);
  HONE_CHECK(out.back() == shape(w)[1]);
  out.back() = shape(w)[0];
  return Append(OpKind::kFullyConnected, {x, w, bias}, std::move(out), ElementType::kFloat32, name);
}

TensorId SubgraphBuilder::MatMulTransposed(TensorId a, TensorId b, std::string_view name) {
  Shape out = shape(a);
  const Shape& sb = shape(b);
  HONE_CHECK(out.back() == sb.back());
  out.back() = sb[sb.size() - 2];
  return Append(OpKind::kBatchMatMul, {a, b}, std::move(out), ElementType::kFloat32, name);
}

TensorId SubgraphBuilder::DynamicUpdateSlice(TensorId x, TensorId update, TensorId start) {
  const ElementType type = subgraph().tensors[static_cast<std::size_t>(x)].type;
  return Append(OpKind::kDynamicUpdateSlice, {x, update, start}, shape(x), type, "updated");
}

TensorId SubgraphBuilder::EmbeddingLookup(TensorId ids, TensorId table) {
  return Append(OpKind::kEmbeddingLookup, {ids, table}, {shape(ids)[0], shape(table)[1]},
                ElementType::kFloat32, "lookup");
}

TensorId SubgraphBuilder::RmsNormComposite(TensorId x, TensorId weight, float epsilon,
                                           std::int32_t decomposition, std::string_view name) {
  const TensorId out =
      Append(OpKind::kComposite, {x, weight}, shape(x), ElementType::kFloat32, name);
  LastOperation().decomposition = decomposition;
  LastOperation().epsilon = epsilon;
  return out;
}

}  // namespace hone::graph
