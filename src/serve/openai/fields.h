// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Every field of every endpoint, as data. The readers refuse what is not in the table; docs/api.md
// shows it; tests walk it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hone::serve::openai {

enum class Endpoint : std::uint8_t {
  kChat,
  kCompletions,
  kResponses,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
};
inline constexpr Endpoint kEndpoints[] = {Endpoint::kChat,       Endpoint::kCompletions,
                                          Endpoint::kResponses,  Endpoint::kTokenize,
                                          Endpoint::kDetokenize, Endpoint::kApplyTemplate};
std::string_view EndpointPath(Endpoint endpoint);  // "/v1/chat/completions"

enum class FieldUse : std::uint8_t {
  kHonoured,
  kNoEffect,  // accepted: OpenAI defines it so that it changes no answer
  kRefused,   // 400 that names it; a lenient server leaves it out and says so
};

struct FieldRow {
  std::string_view path;  // "messages[].content[].type"
  FieldUse use;
  std::string_view example;  // JSON of a value for this field
  std::string_view text;     // what it does, or why it is refused; Markdown
  std::string_view only =
      "";  // of kRefused: JSON of the value that is accepted, since it asks for nothing
};

// In the order of the document.
std::span<const FieldRow> Fields(Endpoint endpoint);
// Null if the table has no such path.
const FieldRow* FindField(Endpoint endpoint, std::string_view path);

// The Markdown table of docs/api.md.
std::string FieldTable(Endpoint endpoint);

}  // namespace hone::serve::openai
