// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What is read and written once no longer changes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "formats/litertlm/llm_metadata.h"

namespace litertlm = hone::formats::litertlm;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const hone::ByteSpan bytes{reinterpret_cast<const std::byte*>(data), size};
  const auto llm = litertlm::ParseLlmMetadata(bytes);
  if (llm.ok()) {
    const std::string once = litertlm::EncodeLlmMetadata(*llm);
    const auto again = litertlm::ParseLlmMetadata(hone::AsBytes(once));
    if (!again.ok() || litertlm::EncodeLlmMetadata(*again) != once) std::abort();
  }
  const auto executor = litertlm::ParseExecutorMetadata(bytes);
  if (executor.ok()) {
    const std::string once = litertlm::EncodeExecutorMetadata(*executor);
    const auto again = litertlm::ParseExecutorMetadata(hone::AsBytes(once));
    if (!again.ok() || litertlm::EncodeExecutorMetadata(*again) != once) std::abort();
  }
  return 0;
}
