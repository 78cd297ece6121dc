// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/reply_reader.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

namespace hone::chat {
namespace {

const bridge::Tokenizer* TokenizerOf(const ChatModel& model) {
  return model.text().tokenizer ? &*model.text().tokenizer : nullptr;
}

std::set<std::int32_t> ShownIds(const ChatModel& model, const AnswerPlan& plan) {
  if (!plan.is_chat) return {};
  return model.shown_ids(/*with_tools=*/plan.family != nullptr);
}

OutputOptions ParserOptions(const ChatModel& model, const AnswerPlan& plan) {
  OutputOptions options;
  if (model.has_thinking()) {
    options.think_start = model.text().think_start;
    options.think_end = model.text().think_end;
    options.starts_in_thinking = plan.starts_in_thinking;
  }
  options.family = plan.family;
  // Only a grammar can promise that what begins like a call becomes one.
  options.tools.early = plan.calls_are_bound;
  return options;
}

}  // namespace

ReplyReader::ReplyReader(const ChatModel& model, const AnswerPlan& plan,
                         std::vector<std::string> stops, Sink sink)
    : sink_(std::move(sink)),
      filter_(std::move(stops)),
      stream_(
          TokenizerOf(model), /*skip_special=*/true, model.text().stop_strings,
          [this](std::string_view text) { Read(text); }, ShownIds(model, plan)) {
  if (plan.is_chat) parser_.emplace(ParserOptions(model, plan), plan.tools);
}

Status ReplyReader::Push(std::int32_t id, std::optional<TokenScore> score) {
  if (stopped()) return Status();
  if (score) {
    scored_ = true;
    trace_.AddToken(*std::move(score));
  }
  HONE_ASSIGN(const bool stopped, stream_.Push(id));
  stopped_ = stopped;
  Send();
  return Status();
}

Status ReplyReader::Finish(std::string_view kept, bool cuts_mark) {
  HONE_TRY(stream_.Finish(kept));
  if (parser_ && cuts_mark) parser_->DropOpenMark();
  if (parser_) Take(parser_->Finish());
  CloseCall();
  if (scored_ && !filter_.stopped() && !in_thinking()) AddContent("", trace_.TakeWaiting());
  ReleaseHeld();
  Send();
  return Status();
}

void ReplyReader::Read(std::string_view text) {
  if (scored_) trace_.AddText(text);
  if (!parser_) {
    begun_ = true;
    return AddContent(text, scored_ ? trace_.Take(text) : std::vector<PlacedToken>());
  }
  if (!scored_) return Take(parser_->Push(text));
  // One byte at a time tells where content begins and ends.
  for (const char c : text) ReadByte(c);
}

void ReplyReader::ReadByte(char c) {
  if (filter_.stopped()) return;
  const bool was_thinking = parser_->in_thinking();
  const bool was_call = parser_->in_call();
  const std::vector<Event> events = parser_->Push({&c, 1});
  Take(events);
  const bool has_content = std::any_of(events.begin(), events.end(), [](const Event& event) {
    return event.kind == EventKind::kContent;
  });
  if (has_content) return;
  if (was_thinking != parser_->in_thinking()) trace_.PassThinking();
  if (was_call && !parser_->in_call()) trace_.PassCall();
}

void ReplyReader::Take(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (!filter_.stopped()) TakeEvent(event);
  }
}

void ReplyReader::TakeEvent(const Event& event) {
  if (event.kind != EventKind::kThinking && event.kind != EventKind::kMalformed) begun_ = true;
  switch (event.kind) {
    case EventKind::kThinking:
      Last<ThinkingDelta>().text += event.text;
      return;
    case EventKind::kContent:
      if (drops_malformed_ && event.malformed) return;
      drops_malformed_ = false;
      return AddContent(event.text, scored_ ? trace_.Take(event.text) : std::vector<PlacedToken>());
    case EventKind::kCallBegin:
      ReleaseHeld();  // stop strings do not reach across calls
      call_is_open_ = true;
      out_.push_back(ToolCallBegin{event.text});
      return;
    case EventKind::kCallArguments:
      Last<ToolCallArguments>().text += event.text;
      return;
    case EventKind::kCallEnd:
      if (scored_) trace_.PassCall();
      drops_malformed_ = false;
      return CloseCall();
    case EventKind::kMalformed:
      // Given out in part: it ends here, and its text must not come a second time.
      drops_malformed_ = call_is_open_;
      return CloseCall();
  }
}

void ReplyReader::AddContent(std::string_view text, std::vector<PlacedToken> tokens) {
  ContentDelta certain;
  filter_.Add(text, std::move(tokens), certain);
  Append(std::move(certain));
}

void ReplyReader::ReleaseHeld() {
  ContentDelta rest;
  filter_.Finish(rest);
  Append(std::move(rest));
}

void ReplyReader::Append(ContentDelta delta) {
  if (delta.text.empty() && delta.tokens.empty()) return;
  ContentDelta& last = Last<ContentDelta>();
  last.text += delta.text;
  std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(last.tokens));
}

void ReplyReader::CloseCall() {
  if (std::exchange(call_is_open_, false)) out_.push_back(ToolCallEnd{});
}

void ReplyReader::Send() {
  for (AnswerEvent& event : std::exchange(out_, {})) {
    if (sink_) sink_(std::move(event));
  }
}

// The last event of this push, if it is of this kind; else a new one.
template <typename Delta>
Delta& ReplyReader::Last() {
  if (out_.empty() || !std::holds_alternative<Delta>(out_.back())) out_.push_back(Delta{});
  return std::get<Delta>(out_.back());
}

}  // namespace hone::chat
