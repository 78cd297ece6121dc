// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the text of a model becomes: thinking, content and tool calls, piece by piece.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hone::chat {

enum class EventKind : std::uint8_t {
  kThinking,       // text: more of the thinking
  kContent,        // text: more of the answer
  kCallBegin,      // text: name of the tool
  kCallArguments,  // text: more of the arguments' JSON
  kCallEnd,        // text: the whole arguments, a JSON object; equal to the pieces before it
  kMalformed,      // text: why what looked like a call is none; its raw text comes as content
};
const char* EventKindName(EventKind kind);  // "thinking", "content", "call begin", ...

struct Event {
  EventKind kind = EventKind::kContent;
  std::string text;
  // Index of the call, counted from 0 in the output. For kMalformed: the call that was begun and is
  // void now, or -1 if none was begun.
  int call = -1;
  // kContent only: the raw text of a call that cannot be used.
  bool malformed = false;

  bool operator==(const Event&) const = default;
};

// Adds an event. Text of the same kind as the last event is joined to it.
void AddEvent(Event event, std::vector<Event>& events);

// Neighbours of the same kind joined: two splits of a text are equal after this.
std::vector<Event> JoinEvents(const std::vector<Event>& events);

// Number of bytes at the end of text that begin a UTF-8 character and do not complete it, 0 to 3.
std::size_t OpenUtf8Bytes(std::string_view text);

}  // namespace hone::chat
