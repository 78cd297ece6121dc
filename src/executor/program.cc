// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"
#include "executor/executor.h"
#include "executor/op_util.h"
#include "executor/plan.h"

namespace hone::executor {

using formats::tflite::SignatureDef;
using formats::tflite::TensorTypeName;

namespace {

template <typename T>
Value Make(TensorType type, std::vector<std::int32_t> shape, std::span<const T> values) {
  std::int64_t count = 1;
  for (const std::int32_t dim : shape) count *= dim;
  HONE_CHECK(count == static_cast<std::int64_t>(values.size()));
  Value value{type, std::move(shape), {}};
  value.data.resize(values.size_bytes());
  if (!values.empty()) std::memcpy(value.data.data(), values.data(), values.size_bytes());
  return value;
}

Status CheckInput(const TensorInfo& info, const std::string& name, const Value& value) {
  if (value.type == info.type &&
      std::equal(value.shape.begin(), value.shape.end(), info.shape.begin(), info.shape.end()) &&
      value.data.size() == info.bytes) {
    return {};
  }
  return Status(
      Code::kInvalidArgument,
      StrCat("input '", name, "' is ", TensorTypeName(value.type), " ",
             DimsText(Dims(value.shape.begin(), value.shape.end())), " (", value.data.size(),
             " bytes), ", TensorTypeName(info.type), " ", DimsText(info.shape), " is expected"));
}

}  // namespace

Value MakeFloats(std::vector<std::int32_t> shape, std::span<const float> values) {
  return Make(TensorType::kFloat32, std::move(shape), values);
}

Value MakeInts(std::vector<std::int32_t> shape, std::span<const std::int32_t> values) {
  return Make(TensorType::kInt32, std::move(shape), values);
}

Result<std::vector<float>> ToFloats(const Value& value) {
  const auto bytes = static_cast<std::size_t>(ElementBytes(value.type));
  std::vector<float> out(bytes == 0 ? 0 : value.data.size() / bytes);
  switch (value.type) {
    case TensorType::kFloat32:
      if (!out.empty()) std::memcpy(out.data(), value.data.data(), out.size() * sizeof(float));
      return out;
    case TensorType::kFloat16:
      for (std::size_t i = 0; i < out.size(); ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, value.data.data() + 2 * i, sizeof(bits));
        out[i] = Fp16ToFloat(bits);
      }
      return out;
    case TensorType::kBool:
      std::transform(value.data.begin(), value.data.end(), out.begin(),
                     [](std::byte b) { return b == std::byte{0} ? 0.0f : 1.0f; });
      return out;
    default:
      return Status(Code::kUnsupported,
                    StrCat("values of type ", TensorTypeName(value.type), " are no floats"));
  }
}

Result<Program> Program::Create(const formats::tflite::Model& model, std::string label,
                                const ProgramOptions& options) {
  auto plan = Plan::Build(model, options);
  if (!plan.ok()) return std::move(plan).status().Context(label);
  Program program;
  program.model_ = &model;
  program.label_ = std::move(label);
  program.plan_ = *std::move(plan);
  return program;
}

Result<Values> Program::Run(std::string_view signature, const Values& inputs,
                            const std::atomic<bool>* cancel) const {
  const SignatureDef* found = model_->FindSignature(signature);
  if (found == nullptr) {
    return Status(Code::kNotFound, StrCat(label_, ": has no signature '", signature, "'"));
  }
  const std::string where = StrCat(label_, ": signature '", signature, "'");
  std::vector<const std::byte*> bytes(found->inputs.size());
  const auto& order = model_->subgraphs[found->subgraph].inputs;
  for (const auto& [name, id] : found->inputs) {
    const auto value = inputs.find(name);
    if (value == inputs.end()) {
      return Status(Code::kInvalidArgument, StrCat(where, ": input '", name, "' is missing"));
    }
    HONE_TRY(CheckInput(plan_->tensor(found->subgraph, id), name, value->second).Context(where));
    const auto at = std::find(order.begin(), order.end(), static_cast<std::int32_t>(id));
    bytes[static_cast<std::size_t>(at - order.begin())] = value->second.data.data();
  }
  if (inputs.size() > found->inputs.size()) {
    return Status(Code::kInvalidArgument,
                  StrCat(where, ": ", inputs.size(), " inputs for ", found->inputs.size()));
  }
  std::vector<std::int32_t> outputs;
  for (const auto& [name, id] : found->outputs) outputs.push_back(static_cast<std::int32_t>(id));
  try {
    auto results = plan_->Run(found->subgraph, bytes, outputs, cancel);
    if (!results.ok()) return std::move(results).status().Context(where);
    Values values;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& [name, id] = found->outputs[i];
      const Tensor& tensor = model_->subgraphs[found->subgraph].tensors[id];
      values[name] = Value{tensor.type, tensor.shape, std::move((*results)[i])};
    }
    return values;
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, StrCat(where, ": not enough memory for its tensors"));
  }
}

}  // namespace hone::executor
