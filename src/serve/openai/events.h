// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a model produces while it answers, without any wire format: the builders of responses read
// these events, the conversation library sends them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "chat/answer_event.h"
#include "serve/openai/api_error.h"

namespace hone::serve::openai {

using chat::TokenCandidate;
using chat::TokenScore;

// Of one choice, as the conversation library tells them.
using chat::ContentDelta;
using chat::ThinkingDelta;
using chat::ToolCallArguments;
using chat::ToolCallBegin;
using chat::ToolCallEnd;

// Only for completions with echo: the prompt, before anything else of its choice. tokens only if
// logprobs were asked for.
struct PromptEcho {
  std::string text;
  std::vector<TokenScore> tokens = {};
};

enum class EndReason : std::uint8_t {
  kStop,    // stop token, stop string, or the calls of tools are complete
  kLength,  // max_tokens, or the context is full
};
// The last event of a choice. Tool calls make the finish_reason "tool_calls" from kStop.
struct ChoiceEnd {
  EndReason reason = EndReason::kStop;
};

// Something that the client should know, such as turns that left the context. Belongs to no choice.
struct Warning {
  std::string text;
};
// The prompt is being computed; streams carry it as a comment, so that nobody gives up waiting.
struct Progress {
  std::int64_t done_tokens = 0, total_tokens = 0;
};

struct Event {
  // 0 to GenerateRequest::NumChoices() - 1: choice c answers prompt c / n.
  std::int64_t choice = 0;
  std::variant<ContentDelta, ThinkingDelta, ToolCallBegin, ToolCallArguments, ToolCallEnd,
               PromptEcho, ChoiceEnd, Warning, Progress>
      what;
};

// Of the whole request: all prompts and choices.
struct Usage {
  std::int64_t prompt_tokens = 0;      // a prompt that n choices share counts once
  std::int64_t completion_tokens = 0;  // thinking included
  std::int64_t reasoning_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, not computed anew
};

// Receives the events of one request, from one thread at a time; must not block it.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // False: nobody listens any more, so the request should end as if it were cancelled.
  virtual bool OnEvent(const Event& event) = 0;
  // One of these two, once, last. OnError before the first event becomes an HTTP error.
  virtual void OnDone(const Usage& usage) = 0;
  virtual void OnError(const ApiError& error) = 0;
};

}  // namespace hone::serve::openai
