// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// model.toml and the text form of metadata. What is read and written once no longer changes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "bundle/pack_proto.h"
#include "bundle/pack_toml.h"

namespace bundle = hone::bundle;

namespace {

void CheckToml(std::string_view text) {
  const auto toml = bundle::ParseModelToml(text);
  if (!toml.ok()) return;
  const std::string once = bundle::WriteModelToml(*toml);
  const auto again = bundle::ParseModelToml(once);
  if (!again.ok()) return;  // a section may have items that only the long form can say
  if (bundle::WriteModelToml(*again) != once) std::abort();
}

void CheckMessage(bundle::MessageKind kind, std::string_view text) {
  const auto bytes = bundle::MessageFromText(kind, text);
  if (bytes.ok()) {
    const auto printed = bundle::MessageToText(kind, hone::AsBytes(*bytes));
    if (!printed.ok() || !bundle::TextCarries(kind, hone::AsBytes(*bytes), *printed)) std::abort();
  }
  static_cast<void>(bundle::MessageToText(kind, hone::AsBytes(text)));
  bundle::LlmOverrides overrides;
  overrides.max_num_patches = 3;
  static_cast<void>(bundle::ApplyOverrides(hone::AsBytes(text), overrides));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      CheckToml(text);
      break;
    case 1:
      CheckMessage(bundle::MessageKind::kExecutorMetadata, text);
      break;
    case 2:
      CheckMessage(bundle::MessageKind::kEmbeddingMetadata, text);
      break;
    default:
      CheckMessage(bundle::MessageKind::kLlmMetadata, text);
  }
  return 0;
}
