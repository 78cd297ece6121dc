// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lift_graph.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace hone::model {
namespace {

using formats::tflite::Quantization;
using formats::tflite::Tensor;
using formats::tflite::TensorType;

// Copies a constant's bytes as values of T; nothing if the count is not the tensor's.
template <typename T>
std::optional<std::vector<T>> Values(ByteSpan data, std::int64_t count) {
  if (data.size() != static_cast<std::uint64_t>(count) * sizeof(T)) return std::nullopt;
  std::vector<T> out(static_cast<std::size_t>(count));
  if (!data.empty()) std::memcpy(out.data(), data.data(), data.size());
  return out;
}

bool AllZero(const std::vector<std::int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v == 0; });
}

std::string ShapeText(const std::vector<std::int32_t>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += StrCat(i == 0 ? "" : ", ", shape[i]);
  return out + "]";
}

}  // namespace

Result<LiftGraph> LiftGraph::Open(const formats::tflite::Model& model, std::string_view signature) {
  LiftGraph graph;
  graph.model_ = &model;
  graph.signature_ = model.FindSignature(signature);
  if (graph.signature_ == nullptr) {
    return Status(Code::kUnsupported, StrCat("there is no signature ", signature));
  }
  if (graph.signature_->subgraph >= model.subgraphs.size()) {
    return Status(Code::kDataLoss,
                  StrCat("signature ", signature, " names subgraph ", graph.signature_->subgraph,
                         " of ", model.subgraphs.size()));
  }
  graph.subgraph_ = &model.subgraphs[graph.signature_->subgraph];
  HONE_TRY(graph.Check().Context(StrCat("signature ", signature)));
  return graph;
}

Status LiftGraph::Check() const {
  const auto count = static_cast<std::int64_t>(num_tensors());
  const auto valid = [&](std::int64_t id) { return id >= 0 && id < count; };
  for (std::int64_t id = 0; id < count; ++id) {
    const Tensor& t = tensor(static_cast<int>(id));
    if (t.buffer >= model_->buffers.size()) {
      return Status(Code::kDataLoss, StrCat("tensor ", id, " names buffer ", t.buffer, " of ",
                                            model_->buffers.size()));
    }
    if (t.quantization.scales_tensor && !valid(*t.quantization.scales_tensor)) {
      return Status(Code::kDataLoss, StrCat("tensor ", id,
                                            " names a scales tensor that is not "
                                            "there"));
    }
    std::uint64_t elements = 1;
    for (const std::int32_t dim : t.shape) {
      const auto product = MulChecked(elements, static_cast<std::uint64_t>(std::max(dim, 0)));
      if (dim < 0 || !product || *product > (std::uint64_t{1} << 48)) {
        return Status(Code::kUnsupported, StrCat("tensor ", id, " has shape ", ShapeText(t.shape)));
      }
      elements = *product;
    }
  }
  for (std::size_t i = 0; i < operators().size(); ++i) {
    const auto& op = operators()[i];
    const bool inputs_valid = std::all_of(op.inputs.begin(), op.inputs.end(),
                                          [&](std::int32_t id) { return id == -1 || valid(id); });
    if (!inputs_valid || !std::all_of(op.outputs.begin(), op.outputs.end(), valid)) {
      return Status(Code::kDataLoss, StrCat("operator ", i, " names a tensor that is not there"));
    }
  }
  for (const auto* list : {&signature_->inputs, &signature_->outputs}) {
    for (const auto& [name, id] : *list) {
      if (!valid(id)) {
        return Status(Code::kDataLoss, StrCat(name, " names a tensor that is not there"));
      }
    }
  }
  return Status();
}

std::int64_t LiftGraph::NumElements(int id) const {
  std::int64_t out = 1;
  for (const std::int32_t dim : shape(id)) out *= dim;
  return out;
}

std::int64_t LiftGraph::Width(int id) const { return shape(id).empty() ? 1 : shape(id).back(); }

