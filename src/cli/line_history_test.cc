// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/line_history.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/file.h"
#include "base/test_folder.h"

namespace hone::cli {
namespace {

using Messages = std::vector<std::string>;

TEST(ParseHistory, ReadsWhatHistoryLineWrote) {
  const Messages messages = {"a", "b\nc\\n\\", "\\", "caf\xc3\xa9", "\"\"\"\nx\n\"\"\""};
  std::string text;
  for (const std::string& message : messages) text += HistoryLine(message);
  EXPECT_EQ(ParseHistory(text), messages);
  EXPECT_EQ(HistoryLine("b\nc\\"), "b\\nc\\\\\n");
}

TEST(ParseHistory, LeavesOutWhatIsNoMessage) {
  EXPECT_EQ(ParseHistory(""), Messages());
  EXPECT_EQ(ParseHistory("\n\na\n\n"), Messages{"a"});
  EXPECT_EQ(ParseHistory("a\xff\nb\nc\\"), (Messages{"b", "c\\"}));
  EXPECT_EQ(ParseHistory(std::string("x\0y\nb\n", 6)), Messages{"b"});
  EXPECT_EQ(ParseHistory(std::string(kMaxHistoryEntry + 1, 'x') + "\nb\n"), Messages{"b"});
}

TEST(ParseHistory, KeepsTheNewest) {
  std::string text;
  for (std::size_t i = 0; i < kMaxHistory + 5; ++i) text += StrCat(i, "\n");
  const Messages messages = ParseHistory(text);
  ASSERT_EQ(messages.size(), kMaxHistory);
  EXPECT_EQ(messages.front(), "5");
  std::string big;
  for (std::size_t i = 0; i < 100; ++i) big += std::string(kMaxHistoryEntry, 'x') + "\n";
  EXPECT_EQ(ParseHistory(big).size(), kMaxHistoryBytes / (kMaxHistoryEntry + 1));
}

TEST(LineHistory, IsTheUsersOnlyAndGrowsByAppending) {
  const TestFolder folder;
  const std::string path = folder.File("a/b/history");
  const LineHistory history(path);
  EXPECT_TRUE(history.Load()->empty());
  ASSERT_TRUE(history.Append("one").ok());
  ASSERT_TRUE(LineHistory(path).Append("two\nlines").ok());
  EXPECT_TRUE(history.Append(std::string(kMaxHistoryEntry + 1, 'x')).ok());
  EXPECT_EQ(*history.Load(), (Messages{"one", "two\nlines"}));
  struct stat st{};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(folder.File("a/b").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
}

TEST(LineHistory, WritesAFileAnewThatGrewTooLong) {
  const TestFolder folder;
  std::string text;
  for (std::size_t i = 0; i < 2 * kMaxHistory; ++i) text += StrCat(i, "\n");
  folder.Write("history", text);
  const LineHistory history(folder.File("history"));
  EXPECT_EQ(history.Load()->size(), kMaxHistory);
  EXPECT_EQ(ParseHistory(*ReadFile(folder.File("history"))).front(), StrCat(kMaxHistory));
  struct stat st{};
  ASSERT_EQ(::stat(folder.File("history").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST(LineHistory, SaysWhatCannotBeWritten) {
  const TestFolder folder;
  folder.Write("file", "x");
  EXPECT_EQ(LineHistory(folder.File("file/history")).Append("a").code(), Code::kIo);
}

TEST(HistoryPath, FollowsXdg) {
  ::setenv("HOME", "/home/x", 1);
  ::setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(HistoryPath(), "/state/hone/history");
  ::setenv("XDG_STATE_HOME", "relative", 1);
  EXPECT_EQ(HistoryPath(), "/home/x/.local/state/hone/history");
  ::unsetenv("XDG_STATE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(HistoryPath(), "");
}

}  // namespace
}  // namespace hone::cli
