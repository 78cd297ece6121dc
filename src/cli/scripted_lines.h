// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Lines for the tests of a chat.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/line_source.h"

namespace hone::cli {

class ScriptedLines : public LineSource {
 public:
  // A line that stands for Ctrl-C.
  static constexpr const char* kInterrupt = "\x03";

  ScriptedLines(std::vector<std::string> lines, bool is_terminal = false)
      : lines_(std::move(lines)), is_terminal_(is_terminal) {}
  ScriptedLines(ScriptedLines&& o) noexcept
      : lines_(std::move(o.lines_)), is_terminal_(o.is_terminal_) {}

  LineRead Read(const std::string& prompt, std::string_view initial) override {
    prompts_.push_back(prompt);
    initials_.emplace_back(initial);
    if (next_ == lines_.size()) return {LineEvent::kEnd, ""};
    const std::string line = lines_[next_++];
    if (line == kInterrupt) return {LineEvent::kInterrupted, ""};
    return {LineEvent::kLine, line};
  }
  bool can_edit() const override { return true; }
  bool is_terminal() const override { return is_terminal_; }
  void Remember(const std::string& message) override { remembered_.push_back(message); }

  const std::vector<std::string>& prompts() const { return prompts_; }
  const std::vector<std::string>& initials() const { return initials_; }
  const std::vector<std::string>& remembered() const { return remembered_; }

 private:
  std::vector<std::string> lines_;
  bool is_terminal_;
  std::size_t next_ = 0;
  std::vector<std::string> prompts_, initials_, remembered_;
};

}  // namespace hone::cli
