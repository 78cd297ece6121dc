// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Models for tests, and writers that put a plan together in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/tflite/tflite.h"

namespace hone::formats::tflite {

// One fully connected operator: x [1, 128] float32, w [4, 128] int4 in blocks of 32 with float16
// scales, y [1, 4]. Tensors x, w, w_scales, y; signature "decode". Every test can break it.
struct TestModel {
  TestModel();
  TestModel(const TestModel&) = delete;
  TestModel& operator=(const TestModel&) = delete;
  Subgraph& graph() { return model.subgraphs[0]; }
  Tensor& tensor(std::size_t i) { return graph().tensors[i]; }
  Operator& op(std::size_t i) { return graph().operators[i]; }
  // Another shape of the scales, with data of that size.
  void SetScales(std::vector<std::int32_t> shape);
  // w as int4 per channel.
  void SetChannels(std::size_t num_scales, std::size_t num_zero_points);
  // The operator as a composite with a body.
  void MakeComposite(std::int32_t body);

  Model model;
  std::vector<std::byte> codes, scales;
};

// The bytes of a model. defer: constants of two bytes and more go through deferred buffers.
std::vector<std::byte> WriteToMemory(const Model& model, bool defer, std::uint64_t external_above);
// The bytes of a model that need not be sound.
std::vector<std::byte> WriteUnchecked(const Model& model);

}  // namespace hone::formats::tflite
