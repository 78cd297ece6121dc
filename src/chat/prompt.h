// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// From a request to the ids of a prompt and a plan for the answer. Everything that is wrong with a
// request is found here, before anything is computed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/grammar.h"
#include "chat/chat_model.h"
#include "chat/chat_request.h"
#include "chat/request_error.h"
#include "chat/tool_set.h"

namespace hone::chat {

enum class OnFull : std::uint8_t {
  kError,  // a prompt that does not fit is refused
  kTrim,   // the oldest turns leave
};
struct PromptLimits {
  std::int64_t context = 0;  // tokens of a sequence; 0: the model's
  OnFull on_full = OnFull::kError;
  // kTrim: tokens that the answer wants. Turns leave until there is room for them, but if the last
  // turn alone leaves less room that is no error.
  std::int64_t reserve = 1;
  // Names of control tokens in the text of messages become these tokens. Else they are text.
  bool allow_control_tokens = false;
  std::int64_t local_now = 0;  // seconds of the local wall clock, for templates; 0: now
};

// How the answer to a prompt is chosen and read. Cheap to copy; copies share the grammar, from
// which each answer takes a clone.
struct AnswerPlan {
  bool is_chat = false;             // false: all text is content, without channels and calls
  bool starts_in_thinking = false;  // the prompt opened the channel
  bool thinking_off = false;        // the answer must not open it
  std::optional<std::int64_t> thinking_budget = {};
  const ToolFamily* family = nullptr;  // null: no calls are read
  ToolSet tools = {};
  bool calls_are_bound = false;  // the grammar lets no call through that is wrong
  // What the answer must match; null: it is free.
  std::shared_ptr<const bridge::TokenMatcher> matcher = {};
  std::string prediction = {};
};

struct Prompt {
  std::vector<std::int32_t> ids;
  std::string text;  // as rendered
  bool opens_thinking = false;
  std::int64_t dropped_messages = 0;  // that left the context
  std::vector<std::string> warnings;  // what the user should know; one sentence each
  AnswerPlan plan;
};

// The prompt of a chat.
RequestResult<Prompt> MakePrompt(const ChatModel& model, const ChatRequest& request,
                                 const PromptLimits& limits);
// The text of the prompt alone, as MakePrompt renders it without trimming.
RequestResult<std::string> RenderPrompt(const ChatModel& model, const ChatRequest& request,
                                        const PromptLimits& limits = {});
// The prompt of a plain completion. Names of special tokens in the text become these tokens, and
// the tokenizer adds its own in front, as for any raw text. An empty text is a BOS token, or an
// error if the model has none.
RequestResult<Prompt> MakeTextPrompt(const ChatModel& model, std::string_view text,
                                     const PromptLimits& limits);
RequestResult<Prompt> MakeIdsPrompt(const ChatModel& model, std::vector<std::int32_t> ids,
                                    const PromptLimits& limits);

}  // namespace hone::chat
