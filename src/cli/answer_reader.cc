// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/answer_reader.h"

#include <utility>

namespace hone::cli {
namespace {

chat::OutputOptions ParserOptions(const runtime::TextSetup& text, bool starts_in_thinking) {
  chat::OutputOptions options;
  options.think_start = text.think_start;
  options.think_end = text.think_end;
  options.starts_in_thinking = starts_in_thinking;
  return options;
}

}  // namespace

AnswerReader::AnswerReader(const runtime::TextSetup& text, bool starts_in_thinking, Sink sink)
    : parser_(ParserOptions(text, starts_in_thinking), chat::ToolSet()), sink_(std::move(sink)) {
  if (!text.tokenizer) return;
  for (const bridge::AddedToken& token : text.tokenizer->added_tokens()) {
    const bool marks = token.content == text.think_start || token.content == text.think_end;
    if (token.special && marks) hidden_markers_[token.id] = token.content;
  }
}

void AnswerReader::Token(std::int32_t id) {
  const auto marker = hidden_markers_.find(id);
  if (marker != hidden_markers_.end()) Text(marker->second);
}

Json AnswerReader::Message() const {
  Json message(Json::Object{{"role", Json("assistant")}, {"content", Json(content_)}});
  if (!thinking_.empty()) message.Set("reasoning_content", Json(thinking_));
  return message;
}

void AnswerReader::Give(const std::vector<chat::Event>& events) {
  for (const chat::Event& event : events) {
    if (event.kind == chat::EventKind::kThinking) thinking_ += event.text;
    if (event.kind == chat::EventKind::kContent) content_ += event.text;
    if (sink_) sink_(event);
  }
}

}  // namespace hone::cli
