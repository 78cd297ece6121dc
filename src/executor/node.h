// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What an operator sees: its tensors with sound shapes, its options, and at run time their bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/float16.h"
#include "base/status.h"
#include "formats/tflite/tflite.h"

namespace hone::executor {

using formats::tflite::Op;
using formats::tflite::Operator;
using formats::tflite::OpOptions;
using formats::tflite::Quantization;
using formats::tflite::Tensor;
using formats::tflite::TensorType;

using Dims = std::vector<std::int64_t>;

// More dimensions than this are refused, so that loops over them stay short.
inline constexpr std::size_t kMaxRank = 8;

// A float16 number in memory. Arithmetic goes through float32.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(FloatToFp16(value)) {}
  explicit operator float() const { return Fp16ToFloat(bits); }
};
static_assert(sizeof(Half) == 2);

// A tensor of a subgraph: every dimension is known and at least 0, the bytes fit in memory.
struct TensorInfo {
  const Tensor* tensor = nullptr;
  TensorType type = TensorType::kFloat32;
  Dims shape;
  std::int64_t count = 0;  // of elements
  std::uint64_t bytes = 0;
  // Aligned for the type. Null: computed by Run. Tensors without elements count as constants.
  const std::byte* constant = nullptr;
  bool is_constant = false;
  const TensorInfo* scales = nullptr;  // of a blockwise tensor: constants

  std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
};

// An operator whose tensors exist. A null input is an optional one that is absent.
struct Node {
  const Operator* op = nullptr;
  std::vector<const TensorInfo*> in, out;

  const OpOptions& options() const { return op->options; }
  bool Has(std::size_t i) const { return i < in.size() && in[i] != nullptr; }
};

// One run of an operator. The bytes have the sizes of the node's tensors.
struct Call {
  const Node& node;
  std::span<const std::byte* const> in;
  std::span<std::byte* const> out;

  template <typename T>
  const T* In(std::size_t i) const {
    return reinterpret_cast<const T*>(in[i]);
  }
  template <typename T>
  T* Out(std::size_t i) const {
    return reinterpret_cast<T*>(out[i]);
  }
};

// Says whether the operator can run; then Run cannot leave its tensors, whatever they hold.
using CheckFn = Status (*)(const Node& node);
// Errors are for values that only a run knows, such as a row that a table does not have.
using RunFn = Status (*)(const Call& call);
// Multiplications or moves of one run. Null: as many as elements go in and out.
using WorkFn = double (*)(const Node& node);

inline constexpr int kAny = -1;

struct OpFacts {
  Op op;
  int min_inputs, max_inputs;  // the first min_inputs are never absent
  int outputs;                 // or kAny: one and more
  CheckFn check;
  RunFn run;
  WorkFn work = nullptr;
};

// Null for an operator that cannot be run.
const OpFacts* FindOpFacts(Op op);

// The parts of the table, by file.
std::span<const OpFacts> ElementwiseOps();
std::span<const OpFacts> ConvertOps();
std::span<const OpFacts> LinearOps();
std::span<const OpFacts> ReduceOps();
std::span<const OpFacts> ShapeOps();
std::span<const OpFacts> IndexOps();

}  // namespace hone::executor
