// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/chat_prompt.h"

#include <algorithm>
#include <utility>

#include "cli/model_options.h"

namespace hone::cli {
namespace {

std::string FullText(std::int64_t tokens, std::int64_t context) {
  return StrCat("the conversation would have ", tokens, " tokens, but the context holds ", context,
                ", and the answer needs at least one of them");
}

chat::ChatRequest MakeRequest(const chat::ChatModel& model, const Json::Array& messages,
                              runtime::Think think) {
  chat::ChatRequest request;
  request.messages = messages;
  if (think == runtime::Think::kOff) request.thinking.mode = chat::ThinkingMode::kOff;
  if (think == runtime::Think::kOn && model.has_thinking()) {
    request.thinking.mode = chat::ThinkingMode::kOn;
  }
  return request;
}

}  // namespace

Result<ChatPrompt> MakeChatPrompt(const chat::ChatModel& model, const Json::Array& messages,
                                  const PromptOptions& options) {
  chat::PromptLimits limits;
  limits.on_full = options.on_full;
  limits.reserve = options.reserve;
  limits.local_now = LocalNow();
  auto made = chat::MakePrompt(model, MakeRequest(model, messages, options.think), limits);
  ChatPrompt prompt;
  if (!made.ok()) {
    const chat::RequestError& error = made.error();
    if (error.kind != chat::RequestError::Kind::kContext) return Status(error.code, error.message);
    prompt.full = FullText(error.n_prompt, error.n_ctx);
    return prompt;
  }
  prompt.ids = std::move(made->ids);
  prompt.opens_thinking = made->opens_thinking;
  prompt.dropped_messages = made->dropped_messages;
  const auto tokens = static_cast<std::int64_t>(prompt.ids.size());
  if (tokens >= model.context()) prompt.full = FullText(tokens, model.context());
  return prompt;
}

void DropMessages(Json::Array& messages, std::int64_t count) {
  const bool system = !messages.empty() && messages[0].Find("role")->AsString() == "system";
  const auto begin = messages.begin() + (system ? 1 : 0);
  messages.erase(begin, begin + std::min<std::ptrdiff_t>(count, messages.end() - begin));
}

Result<TokenCounts> CountTokens(const chat::ChatModel& model, const Json::Array& messages,
                                runtime::Think think) {
  TokenCounts counts;
  if (messages.empty()) return counts;
  chat::ChatRequest request = MakeRequest(model, messages, think);
  request.add_generation_prompt = false;
  chat::PromptLimits limits;
  limits.local_now = LocalNow();
  const auto made = chat::MakePrompt(model, request, limits);
  if (made.ok()) {
    counts.total = static_cast<std::int64_t>(made->ids.size());
  } else if (made.error().kind == chat::RequestError::Kind::kContext) {
    counts.total = made.error().n_prompt;
  } else {
    return Status(made.error().code, made.error().message);
  }
  for (const Json& message : messages) {
    bridge::EncodeOptions plain;
    plain.parse_special_tokens = false;
    HONE_ASSIGN(const auto ids,
                model.text().tokenizer->Encode(message.Find("content")->AsString(), plain));
    counts.messages.push_back(static_cast<std::int64_t>(ids.size()));
  }
  return counts;
}

}  // namespace hone::cli
