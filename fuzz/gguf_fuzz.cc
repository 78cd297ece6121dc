// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/json.h"
#include "formats/gguf/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const hone::ByteSpan bytes{reinterpret_cast<const std::byte*>(data), size};
  const auto file = hone::formats::GgufFile::Parse(bytes, "x.gguf");
  if (!file.ok()) {
    HONE_CHECK(!file.message().empty() && file.code() != hone::Code::kInternal);
    return 0;
  }
  for (const auto& tensor : (*file)->tensors()) {
    HONE_CHECK(tensor.data.empty() ||
               (tensor.data.data() >= bytes.data() &&
                tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size()));
  }
  const auto text = hone::formats::ReadGgufText(**file);
  if (text.ok()) HONE_CHECK(hone::ParseJson(text->tokenizer_json).ok());
  return 0;
}
