// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs TFLite graphs with plain loops: slow and right. The twin of the lifter, the test of the
// exporter, and what runs a bundle that cannot be lifted. No fast paths here.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/litertlm/litertlm.h"
#include "formats/tflite/tflite.h"

namespace hone::executor {

// A tensor in memory, row-major. Little-endian values of the type.
struct Value {
  formats::tflite::TensorType type = formats::tflite::TensorType::kFloat32;
  std::vector<std::int32_t> shape;
  std::vector<std::byte> data;
};
Value MakeFloats(std::vector<std::int32_t> shape, std::span<const float> values);
Value MakeInts(std::vector<std::int32_t> shape, std::span<const std::int32_t> values);
// Float32, float16 or bool as float32; kUnsupported for other types.
Result<std::vector<float>> ToFloats(const Value& value);

using Values = std::map<std::string, Value, std::less<>>;

// Bounds of a program.
struct ProgramOptions {
  // Of the tensors that live at one time. Also bounded by the file: 256 MiB and 64 times its data.
  std::uint64_t max_bytes = 4ULL << 30;
  // Multiplications and moves of one run. Also bounded by the file: 1e11 and 1e5 a byte of data.
  double max_work = 1e15;
};

class Plan;  // checked operators, in order

// A parsed model that can be run. Thread-safe: Run keeps its state to itself.
class Program {
 public:
  // Checks every operator of every signature: one that cannot be run is kUnsupported, with
  // subgraph, operator index and name. model and its bytes must outlive the program. label begins
  // messages.
  static Result<Program> Create(const formats::tflite::Model& model, std::string label,
                                const ProgramOptions& options = {});

  // inputs by signature name: each with the type and shape that the signature has. Returns the
  // outputs by signature name. cancel is polled between operators.
  Result<Values> Run(std::string_view signature, const Values& inputs,
                     const std::atomic<bool>* cancel = nullptr) const;

  const formats::tflite::Model& model() const { return *model_; }

 private:
  const formats::tflite::Model* model_ = nullptr;
  std::string label_;
  std::shared_ptr<const Plan> plan_;
};

// Runs a bundle as LiteRT-LM does: embedder, masks, caches, the auxiliary model of a split cache.
class BundleRunner {
 public:
  static Result<std::unique_ptr<BundleRunner>> Open(
      std::shared_ptr<const formats::litertlm::Bundle> bundle);
  virtual ~BundleRunner() = default;

  virtual std::int64_t context() const = 0;  // positions of the cache
  virtual std::int64_t vocab() const = 0;
  virtual std::int64_t size() const = 0;         // tokens held
  virtual void Truncate(std::int64_t size) = 0;  // forgets the tokens from there on
  // Lengths of the prefill signatures, longest first.
  virtual const std::vector<std::int64_t>& prefill_lengths() const = 0;

  // Appends one token by the decode signature; its logits [vocab].
  virtual Result<std::vector<float>> Decode(std::int32_t id, const std::atomic<bool>* cancel) = 0;
  // Appends ids (at most length of them) by the prefill signature of that length, padded as
  // LiteRT-LM pads. No logits.
  virtual Status Prefill(std::int64_t length, std::span<const std::int32_t> ids,
                         const std::atomic<bool>* cancel) = 0;
};

}  // namespace hone::executor
