// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the readers of the families report a call to: it checks calls and makes events of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chat/tool_event.h"
#include "chat/tool_set.h"

namespace hone::chat {

// One call at a time: Begin and Arguments in any order, then End.
class CallWriter {
 public:
  enum class Outcome : std::uint8_t { kNone, kAccepted, kRefused };

  // Events of a call come when it is whole; with early as soon as they are certain, and a call that
  // turns out to be none is reported as kMalformed with its index. Both must outlive the writer.
  CallWriter(const ToolSet& tools, bool early, std::vector<Event>& events)
      : tools_(tools), early_(early), events_(events) {}

  bool Knows(std::string_view name) const { return tools_.Find(name) != nullptr; }
  void Begin(std::string_view name);
  void Arguments(std::string_view json);
  // The call will be refused at its end; the first reason is the one that is told.
  void Fail(std::string reason);
  // The call is whole. Without arguments they are {}. Refuses a call without a name, with the name
  // of no tool, or whose arguments are no JSON object.
  void End();
  // The text cannot be a call. Without tell no event says so.
  void Break(std::string reason, bool tell);

  bool begun() const { return begun_; }
  bool started() const { return started_; }  // kCallBegin is out
  bool failed() const { return !reason_.empty(); }
  const Tool* tool() const { return tool_; }  // null before Begin, and for the name of no tool
  // What End did, once.
  Outcome TakeOutcome();

 private:
  void Start();  // early: the events that have waited for the name
  void Refuse();
  void Reset();

  const ToolSet& tools_;
  bool early_;
  std::vector<Event>& events_;
  int next_call_ = 0;
  bool begun_ = false;
  bool started_ = false;
  std::string name_, arguments_, reason_;
  const Tool* tool_ = nullptr;
  Outcome outcome_ = Outcome::kNone;
};

}  // namespace hone::chat
