// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lift_graph.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "base/float16.h"
#include "base/text.h"

namespace hone::model {
namespace {

using formats::tflite::Op;
using formats::tflite::Operator;
using formats::tflite::Quantization;
using formats::tflite::Subgraph;
using formats::tflite::Tensor;
using formats::tflite::TensorType;

constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxTensors = std::size_t{1} << 20;

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
  const Subgraph& subgraph = model.subgraphs[graph.signature_->subgraph];
  const std::string context = StrCat("signature ", signature);
  HONE_TRY(graph.Check(subgraph).Context(context));
  for (const auto* list : {&graph.signature_->inputs, &graph.signature_->outputs}) {
    for (const auto& [name, id] : *list) {
      if (id >= subgraph.tensors.size()) {
        return Status(Code::kDataLoss,
                      StrCat(context, ": ", name, " names a tensor that is not there"));
      }
    }
  }
  graph.tensors_ = subgraph.tensors;
  std::vector<int> ids(subgraph.tensors.size());
  std::iota(ids.begin(), ids.end(), 0);
  HONE_TRY(graph.AddOperators(subgraph, ids, "", 0).Context(context));
  return graph;
}

Status LiftGraph::AddOperators(const Subgraph& subgraph, const std::vector<int>& ids,
                               const std::string& where, int depth) {
  for (std::size_t i = 0; i < subgraph.operators.size(); ++i) {
    Operator op = subgraph.operators[i];
    for (auto* list : {&op.inputs, &op.outputs}) {
      for (std::int32_t& id : *list) {
        if (id >= 0) id = ids[static_cast<std::size_t>(id)];
      }
    }
    std::string place = StrCat(where, "operator ", i, " ", OpName(op.op));
    const std::int32_t body = op.options.decomposition_subgraph;
    const bool has_body = body >= 0 && static_cast<std::size_t>(body) < model_->subgraphs.size();
    if (op.op == Op::kStablehloComposite && has_body &&
        op.options.composite_name != "odml.rms_norm") {
      place += StrCat(" ", op.options.composite_name, ": ");
      HONE_TRY(Inline(op, place, depth + 1));
      continue;
    }
    operators_.push_back(std::move(op));
    places_.push_back(std::move(place));
  }
  return Status();
}

// Numbers of the body's inputs and outputs become those of the composite; its other tensors are
// appended.
Status LiftGraph::Inline(const Operator& composite, const std::string& where, int depth) {
  const Subgraph& body =
      model_->subgraphs[static_cast<std::size_t>(composite.options.decomposition_subgraph)];
  const auto fail = [&](Code code, std::string_view what) {
    return Status(code, StrCat(where, what));
  };
  HONE_TRY(Check(body).Context(where + "its body"));
  if (body.inputs.size() != composite.inputs.size() ||
      body.outputs.size() != composite.outputs.size()) {
    return fail(Code::kDataLoss, "its body has another number of inputs or outputs");
  }
  if (depth > kMaxDepth || tensors_.size() + body.tensors.size() > kMaxTensors ||
      operators_.size() + body.operators.size() > kMaxTensors) {
    return fail(Code::kUnsupported, "composites that unfold to more operators than a decoder has");
  }
  std::vector<int> ids(body.tensors.size(), -1);
  const auto bind = [&](const std::vector<std::int32_t>& inner,
                        const std::vector<std::int32_t>& outer) {
    for (std::size_t i = 0; i < inner.size(); ++i) {
      int& id = ids[static_cast<std::size_t>(inner[i])];
      if (id != -1 || outer[i] < 0) return false;
      id = outer[i];
    }
    return true;
  };
  if (!bind(body.inputs, composite.inputs) || !bind(body.outputs, composite.outputs)) {
    return fail(Code::kUnsupported, "expected a body that computes each of its results");
  }
  int next = static_cast<int>(tensors_.size());
  std::vector<std::size_t> added;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != -1) continue;
    ids[i] = next++;
    added.push_back(i);
  }
  for (const std::size_t i : added) {
    Tensor tensor = body.tensors[i];
    if (auto& scales = tensor.quantization.scales_tensor) {
      scales = ids[static_cast<std::size_t>(*scales)];
    }
    tensors_.push_back(std::move(tensor));
  }
  return AddOperators(body, ids, where, depth);
}

