// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The input is a GGUF file that is opened as a model.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "formats/gguf/gguf.h"
#include "model/source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const hone::ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  auto file = hone::formats::GgufFile::Parse(bytes, "input.gguf");
  if (!file.ok()) return 0;
  const auto got = hone::model::ReadGguf(*file);
  if (!got.ok()) {
    HONE_CHECK(!got.message().empty() && got.code() != hone::Code::kInternal);
    return 0;
  }
  // Every weight that was accepted can be read.
  const auto& layers = got->model.layers;
  for (std::size_t i = 0; i < std::min<std::size_t>(layers.size(), 2); ++i) {
    for (const hone::model::Weight* weight : {&layers[i].q, &layers[i].k, &layers[i].down}) {
      std::vector<float> row(static_cast<std::size_t>(weight->view.cols));
      hone::model::ReadRows(*weight, weight->view.rows - 1, 1, row.data());
    }
  }
  return 0;
}
