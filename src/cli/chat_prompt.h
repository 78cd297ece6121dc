// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The prompt of a conversation, and what to do if it does not fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "chat/chat_model.h"
#include "chat/prompt.h"
#include "runtime/chat.h"

namespace hone::cli {

struct PromptOptions {
  runtime::Think think = runtime::Think::kAuto;
  chat::OnFull on_full = chat::OnFull::kError;
  // kTrim: tokens that the answer wants. The last turn stays, even if it leaves less room.
  std::int64_t reserve = 1;
};

struct ChatPrompt {
  std::vector<std::int32_t> ids;
  bool opens_thinking = false;
  // Of kTrim: so many of the oldest messages, but for the system message, are not in the prompt.
  std::int64_t dropped_messages = 0;
  // Not empty: there is no room for an answer. One sentence with the numbers.
  std::string full;
};

// Names of control tokens in the messages are text. Thinking that the model cannot switch stays as
// it is. Errors are those of rendering and encoding.
Result<ChatPrompt> MakeChatPrompt(const chat::ChatModel& model, const Json::Array& messages,
                                  const PromptOptions& options);

// Takes the messages out that a prompt left out.
void DropMessages(Json::Array& messages, std::int64_t count);

// Tokens of a conversation without the beginning of an answer, and of each message's content alone.
struct TokenCounts {
  std::int64_t total = 0;
  std::vector<std::int64_t> messages;
};
Result<TokenCounts> CountTokens(const chat::ChatModel& model, const Json::Array& messages,
                                runtime::Think think);

}  // namespace hone::cli
