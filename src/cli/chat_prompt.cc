// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/chat_prompt.h"

#include <algorithm>
#include <utility>

#include "chat/output_parser.h"
#include "cli/model_options.h"

namespace hone::cli {
namespace {

bool HasRole(const Json& message, std::string_view role) {
  return message.Find("role")->AsString() == role;
}

std::size_t SystemCount(const Json::Array& messages) {
  return !messages.empty() && HasRole(messages[0], "system") ? 1 : 0;
}

// Messages of the oldest turn: those behind the system message up to the next one of the user. 0
// if that is the last turn.
std::int64_t OldestTurn(const Json::Array& messages) {
  const std::size_t begin = SystemCount(messages);
  for (std::size_t i = begin + 1; i < messages.size(); ++i) {
    if (HasRole(messages[i], "user")) return static_cast<std::int64_t>(i - begin);
  }
  return 0;
}

std::string FullText(std::int64_t tokens, std::int64_t context) {
  return StrCat("the conversation would have ", tokens, " tokens, but the context holds ", context,
                ", and the answer needs at least one of them");
}

Result<ChatPrompt> MakeOnce(const runtime::Engine& engine, const Json::Array& messages,
                            runtime::Think think) {
  runtime::RenderOptions options;
  options.think = think;
  options.local_now = LocalNow();
  ChatPrompt prompt;
  HONE_ASSIGN(const std::string text, runtime::RenderChat(engine.text(), Json(messages), options));
  HONE_ASSIGN(prompt.ids, runtime::EncodePrompt(engine.text(), text));
  prompt.opens_thinking = chat::PromptOpensThinking(text, engine.text().think_start);
  return prompt;
}

}  // namespace

Result<ChatPrompt> MakeChatPrompt(const runtime::Engine& engine, const Json::Array& messages,
                                  const PromptOptions& options) {
  const std::int64_t context = engine.spec().max_positions;
  Json::Array kept = messages;
  std::int64_t dropped = 0;
  while (true) {
    HONE_ASSIGN(ChatPrompt prompt, MakeOnce(engine, kept, options.think));
    const auto tokens = static_cast<std::int64_t>(prompt.ids.size());
    const bool trims = options.on_full == OnFull::kTrim;
    const std::int64_t turn = trims ? OldestTurn(kept) : 0;
    if (turn > 0 && tokens + options.reserve > context) {
      DropMessages(kept, turn);
      dropped += turn;
      continue;
    }
    prompt.dropped_messages = dropped;
    if (tokens >= context) prompt.full = FullText(tokens, context);
    return prompt;
  }
}

void DropMessages(Json::Array& messages, std::int64_t count) {
  const auto begin = messages.begin() + static_cast<std::ptrdiff_t>(SystemCount(messages));
  messages.erase(begin, begin + std::min<std::ptrdiff_t>(count, messages.end() - begin));
}

Result<TokenCounts> CountTokens(const runtime::Engine& engine, const Json::Array& messages,
                                runtime::Think think) {
  TokenCounts counts;
  if (messages.empty()) return counts;
  const runtime::TextSetup& text = engine.text();
  if (!text.tokenizer) {
    return Status(Code::kUnsupported, StrCat("no tokenizer: ", text.tokenizer_error));
  }
  for (const Json& message : messages) {
    HONE_ASSIGN(const auto ids, text.tokenizer->Encode(message.Find("content")->AsString()));
    counts.messages.push_back(static_cast<std::int64_t>(ids.size()));
  }
  runtime::RenderOptions options;
  options.think = think;
  options.add_generation_prompt = false;
  options.local_now = LocalNow();
  HONE_ASSIGN(const std::string rendered, runtime::RenderChat(text, Json(messages), options));
  HONE_ASSIGN(const auto ids, runtime::EncodePrompt(text, rendered));
  counts.total = static_cast<std::int64_t>(ids.size());
  return counts;
}

}  // namespace hone::cli
