// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Whether a place in Markdown text is inside a fenced code block.
#pragma once

#include <cstdint>

namespace hone::chat {

// Follows ``` and ~~~ fences as CommonMark has them (section 4.5), without list or quote nesting.
class CodeFence {
 public:
  void Push(char c);
  // Inside a block, or on the line that opens one.
  bool inside() const { return open_ != 0; }

 private:
  enum class Line : std::uint8_t {
    kIndent,  // up to three spaces
    kRun,     // the characters of a fence
    kInfo,    // after the run of an opening fence
    kTail,    // after the run of a closing fence: spaces
    kOther,   // no fence on this line
  };

  Line line_ = Line::kIndent;
  int indent_ = 0;
  char mark_ = 0;     // of the run on this line
  int run_ = 0;       // its length
  char open_ = 0;     // of the fence that is open, or 0
  int open_run_ = 0;  // its length
};

}  // namespace hone::chat
