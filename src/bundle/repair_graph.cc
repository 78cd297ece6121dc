// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/repair_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "bundle/mask_pattern.h"
#include "executor/executor.h"

namespace hone::bundle {
namespace {

namespace tflite = formats::tflite;
using tflite::TensorType;

// Larger constants lie behind the tables.
constexpr std::size_t kEmbeddedBytes = 64;
// Plain loops do about 10^9 products a second.
constexpr double kMaxProducts = 2e10;
constexpr double kTolerance = 1e-6;

// Repeatable numbers in [-1, 1).
class Numbers {
 public:
  explicit Numbers(std::string_view name) {
    for (const char c : name) state_ = state_ * 31 + static_cast<unsigned char>(c);
  }
  float Next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) / 2147483648.0f;
  }

 private:
  std::uint64_t state_ = 1;
};

// Positions count up, ids are small, everything else is arbitrary: also the mask, so that a row
// that meets a wrong row of the mask shows.
executor::Value MakeInput(const std::string& name, const tflite::Tensor& tensor) {
  executor::Value value;
  value.type = tensor.type;
  value.shape = tensor.shape;
  std::uint64_t count = 1;
  for (const std::int32_t dim : tensor.shape) count *= static_cast<std::uint64_t>(std::max(dim, 0));
  Numbers numbers(name);
  if (tensor.type == TensorType::kFloat32) {
    std::vector<float> floats(count);
    for (float& f : floats) f = numbers.Next();
    return executor::MakeFloats(tensor.shape, floats);
  }
  if (tensor.type == TensorType::kInt32) {
    const bool counts_up = name == "input_pos" || name == "positions";
    std::vector<std::int32_t> ints(count);
    for (std::size_t i = 0; i < ints.size(); ++i) {
      ints[i] = counts_up ? static_cast<std::int32_t>(i) : static_cast<std::int32_t>(i % 7);
    }
    return executor::MakeInts(tensor.shape, ints);
  }
  value.data.resize(tflite::DataBytes(tensor.type, count).value_or(0));
  for (std::byte& byte : value.data) {
    const bool high = numbers.Next() > 0;
    // Of fp16 the low byte is any, the high byte is 0x30: about 0.1 to 0.2.
    if (tensor.type == TensorType::kFloat16) {
      byte = static_cast<std::byte>((&byte - value.data.data()) % 2 == 1 ? 0x30 : high ? 0x55 : 2);
    } else {
      byte = static_cast<std::byte>(high ? 1 : 0);
    }
  }
  return value;
}

executor::Values MakeInputs(const tflite::Model& model, const tflite::SignatureDef& signature) {
  executor::Values values;
  for (const auto& [name, tensor] : signature.inputs) {
    values.emplace(name, MakeInput(name, model.subgraphs[signature.subgraph].tensors[tensor]));
  }
  return values;
}

// "" if the outputs agree, else what differs. exact stays true if all bits are equal.
Result<std::string> Compare(const executor::Values& a, const executor::Values& b, bool* exact) {
  if (a.size() != b.size()) return StrCat(a.size(), " outputs became ", b.size());
  for (const auto& [name, value] : a) {
    const auto other = b.find(name);
    if (other == b.end()) return StrCat("the output ", name, " is lost");
    if (value.shape != other->second.shape || value.type != other->second.type) {
      return StrCat("the output ", name, " has another shape");
    }
    if (value.data == other->second.data) continue;
    *exact = false;
    HONE_ASSIGN(const std::vector<float> x, executor::ToFloats(value));
    HONE_ASSIGN(const std::vector<float> y, executor::ToFloats(other->second));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double difference = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
      if (difference <= kTolerance * std::max(1.0, std::abs(static_cast<double>(x[i])))) continue;
      return StrCat("the output ", name, " differs at ", i, ": ", x[i], " became ", y[i]);
    }
  }
  return std::string();
}

std::int64_t Length(const tflite::Model& model, const tflite::SignatureDef& signature) {
  for (const auto& [name, tensor] : signature.inputs) {
    const auto& shape = model.subgraphs[signature.subgraph].tensors[tensor].shape;
    if (name == "input_pos" && !shape.empty()) return shape.back();
    if (name == "embeddings" && shape.size() >= 2) return shape[1];
  }
  return 1;
}

}  // namespace