std::string LiftGraph::OperatorText(std::size_t index) const { return places_[index]; }

Status LiftGraph::Check(const Subgraph& subgraph) const {
  const auto count = static_cast<std::int64_t>(subgraph.tensors.size());
  const auto valid = [&](std::int64_t id) { return id >= 0 && id < count; };
  for (std::int64_t id = 0; id < count; ++id) {
    const Tensor& t = subgraph.tensors[static_cast<std::size_t>(id)];
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
  for (std::size_t i = 0; i < subgraph.operators.size(); ++i) {
    const auto& op = subgraph.operators[i];
    const bool inputs_valid = std::all_of(op.inputs.begin(), op.inputs.end(),
                                          [&](std::int32_t id) { return id == -1 || valid(id); });
    if (!inputs_valid || !std::all_of(op.outputs.begin(), op.outputs.end(), valid)) {
      return Status(Code::kDataLoss, StrCat("operator ", i, " names a tensor that is not there"));
    }
  }
  for (const auto* list : {&subgraph.inputs, &subgraph.outputs}) {
    if (!std::all_of(list->begin(), list->end(), valid)) {
      return Status(Code::kDataLoss, "an input or output names a tensor that is not there");
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
  if (tensor(id).type == TensorType::kInt32) return Values<std::int32_t>(Data(id), NumElements(id));
  if (tensor(id).type != TensorType::kInt64) return std::nullopt;
  const auto wide = Values<std::int64_t>(Data(id), NumElements(id));
  if (!wide) return std::nullopt;
  std::vector<std::int32_t> out;
  for (const std::int64_t value : *wide) {
    if (value != static_cast<std::int32_t>(value)) return std::nullopt;
    out.push_back(static_cast<std::int32_t>(value));
  }
  return out;
}

std::optional<std::vector<float>> LiftGraph::Floats(int id) const {
  if (const auto found = folded_.find(id); found != folded_.end()) return *found->second;
  if (!tensor(id).quantization.empty()) return std::nullopt;
  if (tensor(id).type == TensorType::kFloat32) return Values<float>(Data(id), NumElements(id));
  if (tensor(id).type != TensorType::kFloat16) return std::nullopt;
  const auto halves = Values<std::uint16_t>(Data(id), NumElements(id));
  if (!halves) return std::nullopt;
  std::vector<float> out;
  out.reserve(halves->size());
  for (const std::uint16_t half : *halves) out.push_back(Fp16ToFloat(half));
  return out;
}

std::optional<std::vector<std::uint8_t>> LiftGraph::Bools(int id) const {
  if (tensor(id).type != TensorType::kBool) return std::nullopt;
  return Values<std::uint8_t>(Data(id), NumElements(id));
}

std::optional<float> LiftGraph::Scalar(int id) const {
  if (NumElements(id) != 1) return std::nullopt;
  const auto values = Floats(id);
  if (!values) return std::nullopt;
  return values->front();
}

std::optional<std::vector<double>> LiftGraph::Numbers(int id) const {
  if (const auto ints = Ints(id)) return std::vector<double>(ints->begin(), ints->end());
  if (const auto floats = Floats(id)) return std::vector<double>(floats->begin(), floats->end());
  if (const auto bools = Bools(id)) return std::vector<double>(bools->begin(), bools->end());
  return std::nullopt;
}

void LiftGraph::SetFloats(int id, std::vector<float> values) {
  folded_[id] = std::make_shared<const std::vector<float>>(std::move(values));
}

Result<Weight> LiftGraph::MakeWeight(int id, RowRange rows, Shape expected,
                                     std::vector<std::shared_ptr<const void>>* keep_alive) const {
  const Tensor& t = tensor(id);
  const auto fail = [&](std::string_view what) {
    return Status(Code::kUnsupported,
                  StrCat("weight tensor ", id, " (", formats::tflite::TensorTypeName(t.type), " ",
                         ShapeText(t.shape), ") ", what));
  };
  Weight out;
  out.name = t.name;
  codec::WeightType type;
  const bool folded = folded_.contains(id);
  if (folded || t.type == TensorType::kFloat32) {
    type = {codec::Coding::kF32, 0};
  } else if (t.type == TensorType::kFloat16) {
    type = {codec::Coding::kF16, 0};
  } else if (t.type == TensorType::kInt8) {
    type = {codec::Coding::kInt8, 0};
  } else if (t.type == TensorType::kInt4) {
    type = {codec::Coding::kInt4, t.quantization.scales_tensor ? t.quantization.block_size : 0};
  } else {
    return fail("has a type that is not known for weights");
  }
  auto view = MakeView(id, type, keep_alive);
  if (!view.ok()) return fail(view.message());
  if (const Status status = codec::CheckView(*view); !status.ok()) return fail(status.message());
  // A vector has one row, in which a range counts columns.
  const bool vector = expected.rows == 1 && view->rows == 1;
  const std::int64_t size = vector ? view->cols : view->rows;
  const std::int64_t count = rows.count < 0 ? size : rows.count;
  if (rows.begin < 0 || rows.begin > size - count ||
      (vector ? count != expected.cols : count != expected.rows || view->cols != expected.cols)) {
    return fail(StrCat("does not fit: expected [", expected.rows, ", ", expected.cols, "]"));
  }
  if (count != size && vector) {
    if (type.coding != codec::Coding::kF32 && type.coding != codec::Coding::kF16) {
      return fail("is a quantized part of a vector");
    }
    const std::uint64_t begin = codec::CodesBytes(type, 1, rows.begin);
    view->cols = count;
    view->codes = view->codes.subspan(begin, codec::CodesBytes(type, 1, count));
  } else if (count != size) {
    const auto cut = [&](ByteSpan bytes,
                         std::uint64_t (*size_of)(codec::WeightType, std::int64_t, std::int64_t)) {
      return bytes.subspan(size_of(type, rows.begin, view->cols), size_of(type, count, view->cols));
    };
    view->codes = cut(view->codes, codec::CodesBytes);
    view->scales = cut(view->scales, codec::ScalesBytes);
    view->rows = count;
  }
  if (const Status status = codec::CheckView(*view); !status.ok()) return fail(status.message());
  out.view = *view;
  return out;
}

// The whole tensor. Errors only say what is wrong.
Result<codec::WeightView> LiftGraph::MakeView(
    int id, codec::WeightType type, std::vector<std::shared_ptr<const void>>* keep_alive) const {
  const Tensor& t = tensor(id);
  const Quantization& q = t.quantization;
  const auto fail = [](std::string_view what) {
    return Status(Code::kUnsupported, std::string(what));
  };
  codec::WeightView view;
  view.type = type;
  if (t.shape.empty()) return fail("is not a matrix or a vector");
  view.cols = t.shape.back();
  const bool vector = NumElements(id) == view.cols;
  if (t.shape.size() != 2 && !vector) return fail("is not a matrix or a vector");
  view.rows = t.shape.size() == 2 ? t.shape[0] : 1;
  if (const auto found = folded_.find(id); found != folded_.end()) {
    view.codes = std::as_bytes(std::span<const float>(*found->second));
    keep_alive->push_back(found->second);
    return view;
  }
  view.codes = Data(id);
  const bool quantized = t.type == TensorType::kInt8 || t.type == TensorType::kInt4;
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
    // Not more rows than bytes, so that the table below is in proportion to the file.
    if (static_cast<std::uint64_t>(view.rows) > view.codes.size()) return fail("has too few bytes");
    // The table of the file can lie at any address, and one scale can stand for all rows.
    auto table = std::make_shared<std::vector<float>>(q.scale);
    table->resize(static_cast<std::size_t>(view.rows), q.scale.front());
    view.scales = std::as_bytes(std::span<const float>(*table));
    keep_alive->push_back(std::move(table));
  }
  return view;
}

}  // namespace hone::model
