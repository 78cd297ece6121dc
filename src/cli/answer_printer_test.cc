// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/answer_printer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hone::cli {
namespace {

using chat::Event;
using chat::EventKind;

std::string Print(const PrinterOptions& options, const std::vector<Event>& events) {
  std::string out;
  AnswerPrinter printer(options, [&](std::string_view text) { out += text; });
  for (const Event& event : events) printer.Add(event);
  printer.Finish();
  return out;
}

const std::vector<Event> kBoth = {{EventKind::kThinking, "Hm"},
                                  {EventKind::kThinking, "m."},
                                  {EventKind::kContent, "Yes"},
                                  {EventKind::kContent, "."}};

TEST(AnswerPrinter, PutsAnEmptyLineBehindTheThinking) {
  EXPECT_EQ(Print({}, kBoth), "Hmm.\n\nYes.\n");
  EXPECT_EQ(Print({}, {{EventKind::kContent, "Yes."}}), "Yes.\n");
  EXPECT_EQ(Print({}, {}), "\n");
}

TEST(AnswerPrinter, DimsTheThinkingOnATerminal) {
  EXPECT_EQ(Print({.terminal = true, .dim = true}, kBoth), "\x1b[2mHmm.\x1b[0m\n\nYes.\n");
  EXPECT_EQ(Print({.terminal = true, .dim = true}, {{EventKind::kThinking, "Hm"}}),
            "\x1b[2mHm\x1b[0m\n");
  EXPECT_EQ(Print({.terminal = true}, kBoth), "Hmm.\n\nYes.\n");
}

TEST(AnswerPrinter, HidesTheThinking) {
  EXPECT_EQ(Print({.hide_thinking = true}, kBoth), "Yes.\n");
  EXPECT_EQ(Print({.terminal = true, .hide_thinking = true}, kBoth), "(thinking, hidden)\nYes.\n");
  EXPECT_EQ(
      Print({.terminal = true, .dim = true, .hide_thinking = true}, {{EventKind::kThinking, "Hm"}}),
      "\x1b[2m(thinking, hidden)\n\x1b[0m");
}

TEST(AnswerPrinter, ShowsControlCharactersOnATerminalOnly) {
  const std::vector<Event> title = {{EventKind::kContent, "\x1b]0;x\x07\tb\n\xc2\x9b"}};
  EXPECT_EQ(Print({.terminal = true}, title), "\\x1b]0;x\\x07\tb\n\\x9b\n");
  EXPECT_EQ(Print({}, title), "\x1b]0;x\x07\tb\n\xc2\x9b\n");
}

}  // namespace
}  // namespace hone::cli