RewrittenModel RewriteGraph(const tflite::Model& old, const RepairOptions& options,
                            RepairReport& report) {
  RewrittenModel out;
  out.model = old;
  if (options.npu_mask) report.masks_changed += RewriteRepeatedMasks(out.model, out.storage);
  if (options.unused_cache_inputs) report.inputs_removed += RemoveUnusedCacheInputs(out.model);
  return out;
}

Status ProveEqual(const tflite::Model& old, const tflite::Model& rewritten,
                  const RepairOptions& options, RepairReport& report) {
  HONE_ASSIGN(const auto before, executor::Program::Create(old, "the bundle"));
  HONE_ASSIGN(const auto after, executor::Program::Create(rewritten, "the repaired bundle"));
  double weights = 0;
  for (const tflite::Buffer& buffer : old.buffers)
    weights += static_cast<double>(buffer.data.size());
  std::int64_t shortest = INT64_MAX;
  for (const tflite::SignatureDef& signature : old.signatures) {
    if (signature.key != "decode") shortest = std::min(shortest, Length(old, signature));
  }
  for (const tflite::SignatureDef& signature : old.signatures) {
    const std::int64_t length = Length(old, signature);
    const bool must_run = signature.key == "decode" || length == shortest;
    if (!must_run && weights * static_cast<double>(length) > kMaxProducts) {
      report.notes.push_back(StrCat(signature.key,
                                    ": not run, it would take too long; the rewrite "
                                    "is the same as in the others"));
      continue;
    }
    const tflite::SignatureDef* same = rewritten.FindSignature(signature.key);
    if (same == nullptr) return Status(Code::kInternal, StrCat(signature.key, " is lost"));
    HONE_ASSIGN(const auto x,
                before.Run(signature.key, MakeInputs(old, signature), options.cancel));
    HONE_ASSIGN(const auto y,
                after.Run(signature.key, MakeInputs(rewritten, *same), options.cancel));
    bool exact = true;
    HONE_ASSIGN(const std::string difference, Compare(x, y, &exact));
    if (!difference.empty()) {
      return Status(Code::kInternal, StrCat("signature '", signature.key,
                                            "': the rewritten graph computes something else: ",
                                            difference, "; nothing was written"));
    }
    report.proofs.push_back(StrCat(signature.key, ": ", x.size(), " outputs are equal ",
                                   exact ? "bit for bit" : "within 1e-6"));
  }
  return {};
}

Status StreamModel(const tflite::Model& model, const std::function<Status(ByteSpan)>& sink) {
  tflite::Model planned = model;
  for (tflite::Buffer& buffer : planned.buffers) {
    if (buffer.data.size() <= kEmbeddedBytes) continue;
    buffer.deferred_bytes = buffer.data.size();
    buffer.data = {};
  }
  HONE_ASSIGN(const tflite::WritePlan plan, tflite::PlanModel(planned));
  struct Piece {
    std::uint64_t offset;
    ByteSpan bytes;
  };
  std::vector<Piece> pieces;
  for (const auto& [offset, bytes] : plan.extra) pieces.push_back({offset, bytes});
  for (std::size_t i = 0; i < planned.buffers.size(); ++i) {
    if (planned.buffers[i].deferred_bytes == 0) continue;
    pieces.push_back({plan.buffer_offsets[i], model.buffers[i].data});
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  HONE_TRY(sink(plan.head));
  std::uint64_t at = plan.head.size();
  const std::vector<std::byte> zeros(64);
  for (const Piece& piece : pieces) {
    while (at < piece.offset) {
      const std::uint64_t gap = std::min<std::uint64_t>(zeros.size(), piece.offset - at);
      HONE_TRY(sink(ByteSpan(zeros).first(static_cast<std::size_t>(gap))));
      at += gap;
    }
    HONE_TRY(sink(piece.bytes));
    at += piece.bytes.size();
  }
  while (at < plan.total_bytes) {
    const std::uint64_t gap = std::min<std::uint64_t>(zeros.size(), plan.total_bytes - at);
    HONE_TRY(sink(ByteSpan(zeros).first(static_cast<std::size_t>(gap))));
    at += gap;
  }
  return {};
}

}  // namespace hone::bundle
