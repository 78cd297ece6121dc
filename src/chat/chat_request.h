// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// One turn of a conversation as it is asked for, without the traces of a wire format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "chat/tool_grammar.h"

namespace hone::chat {

enum class FormatKind : std::uint8_t { kText, kJsonObject, kJsonSchema, kRegex, kLark };
// What the content must match. Thinking and calls of tools are free of it.
struct AnswerFormat {
  FormatKind kind = FormatKind::kText;
  Json schema = {};       // kJsonSchema; kJsonObject too, if it is an object
  std::string text = {};  // kRegex: the pattern. kLark: the grammar
};

enum class ThinkingMode : std::uint8_t { kDefault, kOff, kOn };
struct ThinkingRequest {
  ThinkingMode mode = ThinkingMode::kDefault;  // kDefault: as the template does without a word
  // Tokens of the channel, at least 1; then it is closed by force. Not with kOff.
  std::optional<std::int64_t> budget_tokens = {};
};

struct ChatRequest {
  // As templates want them: objects with role, content (absent, null, text or a list of
  // {"type": "text", "text"}), tool_calls, tool_call_id, reasoning_content.
  Json::Array messages = {};
  // {"type": "function", "function": {"name", "description", "parameters", "strict"}}, as given;
  // empty: no tools. A function with "strict": true gets only arguments that match its schema.
  Json::Array tools_json = {};
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name = {};  // of kNamed
  bool parallel_tool_calls = true;
  AnswerFormat format = {};
  ThinkingRequest thinking = {};
  // More variables for the template. Those that the library sets itself (messages, tools,
  // add_generation_prompt, enable_thinking, the tokens) are refused here.
  Json::Object template_kwargs = {};
  bool add_generation_prompt = true;
  std::string prediction = {};  // text that the answer probably repeats
};

}  // namespace hone::chat
