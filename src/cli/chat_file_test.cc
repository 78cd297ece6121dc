// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/chat_file.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/test_folder.h"

namespace hone::cli {
namespace {

constexpr const char* kTalk =
    R"([{"role":"system","content":"Be brief."},{"role":"user","content":"1\n2 \u00e9"},)"
    R"({"role":"assistant","content":"","reasoning_content":"Hm."}])";

TEST(ChatFile, ReadsWhatItWrote) {
  const TestFolder folder;
  const std::string path = folder.File("talk.json");
  auto talk = ParseMessages(kTalk);
  ASSERT_TRUE(talk.ok()) << talk.message();
  for (int i = 0; i < 2; ++i) {  // its own file is replaced
    const Status saved = SaveMessages(*talk, path, "model");
    EXPECT_TRUE(saved.ok()) << saved.message();
  }
  auto again = LoadMessages(path);
  ASSERT_TRUE(again.ok()) << again.message();
  EXPECT_EQ(Json(*again).Dump(), Json(*talk).Dump());
}

TEST(ChatFile, TakesAnObjectWithMessages) {
  auto talk = ParseMessages(R"({"model":"m","messages":[{"role":"user","content":"Hi"}]})");
  ASSERT_TRUE(talk.ok()) << talk.message();
  EXPECT_EQ(talk->size(), 1u);
  EXPECT_TRUE(ParseMessages("[]").ok());
}

TEST(ChatFile, NamesWhatIsDamaged) {
  const auto expect = [](const char* text, const char* what) {
    const auto talk = ParseMessages(text);
    EXPECT_EQ(talk.code(), Code::kDataLoss) << text;
    EXPECT_NE(talk.message().find(what), std::string::npos) << talk.message();
  };
  expect("", "is no JSON");
  expect("[{\"role\":\"user\",\"cont", "is no JSON");
  expect("7", "found an integer, expected an array");
  expect("{}", "found an object, expected an array");
  expect("[7]", "message 0: found an integer, expected an object");
  expect(R"([{"content":"x"}])", "message 0: has no text \"role\"");
  expect(R"([{"role":"user","content":"x"},{"role":"tool","content":"x"}])",
         "message 1: the role is \"tool\"");
  expect(R"([{"role":"user"}])", "message 0: has no text \"content\"");
  expect(R"([{"role":"user","content":[{"type":"text","text":"x"}]}])", "has no text \"content\"");
  expect(R"([{"role":"user","content":"x"},{"role":"system","content":"x"}])",
         "message 1: a system message can only be the first");
  expect(R"([{"role":"user","content":"x","reasoning_content":"x"}])", "\"reasoning_content\"");
  expect(R"([{"role":"assistant","content":"x","tool_calls":[]}])", "\"tool_calls\"");
  expect(R"([{"role":"assistant","content":"x","reasoning_content":7}])", "is no text");
}

TEST(ChatFile, KeepsFilesOfAnotherKind) {
  const TestFolder folder;
  folder.Write("notes.txt", "[1, 2]");
  EXPECT_EQ(SaveMessages({}, folder.File("notes.txt"), "model").code(), Code::kInvalidArgument);
  EXPECT_EQ(*ReadFile(folder.File("notes.txt")), "[1, 2]");
  EXPECT_EQ(SaveMessages({}, folder.File("none/talk.json"), "model").code(), Code::kNotFound);
  EXPECT_FALSE(LoadMessages(folder.File("none.json")).ok());
}

TEST(TypedPath, KnowsTheUsersFolderAndQuotes) {
  ::setenv("HOME", "/home/x", 1);
  EXPECT_EQ(TypedPath("~/a b.json"), "/home/x/a b.json");
  EXPECT_EQ(TypedPath("\"a b.json\""), "a b.json");
  EXPECT_EQ(TypedPath("'~/a'"), "~/a");
  EXPECT_EQ(TypedPath("a~/b"), "a~/b");
  EXPECT_EQ(TypedPath("\""), "\"");
}

}  // namespace
}  // namespace hone::cli
