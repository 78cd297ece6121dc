// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Appends operations to one subgraph of a graph. Each call works out the result's shape, so that a
// graph reads like the formula it computes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/ir.h"

namespace hone::graph {

// Finds equal constants again, so that each is stored once for all subgraphs.
class ConstantPool {
 public:
  explicit ConstantPool(Graph& graph) : graph_(graph) {}
  std::int32_t Bytes(std::vector<std::byte> bytes);
  std::int32_t Weight(const WeightSource& source);

 private:
  Graph& graph_;
  std::map<std::vector<std::byte>, std::int32_t> by_bytes_;
  std::map<std::pair<model::Role, std::int64_t>, std::int32_t> by_weight_;
};

class SubgraphBuilder {
 public:
  // Appends an empty subgraph. graph and pool must outlive the builder; other builders may append
  // subgraphs meanwhile.
  SubgraphBuilder(Graph& graph, ConstantPool& pool, std::string name);

  // Prefix of the names of the tensors that follow, such as "layers.3.self_attn".
  void SetScope(std::string scope) { scope_ = std::move(scope); }

  TensorId Input(std::string name, Shape shape, ElementType type);
  void Output(TensorId value) { subgraph().outputs.push_back(value); }
  void Rename(TensorId value, std::string name);

  TensorId Weight(std::string name, Shape shape, const WeightSource& source);
  TensorId Scalar(float value);                            // []
  TensorId Scalar(std::int32_t value);                     // []
  TensorId Floats(std::span<const float> v, Shape shape);  // row major
  TensorId Ints(const Shape& v);                           // [v.size()]

  // Elementwise with broadcasting from the last axis.
  TensorId Add(TensorId a, TensorId b, std::string_view name = "add");
  TensorId Mul(TensorId a, TensorId b, std::string_view name = "mul");
  TensorId Sub(TensorId a, TensorId b, std::string_view name = "sub");
  TensorId Maximum(TensorId a, TensorId b, std::string_view name = "maximum");
  TensorId Minimum(TensorId a, TensorId b, std::string_view name = "minimum");
  TensorId Cos(TensorId x) { return Unary(OpKind::kCos, x, "cos"); }
  TensorId Sin(TensorId x) { return Unary(OpKind::kSin, x, "sin"); }
  TensorId Rsqrt(TensorId x) { return Unary(OpKind::kRsqrt, x, "rsqrt"); }
  TensorId Logistic(TensorId x) { return Unary(OpKind::kLogistic, x, "sigmoid"); }
  TensorId Tanh(TensorId x) { return Unary(OpKind::kTanh, x, "tanh"); }
  TensorId Gelu(TensorId x, bool approximate);
  TensorId Softmax(TensorId x) { return Unary(OpKind::kSoftmax, x, "probs"); }  // last axis
  TensorId Cast(TensorId x, ElementType type);
  TensorId CastToFloat(TensorId x) { return Cast(x, ElementType::kFloat32); }

  TensorId Reshape(TensorId x, const Shape& shape);
  TensorId Transpose(TensorId x, const Shape& permutation);
  TensorId Slice(TensorId x, const Shape& begin, const Shape& size);
  TensorId Concat(const std::vector<TensorId>& parts, std::int32_t axis);
  TensorId Pack(const std::vector<TensorId>& scalars);  // [n]
  TensorId MeanOfLastAxis(TensorId x);                  // keeps the axis with length 1

  // x [..., k], w [n, k], bias [n] or kNoTensor -> [..., n].
  TensorId FullyConnected(TensorId x, TensorId w, TensorId bias, std::string_view name);
  // a [.., m, k], b [.., n, k] -> [.., m, n].
  TensorId MatMulTransposed(TensorId a, TensorId b, std::string_view name);
  // x with update written over it from index start [rank] on.
  TensorId DynamicUpdateSlice(TensorId x, TensorId update, TensorId start);
  // table [rows, n], ids [m] -> [m, n].
  TensorId EmbeddingLookup(TensorId ids, TensorId table);
  // A named whole, x and weight in, the shape of x out, that subgraph decomposition computes too.
  TensorId RmsNormComposite(TensorId x, TensorId weight, float epsilon, std::int32_t decomposition,
                            std::string_view name);

  const Shape& shape(TensorId value) const;
  std::int32_t index() const { return index_; }

 private:
  Subgraph& subgraph() { return graph_.subgraphs[static_cast<std::size_t>(index_)]; }
  const Subgraph& subgraph() const { return graph_.subgraphs[static_cast<std::size_t>(index_)]; }
  TensorId NewTensor(std::string name, Shape shape, ElementType type, std::int32_t constant);
  TensorId ConstantTensor(std::string name, Shape shape, ElementType type, std::int32_t constant);
  TensorId Append(OpKind kind, std::vector<TensorId> inputs, Shape shape, ElementType type,
                  std::string_view name);
  Operation& LastOperation() { return subgraph().operations.back(); }
  TensorId Unary(OpKind kind, TensorId x, std::string_view name);
  TensorId Binary(OpKind kind, TensorId a, TensorId b, std::string_view name);
  std::string UniqueName(std::string_view leaf);

  Graph& graph_;
  ConstantPool& pool_;
  std::int32_t index_;
  std::string scope_;
  std::map<std::string, int, std::less<>> used_names_;
  // By constant, type (0 is the same bytes as an integer and as a float) and shape.
  std::map<std::tuple<std::int32_t, ElementType, Shape>, TensorId> constant_tensors_;
};

}  // namespace hone::graph
