// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/safetensors/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const hone::ByteSpan bytes{reinterpret_cast<const std::byte*>(data), size};
  const auto tensors = hone::formats::ParseSafetensors(bytes);
  if (!tensors.ok()) {
    HONE_CHECK(!tensors.message().empty() && tensors.code() != hone::Code::kInternal);
    return 0;
  }
  // The tensors cover the data, in order and without a gap, up to the end of the file.
  const std::byte* position = nullptr;
  for (const auto& tensor : *tensors) {
    HONE_CHECK(position == nullptr || tensor.data.data() == position);
    position = tensor.data.data() + tensor.data.size();
  }
  HONE_CHECK(position == nullptr || position == bytes.data() + bytes.size());
  return 0;
}
