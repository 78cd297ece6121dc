// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/output_parser.h"

#include <algorithm>
#include <utility>

#include "chat/char_class.h"

namespace hone::chat {
namespace {

bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }

}  // namespace

bool PromptOpensThinking(std::string_view prompt, std::string_view think_start) {
  prompt = WithoutSpaceBehind(prompt);
  think_start = WithoutSpaceBehind(think_start);
  return !think_start.empty() && prompt.ends_with(think_start);
}

OutputParser::OutputParser(OutputOptions options, ToolSet tools)
    : options_(std::move(options)),
      tools_(std::move(tools)),
      parser_(options_.family, tools_, options_.tools),
      end_({options_.think_end}),
      place_(options_.starts_in_thinking ? Place::kOpened : Place::kStart),
      thought_(options_.starts_in_thinking) {
  if (options_.think_start.empty()) {
    place_ = options_.starts_in_thinking ? Place::kThinking : Place::kAnswer;
  }
}

std::vector<Event> OutputParser::Push(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (place_) {
      case Place::kStart:
      case Place::kOpened:
        StartByte(text[i]);
        break;
      case Place::kThinking:
        ThinkingByte(text[i]);
        break;
      case Place::kAnswer:
        AddAnswer(text.substr(i));
        i = text.size();
        break;
    }
  }
  return TakeEvents(/*all=*/false);
}

std::vector<Event> OutputParser::Finish() {
  if (place_ == Place::kStart || place_ == Place::kOpened) LeaveStart();
  if (place_ == Place::kThinking) AddThinking(end_.Take());
  AddAnswerEvents(parser_.Finish());
  const bool drop = any_call_ || (thought_ && !any_content_);
  if (!drop) AddEvent({EventKind::kContent, std::exchange(space_, {}), -1, malformed_}, events_);
  return TakeEvents(/*all=*/true);
}

void OutputParser::StartByte(char c) {
  if (start_mark_.empty() && IsSpace(c)) {
    start_space_.push_back(c);
    return;
  }
  start_mark_.push_back(c);
  if (start_mark_ == options_.think_start) {
    start_space_.clear();
    start_mark_.clear();
    thought_ = true;
    place_ = Place::kThinking;
  } else if (!options_.think_start.starts_with(start_mark_)) {
    LeaveStart();
  }
}

// The output does not begin with think_start.
void OutputParser::LeaveStart() {
  const std::string text = std::exchange(start_space_, {}) + std::exchange(start_mark_, {});
  if (place_ == Place::kStart) {
    place_ = Place::kAnswer;
    AddAnswer(text);
    return;
  }
  place_ = Place::kThinking;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (place_ == Place::kAnswer) return AddAnswer(std::string_view(text).substr(i));
    ThinkingByte(text[i]);
  }
}

void OutputParser::ThinkingByte(char c) {
  std::string released;
  const std::string_view mark = end_.Push(c, released);
  AddThinking(released);
  if (mark.empty()) return;
  line_ends_.clear();
  place_ = Place::kAnswer;
}

void OutputParser::AddThinking(std::string_view text) {
  for (const char c : text) {
    if (IsLineEnd(c)) {
      line_ends_.push_back(c);
      continue;
    }
    if (any_thinking_) AddEvent({EventKind::kThinking, line_ends_}, events_);
    line_ends_.clear();
    any_thinking_ = true;
    AddEvent({EventKind::kThinking, std::string(1, c)}, events_);
  }
}

void OutputParser::AddAnswer(std::string_view text) { AddAnswerEvents(parser_.Push(text)); }

void OutputParser::AddAnswerEvents(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (event.kind == EventKind::kContent) {
      AddContent(event);
      continue;
    }
    any_call_ = any_call_ || event.kind == EventKind::kCallBegin;
    AddEvent(event, events_);
  }
}

void OutputParser::AddContent(const Event& event) {
  const std::string_view text = event.text;
  malformed_ = event.malformed;
  const auto begin =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), IsSpace) - text.begin());
  space_ += text.substr(0, begin);
  if (begin == text.size()) return;
  std::size_t end = text.size();
  while (IsSpace(text[end - 1])) --end;
  Event content = event;
  content.text = std::exchange(space_, std::string(text.substr(end)));
  if (!any_content_ && any_call_) content.text.clear();
  if (!any_content_ && thought_) content.text.erase(0, content.text.find_first_not_of("\r\n"));
  any_content_ = true;
  content.text += text.substr(begin, end - begin);
  AddEvent(std::move(content), events_);
}

std::vector<Event> OutputParser::TakeEvents(bool all) {
  std::vector<Event> events;
  if (cut_) AddEvent(*std::exchange(cut_, std::nullopt), events);
  for (Event& event : events_) AddEvent(std::move(event), events);
  events_.clear();
  if (all || events.empty()) return events;
  Event& last = events.back();
  const bool is_text = last.kind == EventKind::kThinking || last.kind == EventKind::kContent ||
                       last.kind == EventKind::kCallArguments;
  const std::size_t open = is_text ? OpenUtf8Bytes(last.text) : 0;
  if (open == 0) return events;
  cut_ = last;
  cut_->text = last.text.substr(last.text.size() - open);
  last.text.resize(last.text.size() - open);
  if (last.text.empty()) events.pop_back();
  return events;
}

}  // namespace hone::chat
