// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The metadata messages of a bundle in protobuf's text form, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/span_util.h"
#include "base/status.h"

namespace hone::bundle {

enum class MessageKind : std::uint8_t { kLlmMetadata, kExecutorMetadata, kEmbeddingMetadata };

// The message as text, as litert-lm-builder prints it. Fields without a public name are left out.
// kDataLoss if the bytes are no such message.
Result<std::string> MessageToText(MessageKind kind, ByteSpan bytes);

// The encoded message. Errors name line and column.
Result<std::string> MessageFromText(MessageKind kind, std::string_view text);

// Whether the text form gives exactly these bytes again: no unknown fields, and encoded as protobuf
// encodes.
bool TextCarries(MessageKind kind, ByteSpan bytes, std::string_view text);

// Whether the bytes can be read as the binary form.
bool IsBinaryMessage(MessageKind kind, ByteSpan bytes);

// What a model.toml may set in an LlmMetadata message.
struct LlmOverrides {
  std::optional<std::string> min_runtime_version;
  std::optional<bool> supports_thinking, supports_function_calling;
  std::optional<std::int32_t> max_num_patches, pooling_kernel_size;
  bool empty() const {
    return !min_runtime_version && !supports_thinking && !supports_function_calling &&
           !max_num_patches && !pooling_kernel_size;
  }
};
// The message with the overrides; unknown fields are kept. The two about patches go to the model
// type that the message has, or to generic_model, as litert-lm-builder does; a model type without
// such a field ignores them.
Result<std::string> ApplyOverrides(ByteSpan llm_metadata, const LlmOverrides& overrides);

}  // namespace hone::bundle
