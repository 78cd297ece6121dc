// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/message_reader.h"

#include <gtest/gtest.h>

#include "cli/scripted_lines.h"

namespace hone::cli {
namespace {

// The first message of these lines.
MessageRead ReadFirst(ScriptedLines lines) { return MessageReader(lines).Read("> "); }

TEST(MessageReader, TakesALineAsAMessage) {
  const MessageRead read = ReadFirst({{"", " \t", "Hello. "}});
  EXPECT_EQ(read.event, LineEvent::kLine);
  EXPECT_EQ(read.text, "Hello. ");
  EXPECT_FALSE(read.is_literal);
}

TEST(MessageReader, TakesWhatIsBetweenQuotes) {
  EXPECT_EQ(ReadFirst({{"\"\"\"", "a", "", "  b", "\"\"\""}}).text, "a\n\n  b");
  EXPECT_EQ(ReadFirst({{"\"\"\"a", "b\"\"\"  ", "c"}}).text, "a\nb");
  EXPECT_EQ(ReadFirst({{"  \"\"\"/help\"\"\""}}).text, "/help");
  EXPECT_TRUE(ReadFirst({{"\"\"\"/help\"\"\""}}).is_literal);
  EXPECT_EQ(ReadFirst({{"\"\"\"\"\"\"", "next"}}).text, "next");  // nothing between them
  EXPECT_EQ(ReadFirst({{"\"\"\"", "a\\", "\"\"\""}}).text, "a\\");
}

TEST(MessageReader, GoesOnBehindABackslash) {
  EXPECT_EQ(ReadFirst({{"a\\", "b\\", "c", "d"}}).text, "a\nb\nc");
  EXPECT_EQ(ReadFirst({{"a\\\\", "b"}}).text, "a\\\\");
  EXPECT_EQ(ReadFirst({{"a\\\\\\", "b"}}).text, "a\\\\\nb");
  EXPECT_FALSE(ReadFirst({{"/system a\\", "b"}}).is_literal);
}

TEST(MessageReader, TakesPastedLinesAsOneMessage) {
  const MessageRead read = ReadFirst({{"/usr/bin\\\nb", "c"}});
  EXPECT_EQ(read.text, "/usr/bin\\\nb");
  EXPECT_TRUE(read.is_literal);
  EXPECT_EQ(ReadFirst({{"\"\"\"\na\nb\n\"\"\""}}).text, "a\nb");
  EXPECT_EQ(ReadFirst({{"\"\"\"\na", "b\nc\"\"\""}}).text, "a\nb\nc");
}

TEST(MessageReader, EndsAnOpenMessageWithTheInputOnlyInAPipe) {
  EXPECT_EQ(ReadFirst({{"\"\"\"", "a", "b"}}).text, "a\nb");
  EXPECT_EQ(ReadFirst({{"a\\"}}).text, "a");
  EXPECT_EQ(ReadFirst({{"\"\"\""}}).event, LineEvent::kEnd);
  EXPECT_EQ(ReadFirst({{"\"\"\"", "a"}, /*is_terminal=*/true}).event, LineEvent::kEnd);
  EXPECT_EQ(ReadFirst({{}}).event, LineEvent::kEnd);
}

TEST(MessageReader, DropsAnOpenMessageAtAnInterrupt) {
  ScriptedLines lines({"a\\", ScriptedLines::kInterrupt, "b"}, true);
  MessageReader reader(lines);
  MessageRead read = reader.Read("> ");
  EXPECT_EQ(read.event, LineEvent::kInterrupted);
  EXPECT_FALSE(read.text.empty());
  read = reader.Read("> ");
  EXPECT_EQ(read.text, "b");
}

TEST(MessageReader, AsksAndRemembers) {
  ScriptedLines lines({"\"\"\"", "a", "\"\"\"", "b\\", "c"}, true);
  MessageReader reader(lines);
  EXPECT_EQ(reader.Read("> ", "old").text, "a");
  EXPECT_EQ(reader.Read("> ").text, "b\nc");
  EXPECT_EQ(lines.prompts(), (std::vector<std::string>{"> ", ". ", ". ", "> ", ". "}));
  EXPECT_EQ(lines.initials(), (std::vector<std::string>{"old", "", "", "", ""}));
  EXPECT_EQ(lines.remembered(), (std::vector<std::string>{"\"\"\"\na\n\"\"\"", "b\nc"}));
}

}  // namespace
}  // namespace hone::cli
