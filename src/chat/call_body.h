// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Readers of tool calls, one for each way to write them. Each is a state machine over bytes, so how
// the text was cut into pieces cannot matter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "chat/call_writer.h"
#include "chat/tool_family.h"

namespace hone::chat {

enum class BodyState : std::uint8_t {
  kMore,
  kEnd,     // the byte is the last one of the calls
  kText,    // no more calls: the bytes since the last call are ordinary text
  kBroken,  // the bytes since the last call are no call; the writer may know why
};

class CallBody {
 public:
  virtual ~CallBody() = default;
  // The next byte after the marker; for a bare call its first byte too. A call that is whole but
  // wrong (the name of no tool) is the writer's matter: the body reads on behind it.
  virtual BodyState Push(char c) = 0;
  // Whether the output may end here: no call has been begun since the last one.
  virtual bool MayEnd() const = 0;
};

// bare: no marker came before. The writer must outlive the body.
std::unique_ptr<CallBody> MakeJsonBody(const ToolFamily& family, bool bare, CallWriter& out);
std::unique_ptr<CallBody> MakeNamedJsonBody(const ToolFamily& family, CallWriter& out);
std::unique_ptr<CallBody> MakeParamXmlBody(CallWriter& out);
// in_tags: the marker was the family's, not <function=.
std::unique_ptr<CallBody> MakeFunctionXmlBody(const ToolFamily& family, bool in_tags,
                                              CallWriter& out);
std::unique_ptr<CallBody> MakePythonBody(const ToolFamily& family, bool bare, CallWriter& out);

// Follows a fixed text byte by byte.
class WordMatcher {
 public:
  enum class State : std::uint8_t { kMore, kDone, kWrong };
  explicit WordMatcher(std::string_view word) : word_(word) {}
  State Push(char c) {
    if (at_ >= word_.size() || word_[at_] != c) return State::kWrong;
    return ++at_ == word_.size() ? State::kDone : State::kMore;
  }
  bool empty() const { return word_.empty(); }
  bool begun() const { return at_ > 0; }
  void Reset() { at_ = 0; }

 private:
  std::string_view word_;
  std::size_t at_ = 0;
};

}  // namespace hone::chat
