// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/code_fence.h"

namespace hone::chat {
namespace {
constexpr int kMaxIndent = 3;
constexpr int kMinRun = 3;
}  // namespace

void CodeFence::Push(char c) {
  if (c == '\n') {
    if (open_ != 0 && open_run_ == 0) {
      open_run_ = run_;  // the fence is the whole line
    } else if (open_ != 0 && mark_ == open_ && run_ >= open_run_ &&
               (line_ == Line::kRun || line_ == Line::kTail)) {
      open_ = 0;
    }
    line_ = Line::kIndent;
    indent_ = run_ = 0;
    mark_ = 0;
    return;
  }
  switch (line_) {
    case Line::kIndent:
      if (c == ' ' && indent_ < kMaxIndent) {
        ++indent_;
      } else if ((c == '`' || c == '~') && (open_ == 0 || c == open_)) {
        mark_ = c;
        run_ = 1;
        line_ = Line::kRun;
      } else {
        line_ = Line::kOther;
      }
      break;
    case Line::kRun:
      if (c == mark_) {
        ++run_;
        if (open_ == 0 && run_ >= kMinRun) {
          open_ = mark_;
          open_run_ = 0;  // not before the run ends
        }
        break;
      }
      if (run_ < kMinRun) {
        line_ = Line::kOther;
      } else if (open_run_ == 0) {
        open_run_ = run_;
        line_ = Line::kInfo;
      } else {
        line_ = c == ' ' || c == '\t' || c == '\r' ? Line::kTail : Line::kOther;
      }
      break;
    case Line::kInfo:
      // "```x``` is code in a line", no fence.
      if (c == '`' && mark_ == '`') {
        open_ = 0;
        line_ = Line::kOther;
      }
      break;
    case Line::kTail:
      if (c != ' ' && c != '\t' && c != '\r') line_ = Line::kOther;
      break;
    case Line::kOther:
      break;
  }
}

}  // namespace hone::chat
