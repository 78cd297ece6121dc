// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Any bytes give a model or an error; a model that can be written reads back equal.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "formats/tflite/tflite.h"

namespace tflite = hone::formats::tflite;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The reader wants a start that is a multiple of 8; heap memory of this size has redzones.
  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  tflite::FindCompositeNumber(bytes, "epsilon");
  const auto model = tflite::ReadModel(bytes);
  if (!model.ok()) {
    if (model.message().empty()) std::abort();
    return 0;
  }
  for (const auto& graph : model->subgraphs) {
    for (const auto& op : graph.operators) {
      tflite::FindCompositeNumber(op.options.composite_attributes, "epsilon");
    }
  }
  const auto plan = tflite::PlanModel(*model);
  if (!plan.ok()) return 0;
  const auto again = tflite::ReadModel(plan->head);
  if (!again.ok() || !(again->signatures == model->signatures) ||
      again->subgraphs.size() != model->subgraphs.size()) {
    std::abort();
  }
  return 0;
}
