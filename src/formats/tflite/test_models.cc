// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/tflite/test_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "formats/tflite/plan_model.h"

namespace hone::formats::tflite {
namespace {

std::vector<std::byte> Assemble(const WritePlan& plan, const std::vector<ByteSpan>& deferred) {
  std::vector<std::byte> out = plan.head;
  out.resize(plan.total_bytes);
  for (const auto& [offset, bytes] : plan.extra) {
    std::memcpy(out.data() + offset, bytes.data(), bytes.size());
  }
  for (std::size_t i = 0; i < deferred.size(); ++i) {
    if (deferred[i].empty()) continue;
    std::memcpy(out.data() + plan.buffer_offsets[i], deferred[i].data(), deferred[i].size());
  }
  return out;
}

}  // namespace

TestModel::TestModel() : codes(256), scales(32) {
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i * 37);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(0x3c);
  model.description = "test";
  model.buffers = {{}, {codes, 0}, {scales, 0}};
  Subgraph& g = model.subgraphs.emplace_back();
  g.name = "main";
  const auto add = [&g](const char* name, std::vector<std::int32_t> shape, TensorType type,
                        std::uint32_t buffer) {
    Tensor& t = g.tensors.emplace_back();
    t.name = name;
    t.shape = std::move(shape);
    t.type = type;
    t.buffer = buffer;
  };
  add("x", {1, 128}, TensorType::kFloat32, 0);
  add("w", {4, 128}, TensorType::kInt4, 1);
  add("w_scales", {4, 4}, TensorType::kFloat16, 2);
  add("y", {1, 4}, TensorType::kFloat32, 0);
  g.tensors[1].quantization.scales_tensor = 2;
  g.tensors[1].quantization.block_size = 32;
  g.inputs = {0};
  g.outputs = {3};
  Operator fc;
  fc.op = Op::kFullyConnected;
  fc.version = 5;
  fc.inputs = {0, 1, -1};
  fc.outputs = {3};
  fc.options.keep_num_dims = true;
  g.operators = {fc};
  model.signatures = {{"decode", 0, {{"x", 0}}, {{"y", 3}}}};
}

void TestModel::SetScales(std::vector<std::int32_t> shape) {
  std::size_t bytes = 2;
  for (const std::int32_t dim : shape) bytes *= static_cast<std::size_t>(dim);
  scales.resize(bytes);
  model.buffers[2].data = scales;
  tensor(2).shape = std::move(shape);
}

void TestModel::SetChannels(std::size_t num_scales, std::size_t num_zero_points) {
  Quantization& q = tensor(1).quantization;
  q = {};
  q.scale.assign(num_scales, 0.5f);
  q.zero_point.assign(num_zero_points, 0);
}

void TestModel::MakeComposite(std::int32_t body) {
  op(0).op = Op::kStablehloComposite;
  op(0).version = 1;
  op(0).inputs = {0};
  op(0).options = {};
  op(0).options.composite_name = "odml.test";
  op(0).options.decomposition_subgraph = body;
}

std::vector<std::byte> WriteToMemory(const Model& model, bool defer, std::uint64_t external_above) {
  Model planned = model;
  std::vector<ByteSpan> deferred(model.buffers.size());
  for (std::size_t i = 0; defer && i < model.buffers.size(); ++i) {
    if (model.buffers[i].data.size() < 2) continue;
    deferred[i] = model.buffers[i].data;
    planned.buffers[i] = {{}, deferred[i].size()};
  }
  const auto plan = PlanModel(planned, external_above);
  if (!plan.ok()) {
    ADD_FAILURE() << plan.message();
    return {};
  }
  return Assemble(*plan, deferred);
}

std::vector<std::byte> WriteUnchecked(const Model& model) {
  return Assemble(PlanUnchecked(model, false), {});
}

}  // namespace hone::formats::tflite
