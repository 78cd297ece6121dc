// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Lines become messages, which may have several lines.
#pragma once

#include <string>
#include <string_view>

#include "cli/line_source.h"

namespace hone::cli {

// Three double quotes in front of a message and behind it: what is between them, lines or not, is
// the message. Else a backslash at the end of a line, or an odd number of them, says that the next
// line belongs to it; the last backslash is left out.
class MessageBuilder {
 public:
  // A line, or several that came together (then only the end of the last one is looked at). True
  // if the message is complete.
  bool Add(std::string_view text);

  struct Message {
    std::string text;
    bool is_literal = false;  // it was in quotes, or its lines came together: it is no command
    bool quoted = false;
  };
  // The message so far. The builder is empty then.
  Message Take();

 private:
  bool Close(std::string_view text);

  Message message_;
  bool open_ = false;
  bool has_line_ = false;
};

struct MessageRead {
  LineEvent event = LineEvent::kEnd;
  std::string text;         // kLine: the message or the command; kInterrupted: what was dropped
  bool is_literal = false;  // no command, whatever it begins with
};

class MessageReader {
 public:
  // The source must outlive it.
  explicit MessageReader(LineSource& source) : source_(source) {}

  // The next message that is not blank. initial is in the first line to begin with. Input that ends
  // in the middle of a message is a message if it comes from a pipe.
  MessageRead Read(const std::string& prompt, std::string_view initial = "");

 private:
  LineSource& source_;
};

}  // namespace hone::cli
