// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The graphs that Hone exports, as data: what a TFLite file says, without its bookkeeping. See
// docs/formats/graph.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/decoder_spec.h"
#include "quant/quantize.h"

namespace hone::graph {

enum class OpKind : std::uint8_t {
  kAdd,
  kBatchMatMul,
  kCast,  // to the type of the output
  kComposite,
  kConcatenation,
  kCos,
  kDynamicUpdateSlice,
  kEmbeddingLookup,
  kFullyConnected,
  kGelu,
  kLogistic,
  kMaximum,
  kMean,
  kMinimum,
  kMul,
  kPack,
  kReshape,
  kRsqrt,
  kSin,
  kSlice,
  kSoftmax,
  kSub,
  kTanh,
  kTranspose,
};
const char* OpKindName(OpKind kind);  // "ADD"

enum class ElementType : std::uint8_t {
  kFloat32,
  kFloat16,  // computed only, never constant
  kInt32,
  kWeight,  // stored as the scheme of the constant says
};

// A tensor of the model and how it is stored.
struct WeightSource {
  model::Role role;
  std::int64_t layer;  // -1 for embedding, head and final norm
  quant::Scheme scheme;
  bool operator==(const WeightSource&) const = default;
};

// Constant data, shared by every tensor of every subgraph that names it: bytes or a weight.
struct Constant {
  std::vector<std::byte> bytes;
  std::optional<WeightSource> weight;
};

using TensorId = std::int32_t;  // index into Subgraph::tensors
inline constexpr TensorId kNoTensor = -1;
inline constexpr std::int32_t kNoConstant = -1;

using Shape = std::vector<std::int32_t>;

struct Tensor {
  std::string name;
  Shape shape;
  ElementType type = ElementType::kFloat32;
  std::int32_t constant = kNoConstant;  // index into Graph::constants
};

// Every operation has one output.
struct Operation {
  OpKind kind = OpKind::kAdd;
  std::vector<TensorId> inputs;  // kNoTensor: an optional input that is absent
  TensorId output = kNoTensor;
  std::int32_t axis = 0;           // kConcatenation
  std::int32_t decomposition = 0;  // kComposite: the subgraph that computes the same
  float epsilon = 0;               // kComposite
  bool approximate = false;        // kGelu: by tanh, else by erf
};

struct Subgraph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<TensorId> inputs, outputs;
  std::vector<Operation> operations;  // each after those whose results it reads
};

// How a caller names inputs and outputs; sorted by name.
struct Signature {
  std::string key;
  std::int32_t subgraph = 0;
  std::vector<std::pair<std::string, TensorId>> inputs, outputs;
};

struct Graph {
  std::vector<Constant> constants;
  std::vector<Subgraph> subgraphs;
  std::vector<Signature> signatures;
  const Signature* FindSignature(std::string_view key) const;
};

// What every operation promises: inputs defined before use, indices in range, shapes that agree.
// A builder that breaks it has a bug: kInternal, naming subgraph and operation.
Status Verify(const Graph& graph);

}  // namespace hone::graph
