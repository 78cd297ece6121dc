// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The text of a model, while it streams, as thinking, content and tool calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/marker_scanner.h"
#include "chat/tool_call_parser.h"
#include "chat/tool_event.h"
#include "chat/tool_family.h"
#include "chat/tool_set.h"

namespace hone::chat {

struct OutputOptions {
  // The model's marks around its thinking, "<think>" and "</think>"; both empty if it has none.
  std::string think_start, think_end;
  // The prompt has opened the thinking already (PromptOpensThinking).
  bool starts_in_thinking = false;
  const ToolFamily* family = nullptr;  // null: no calls can be read
  ToolParserOptions tools;
};

// Whether a rendered prompt ends in think_start, with nothing but white space behind it. White
// space at the end of both is left out.
bool PromptOpensThinking(std::string_view prompt, std::string_view think_start);

// Thinking is what the prompt opened, or what think_start at the very begin of the output (white
// space may be in front) opens; think_end closes it, or the end of the output. Later marks are
// content. Calls inside the thinking are thinking.
//
// White space. Line ends at both ends of the thinking, and behind think_end, are left out; so is
// all white space around calls that has no content on both sides. Everything else comes as the
// model wrote it.
//
// Events hold whole UTF-8 characters if the text is UTF-8, however it is cut. How it is cut changes
// nothing but where neighbouring events of one kind are divided (JoinEvents). One thread at a time.
class OutputParser {
 public:
  OutputParser(OutputOptions options, ToolSet tools);
  OutputParser(const OutputParser&) = delete;
  OutputParser& operator=(const OutputParser&) = delete;

  std::vector<Event> Push(std::string_view text);
  // The output ends here. Nothing may be pushed after it.
  std::vector<Event> Finish();

  bool in_call() const { return parser_.in_call(); }
  // The last bytes of the thinking may begin the mark that closes it.
  bool may_close_thinking() const { return place_ == Place::kThinking && !end_.empty(); }
  // They do, but the rest of the mark will not come.
  void DropOpenMark() { end_.Take(); }
  bool in_thinking() const { return place_ == Place::kThinking || place_ == Place::kOpened; }

 private:
  enum class Place : std::uint8_t {
    kStart,   // may begin with think_start
    kOpened,  // the prompt opened the thinking; the model may repeat think_start
    kThinking,
    kAnswer,
  };

  void StartByte(char c);
  void LeaveStart();
  void ThinkingByte(char c);
  void AddThinking(std::string_view text);
  void AddAnswer(std::string_view text);
  void AddAnswerEvents(const std::vector<Event>& events);
  void AddContent(const Event& event);
  std::vector<Event> TakeEvents(bool all);

  const OutputOptions options_;
  const ToolSet tools_;
  ToolCallParser parser_;
  MarkerScanner end_;  // of the thinking
  Place place_;
  std::string start_space_, start_mark_;  // kStart, kOpened: what may still be think_start
  std::string line_ends_;                 // of the thinking, held back
  std::string space_;                     // of the content, held back
  bool malformed_ = false;                // what the last content was
  bool any_thinking_ = false;
  bool thought_ = false;  // there was a thinking, if an empty one
  bool any_content_ = false;
  bool any_call_ = false;
  std::vector<Event> events_;
  std::optional<Event> cut_;  // the begin of a character whose end has not come
};

}  // namespace hone::chat
