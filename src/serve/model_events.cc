// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/model_events.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

namespace hone::serve {
namespace {

openai::EndReason ToEndReason(chat::AnswerEndReason reason) {
  return reason == chat::AnswerEndReason::kLength ? openai::EndReason::kLength
                                                  : openai::EndReason::kStop;
}

struct ToEvent {
  using Out = decltype(openai::Event::what);

  Out operator()(auto delta) const { return Out(std::move(delta)); }
  Out operator()(chat::AnswerEnd end) const { return openai::ChoiceEnd{ToEndReason(end.reason)}; }
};

// Special tokens in front that the text does not spell.
std::size_t CountUnseen(const bridge::Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                        std::string_view text) {
  std::set<std::int32_t> special;
  for (const bridge::AddedToken& token : tokenizer.added_tokens()) {
    if (token.special) special.insert(token.id);
  }
  std::size_t unseen = 0;
  while (unseen < ids.size() && special.contains(ids[unseen])) {
    const auto bytes = tokenizer.TokenBytes(ids[unseen]);
    if (!bytes.ok() || text.starts_with(*bytes)) break;
    ++unseen;
  }
  return unseen;
}

// Whether the tokens spell the text with one space more in front.
bool HasAddedSpace(const bridge::Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                   std::string_view text) {
  std::size_t at = 0;  // in the space and the text
  for (const std::int32_t id : ids) {
    const auto bytes = tokenizer.TokenBytes(id);
    if (!bytes.ok()) return false;
    std::string_view rest = *bytes;
    if (at == 0 && !rest.empty()) {
      if (rest[0] != ' ') return false;
      rest.remove_prefix(1);
      at = 1;
    }
    if (rest.empty()) continue;
    if (!text.substr(at - 1).starts_with(rest)) return false;
    at += rest.size();
  }
  return at == text.size() + 1;
}

openai::ApiError EndError(const Status& status) {
  if (status.code() == Code::kCancelled) {
    return openai::Unavailable("cancelled", std::string(status.message()), 1);
  }
  if (status.code() == Code::kOutOfMemory) return openai::FromStatus(status);
  return openai::Internal(std::string(status.message()));
}

}  // namespace

openai::ApiError ToApiError(const chat::RequestError& error, std::string field) {
  using Kind = chat::RequestError::Kind;
  using Part = chat::RequestPart;
  const bool is_named = error.part == Part::kPrompt || error.part == Part::kThinking ||
                        error.part == Part::kThinkingBudget;
  std::string param =
      is_named && !field.empty() ? std::move(field) : std::string(RequestPartName(error.part));
  switch (error.kind) {
    case Kind::kContext:
      return openai::ContextOverflow(error.n_prompt, error.n_ctx, std::move(param));
    case Kind::kUnsupported:
      if (!param.empty()) return openai::UnsupportedField(std::move(param), error.message);
      break;
    case Kind::kInvalid:
      if (!param.empty()) return openai::InvalidField(std::move(param), error.message);
      break;
    case Kind::kOther:
      break;
  }
  return openai::FromStatus(Status(error.code, error.message), std::move(param));
}

std::vector<Echo> MakeEchoes(const chat::ChatModel& model, std::span<const chat::Prompt> prompts) {
  const auto& tokenizer = model.text().tokenizer;
  std::vector<Echo> echoes;
  for (const chat::Prompt& prompt : prompts) {
    Echo echo{.text = prompt.text};
    if (tokenizer) {
      const std::span<const std::int32_t> ids = prompt.ids;
      echo.unseen_tokens = CountUnseen(*tokenizer, ids, echo.text);
      echo.added_space = HasAddedSpace(*tokenizer, ids.subspan(echo.unseen_tokens), echo.text);
    }
    echoes.push_back(std::move(echo));
  }
  return echoes;
}

std::vector<std::string> PromptWarnings(std::span<const chat::Prompt> prompts) {
  std::vector<std::string> warnings;
  for (const chat::Prompt& prompt : prompts) {
    for (const std::string& warning : prompt.warnings) {
      if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) {
        warnings.push_back(warning);
      }
    }
  }
  return warnings;
}

bool EventAdapter::Send(openai::Event event) {
  for (std::string& warning : std::exchange(settings_.warnings, {})) {
    if (!sink_->OnEvent({0, openai::Warning{std::move(warning)}})) return false;
  }
  return sink_->OnEvent(event);
}

bool EventAdapter::OnAnswer(std::int64_t choice, chat::AnswerEvent event) {
  return Send({choice, std::visit(ToEvent(), std::move(event))});
}

bool EventAdapter::OnEcho(std::int64_t choice, std::span<const chat::TokenScore> scores) {
  const Echo& echo = settings_.echoes[static_cast<std::size_t>(choice / settings_.n)];
  openai::PromptEcho out{.text = echo.text, .tokens = {scores.begin(), scores.end()}};
  const std::size_t unseen = std::min(echo.unseen_tokens, out.tokens.size());
  for (std::size_t i = 0; i < unseen; ++i) out.tokens[i].bytes.clear();
  if (echo.added_space && unseen < out.tokens.size()) out.tokens[unseen].bytes.erase(0, 1);
  return Send({choice, std::move(out)});
}

bool EventAdapter::OnProgress(std::int64_t done_tokens, std::int64_t total_tokens) {
  return Send({0, openai::Progress{done_tokens, total_tokens}});
}

void EventAdapter::OnEnd(const Status& status, const chat::JobUsage& usage) {
  if (settings_.on_end) settings_.on_end(status, usage);
  if (status.ok()) {
    sink_->OnDone({.prompt_tokens = usage.prompt_tokens,
                   .completion_tokens = usage.completion_tokens,
                   .reasoning_tokens = usage.reasoning_tokens,
                   .cached_tokens = usage.cached_tokens});
  } else {
    sink_->OnError(EndError(status));
  }
}

}  // namespace hone::serve
