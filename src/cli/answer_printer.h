// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// An answer as a person reads it, while it comes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "chat/tool_event.h"

namespace hone::cli {

struct PrinterOptions {
  bool terminal = false;       // control characters of the model are shown, not obeyed
  bool dim = false;            // thinking is dimmed
  bool hide_thinking = false;  // a terminal shows one line instead
};

// Thinking and content with an empty line between them. One thread at a time.
class AnswerPrinter {
 public:
  using Out = std::function<void(std::string_view text)>;

  AnswerPrinter(const PrinterOptions& options, Out out);
  void Add(const chat::Event& event);
  // Ends the line, and what is dim.
  void Finish();

 private:
  enum class Part : std::uint8_t { kNothing, kThinking, kContent };

  void Begin(Part part);
  void Print(std::string_view text);

  const PrinterOptions options_;
  Out out_;
  Part part_ = Part::kNothing;
};

}  // namespace hone::cli
