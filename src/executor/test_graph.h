// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Small graphs in memory, for tests and fuzzing of the executor.
#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "executor/executor.h"

namespace hone::executor {

// One subgraph with the signature "main": inputs "i0", "i1", ..., outputs "o0", "o1", ...
// Body() starts a further subgraph, which composites can name.
class TestGraph {
 public:
  using Op = formats::tflite::Op;
  using OpOptions = formats::tflite::OpOptions;
  using Quantization = formats::tflite::Quantization;
  using Type = formats::tflite::TensorType;
  using Shape = std::vector<std::int32_t>;

  TestGraph() {
    model.buffers.emplace_back();
    model.subgraphs.emplace_back().name = "main";
    model.signatures.emplace_back().key = "main";
  }
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;

  formats::tflite::Model model;
  Values inputs;

  std::int32_t Tensor(Type type, Shape shape) {
    formats::tflite::Tensor tensor;
    tensor.type = type;
    tensor.shape = std::move(shape);
    tensor.name = "t" + std::to_string(graph().tensors.size());
    graph().tensors.push_back(std::move(tensor));
    return static_cast<std::int32_t>(graph().tensors.size()) - 1;
  }
  // A computed input; in the first subgraph its value goes to Run.
  std::int32_t Input(Value value) {
    const std::int32_t id = Tensor(value.type, value.shape);
    graph().inputs.push_back(id);
    if (model.subgraphs.size() > 1) return id;
    const std::string name = "i" + std::to_string(inputs.size());
    model.signatures[0].inputs.emplace_back(name, static_cast<std::uint32_t>(id));
    inputs[name] = std::move(value);
    return id;
  }
  std::int32_t Constant(Value value, Quantization quantization = {}) {
    const std::int32_t id = Tensor(value.type, std::move(value.shape));
    graph().tensors.back().quantization = std::move(quantization);
    if (value.data.empty()) return id;
    data_.push_back(std::move(value.data));
    graph().tensors.back().buffer = static_cast<std::uint32_t>(model.buffers.size());
    model.buffers.push_back({data_.back(), 0});
    return id;
  }
  std::int32_t Ints(const std::vector<std::int32_t>& values) {
    return Constant(MakeInts({static_cast<std::int32_t>(values.size())}, values));
  }
  std::int32_t Add(Op op, std::vector<std::int32_t> in, Type type, Shape shape,
                   OpOptions options = {}) {
    const std::int32_t out = Tensor(type, std::move(shape));
    AddMany(op, std::move(in), {out}, std::move(options));
    return out;
  }
  void AddMany(Op op, std::vector<std::int32_t> in, std::vector<std::int32_t> out,
               OpOptions options = {}) {
    formats::tflite::Operator node;
    node.op = op;
    node.inputs = std::move(in);
    node.outputs = std::move(out);
    node.options = std::move(options);
    graph().operators.push_back(std::move(node));
  }
  void Output(std::int32_t id) {
    graph().outputs.push_back(id);
    if (model.subgraphs.size() > 1) return;
    auto& list = model.signatures[0].outputs;
    list.emplace_back("o" + std::to_string(list.size()), static_cast<std::uint32_t>(id));
  }
  std::int32_t Body() {
    model.subgraphs.emplace_back().name = "body";
    return static_cast<std::int32_t>(model.subgraphs.size()) - 1;
  }
  formats::tflite::Subgraph& graph() { return model.subgraphs.back(); }

  Status Create(const ProgramOptions& options = {}) const {
    return Program::Create(model, "test", options).status();
  }
  Result<Values> Run() const {
    HONE_ASSIGN(const Program program, Program::Create(model, "test"));
    return program.Run("main", inputs);
  }

 private:
  std::deque<std::vector<std::byte>> data_;
};

}  // namespace hone::executor
