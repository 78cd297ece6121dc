// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Finds tool calls in the answer of a model while it streams.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/call_body.h"
#include "chat/call_writer.h"
#include "chat/code_fence.h"
#include "chat/marker_scanner.h"
#include "chat/tool_event.h"
#include "chat/tool_family.h"
#include "chat/tool_set.h"

namespace hone::chat {

struct ToolParserOptions {
  // Events of a call come as soon as they are certain, not when the call is whole. A call that
  // breaks off later is reported as kMalformed with the index of what was begun.
  bool early = false;
};

// Text in, events in the order of the text out. How the text is cut into pieces changes nothing but
// where neighbouring events of one kind are divided. Text inside a fenced code block is content.
// What begins like a call and is none comes as kMalformed and then as content with the malformed
// flag: a call that is whole but wrong alone, else all up to the closing marker of the family, or
// up to the end of the output if it has none. One thread at a time.
class ToolCallParser {
 public:
  // Without a family or without tools all text is content. Both must outlive the parser.
  ToolCallParser(const ToolFamily* family, const ToolSet& tools, const ToolParserOptions& options);
  ToolCallParser(const ToolCallParser&) = delete;
  ToolCallParser& operator=(const ToolCallParser&) = delete;

  std::vector<Event> Push(std::string_view text);
  // The output ends here: what was held back comes out.
  std::vector<Event> Finish();
  // The text since a marker is a call, as far as it has come.
  bool in_call() const { return mode_ == Mode::kCall; }

 private:
  enum class Mode : std::uint8_t { kText, kCall, kSkip };

  void Byte(char c);
  void TextByte(char c);
  void SkipByte(char c);
  void CallByte(char c);
  void BeginCalls(std::string_view marker, bool bare);
  void EndCalls();
  // The bytes since the last call become content. What may begin a marker is looked at again.
  void GiveUp(bool malformed);
  // True if it has told that a call is malformed.
  bool StopCall(bool malformed);
  void AddContent(std::string_view text, bool malformed);

  const ToolFamily* family_;
  std::vector<Event> events_;
  CallWriter writer_;
  MarkerScanner open_;  // the markers that begin calls
  MarkerScanner close_;
  CodeFence fence_;
  Mode mode_ = Mode::kText;
  bool may_be_bare_;       // nothing but white space so far
  bool bare_ = false;      // the calls began without a marker
  bool any_call_ = false;  // since the marker
  bool refused_ = false;   // the last of them
  std::unique_ptr<CallBody> body_;
  std::string raw_;  // since the marker or the last call
};

}  // namespace hone::chat
