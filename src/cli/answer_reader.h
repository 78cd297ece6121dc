// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a model generates, as thinking and content.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/output_parser.h"
#include "runtime/engine.h"

namespace hone::cli {

// Takes what runtime::Generate reports. One thread at a time.
class AnswerReader {
 public:
  using Sink = std::function<void(const chat::Event& event)>;

  // starts_in_thinking: the prompt has opened the thinking. sink receives thinking and content as
  // they become certain; it may be empty.
  AnswerReader(const runtime::TextSetup& text, bool starts_in_thinking, Sink sink);

  // For GenerateOptions::on_text and on_token: markers that are special tokens have no text.
  void Text(std::string_view text) { Give(parser_.Push(text)); }
  void Token(std::int32_t id);
  // The answer ends here.
  void Finish() { Give(parser_.Finish()); }

  const std::string& content() const { return content_; }
  const std::string& thinking() const { return thinking_; }
  // {"role": "assistant", "content": ...}, with "reasoning_content" if there was thinking.
  Json Message() const;

 private:
  void Give(const std::vector<chat::Event>& events);

  chat::OutputParser parser_;
  std::map<std::int32_t, std::string> hidden_markers_;
  Sink sink_;
  std::string content_, thinking_;
};

}  // namespace hone::cli
