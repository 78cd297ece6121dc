// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_event.h"

#include <algorithm>
#include <utility>

namespace hone::chat {
namespace {

bool IsText(EventKind kind) {
  return kind == EventKind::kThinking || kind == EventKind::kContent ||
         kind == EventKind::kCallArguments;
}

}  // namespace

const char* EventKindName(EventKind kind) {
  switch (kind) {
    case EventKind::kThinking:
      return "thinking";
    case EventKind::kContent:
      return "content";
    case EventKind::kCallBegin:
      return "call begin";
    case EventKind::kCallArguments:
      return "call arguments";
    case EventKind::kCallEnd:
      return "call end";
    case EventKind::kMalformed:
      return "malformed";
  }
  return "?";
}

void AddEvent(Event event, std::vector<Event>& events) {
  if (IsText(event.kind)) {
    if (event.text.empty()) return;
    if (!events.empty()) {
      Event& last = events.back();
      if (last.kind == event.kind && last.call == event.call && last.malformed == event.malformed) {
        last.text += event.text;
        return;
      }
    }
  }
  events.push_back(std::move(event));
}

std::vector<Event> JoinEvents(const std::vector<Event>& events) {
  std::vector<Event> joined;
  for (const Event& event : events) AddEvent(event, joined);
  return joined;
}

std::size_t OpenUtf8Bytes(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, text.size()); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;  // inside a character
    const std::size_t length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return length > n ? n : 0;
  }
  return 0;
}

}  // namespace hone::chat
