// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Keeps text that spells a control token text: only the template makes control tokens.
//
// A mark, one character that occurs nowhere else, is put behind the first character of each control
// text of a message. It goes through the template like any other character, and the rendered prompt
// is encoded in the pieces between the marks, none of which spells a control token. Prompts without
// control texts take the ordinary way and have the ordinary ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "chat/chat_model.h"

namespace hone::chat {

struct GuardedChat {
  Json::Array messages;
  Json::Array tools;
  Json::Object variables;
  std::string mark;  // "": there is none in them
};

// Marks all texts of a chat, keys included. The marks of the thinking and of calls stay usable in
// messages of the assistant. kInvalidArgument if every character that could be the mark is in use.
Result<GuardedChat> GuardControlTexts(const ChatModel& model, const Json::Array& messages,
                                      const Json::Array& tools, const Json::Object& variables);

// The text without marks.
std::string RemoveMarks(std::string_view rendered, std::string_view mark);

// As runtime::EncodePrompt, with the marks as borders that no token crosses. A tokenizer that
// begins every text with a space, also behind special tokens, may put one behind a border.
Result<std::vector<std::int32_t>> EncodeMarked(const runtime::TextSetup& text,
                                               std::string_view rendered, std::string_view mark);

}  // namespace hone::chat
