// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// From the words of the conversation library to those of the API: events, errors, echoes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "chat/model_host.h"
#include "chat/prompt.h"
#include "serve/openai/events.h"

namespace hone::serve {

// field: where a prompt, or what is said about thinking, is in the request; other parts have one
// name. "": the name of the part.
openai::ApiError ToApiError(const chat::RequestError& error, std::string field = "");

// How a prompt is repeated in front of its answer.
struct Echo {
  std::string text;
  // Tokens at the beginning that are not in the text, such as BOS in front of a given text.
  std::size_t unseen_tokens = 0;
  // The bytes of the first token behind them begin with a space that the tokenizer has put there.
  bool added_space = false;
};
// Of a prompt of ids the text has the names of special tokens.
std::vector<Echo> MakeEchoes(const chat::ChatModel& model, std::span<const chat::Prompt> prompts);

// What the client should know of its prompts, each sentence once.
std::vector<std::string> PromptWarnings(std::span<const chat::Prompt> prompts);

struct EventSettings {
  std::int64_t n = 1;
  std::vector<Echo> echoes = {};  // of each prompt, if they are asked for
  std::vector<std::string> warnings = {};
  std::function<void(const Status& status, const chat::JobUsage& usage)> on_end = {};
};

// Passes the events of a job on.
class EventAdapter final : public chat::JobSink {
 public:
  EventAdapter(std::shared_ptr<openai::EventSink> sink, EventSettings settings)
      : sink_(std::move(sink)), settings_(std::move(settings)) {}

  bool OnAnswer(std::int64_t choice, chat::AnswerEvent event) override;
  bool OnEcho(std::int64_t choice, std::span<const chat::TokenScore> scores) override;
  bool OnProgress(std::int64_t done_tokens, std::int64_t total_tokens) override;
  void OnEnd(const Status& status, const chat::JobUsage& usage) override;

 private:
  bool Send(openai::Event event);

  std::shared_ptr<openai::EventSink> sink_;
  EventSettings settings_;
};

}  // namespace hone::serve