ByteSpan LiftGraph::Data(int id) const { return model_->buffers[tensor(id).buffer].data; }

std::optional<std::vector<std::int32_t>> LiftGraph::Ints(int id) const {
  if (tensor(id).type != TensorType::kInt32) return std::nullopt;
  return Values<std::int32_t>(Data(id), NumElements(id));
}

std::optional<std::vector<float>> LiftGraph::Floats(int id) const {
  if (tensor(id).type != TensorType::kFloat32) return std::nullopt;
  return Values<float>(Data(id), NumElements(id));
}

std::optional<float> LiftGraph::Scalar(int id) const {
  if (NumElements(id) != 1) return std::nullopt;
  const auto values = Floats(id);
  if (!values) return std::nullopt;
  return values->front();
}

Result<Weight> LiftGraph::MakeWeight(int id, Shape expected,
                                     std::vector<std::shared_ptr<const void>>* keep_alive) const {
  const Tensor& t = tensor(id);
  const Quantization& q = t.quantization;
  const auto fail = [&](std::string_view what) {
    return Status(Code::kUnsupported,
                  StrCat("weight tensor ", id, " (", formats::tflite::TensorTypeName(t.type), " ",
                         ShapeText(t.shape), ") ", what));
  };
  Weight out;
  out.name = t.name;
  codec::WeightView& view = out.view;
  if (t.shape.empty() || t.shape.size() > 2) return fail("is not a matrix or a vector");
  view.rows = t.shape.size() == 2 ? t.shape[0] : 1;
  view.cols = t.shape.back();
  view.codes = Data(id);
  if (view.rows != expected.rows || view.cols != expected.cols) {
    return fail(StrCat("does not fit: expected [", expected.rows, ", ", expected.cols, "]"));
  }
  const bool quantized = t.type == TensorType::kInt8 || t.type == TensorType::kInt4;
  if (t.type == TensorType::kFloat32) {
    view.type = {codec::Coding::kF32, 0};
  } else if (t.type == TensorType::kFloat16) {
    view.type = {codec::Coding::kF16, 0};
  } else if (t.type == TensorType::kInt8) {
    view.type = {codec::Coding::kInt8, 0};
  } else if (t.type == TensorType::kInt4) {
    view.type = {codec::Coding::kInt4, q.scales_tensor ? q.block_size : 0};
  } else {
    return fail("has a type that is not known for weights");
  }
  if (!quantized && !q.empty()) return fail("is a float with scales");
  if (quantized && q.empty()) return fail("has no scales");
  if (quantized && q.scales_tensor) {
    const Tensor& scales = tensor(*q.scales_tensor);
    if (t.type != TensorType::kInt4 || q.zero_points_tensor != -1 || q.block_size <= 0 ||
        scales.type != TensorType::kFloat16) {
      return fail("has blocks that are not int4 with fp16 scales and no zero points");
    }
    view.scales = Data(*q.scales_tensor);
  } else if (quantized) {
    const bool per_row = static_cast<std::int64_t>(q.scale.size()) == view.rows;
    if ((!per_row && q.scale.size() != 1) || (per_row && q.quantized_dimension != 0)) {
      return fail(StrCat("has ", q.scale.size(), " scales along dimension ", q.quantized_dimension,
                         ", expected one for each of ", view.rows, " rows"));
    }
    if (!AllZero(q.zero_point)) return fail("has zero points");
    // The table of the file can lie at any address, and one scale can stand for all rows.
    auto table = std::make_shared<std::vector<float>>(q.scale);
    table->resize(static_cast<std::size_t>(view.rows), q.scale.front());
    view.scales = std::as_bytes(std::span<const float>(*table));
    keep_alive->push_back(std::move(table));
  }
  if (const Status status = codec::CheckView(view); !status.ok()) return fail(status.message());
  return out;
}

}  // namespace hone::model
