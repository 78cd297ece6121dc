// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/answer_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "base/file.h"

namespace hone::cli {
namespace {

runtime::TextSetup Thinks() {
  runtime::TextSetup text;
  text.think_start = "<think>";
  text.think_end = "</think>";
  return text;
}

TEST(AnswerReader, DividesTextInPieces) {
  std::string seen;
  AnswerReader reader(Thinks(), /*starts_in_thinking=*/false, [&](const chat::Event& event) {
    seen += event.kind == chat::EventKind::kThinking ? "T:" : "C:";
    seen += event.text + "|";
  });
  for (const char* piece : {"<th", "ink>\nHm", ".\n</thi", "nk>\n\nYes."}) reader.Text(piece);
  reader.Finish();
  EXPECT_EQ(reader.thinking(), "Hm.");
  EXPECT_EQ(reader.content(), "Yes.");
  EXPECT_EQ(seen, "T:Hm|T:.|C:Yes.|");
  EXPECT_EQ(reader.Message().Dump(),
            R"({"role":"assistant","content":"Yes.","reasoning_content":"Hm."})");
}

TEST(AnswerReader, BeginsInTheThinkingThatThePromptOpened) {
  AnswerReader reader(Thinks(), /*starts_in_thinking=*/true, {});
  reader.Text("Hm.</think>Yes.");
  reader.Finish();
  EXPECT_EQ(reader.thinking(), "Hm.");
  EXPECT_EQ(reader.content(), "Yes.");
}

TEST(AnswerReader, KeepsWhatWasStoppedInTheThinking) {
  AnswerReader reader(Thinks(), /*starts_in_thinking=*/true, {});
  reader.Text("Hm");
  reader.Finish();
  EXPECT_EQ(reader.Message().Dump(),
            R"({"role":"assistant","content":"","reasoning_content":"Hm"})");
}

TEST(AnswerReader, TakesTheTextOfAModelThatDoesNotThinkAsItIs) {
  AnswerReader reader(runtime::TextSetup(), /*starts_in_thinking=*/false, {});
  reader.Text(" <think> \n");
  reader.Text("a ");
  reader.Finish();
  EXPECT_EQ(reader.content(), " <think> \na ");
  EXPECT_EQ(reader.Message().Find("reasoning_content"), nullptr);
}

// The tokenizer of the golden models, with its markers as special tokens: they have no text then.
TEST(AnswerReader, SeesMarkersThatAreSpecialTokens) {
  auto json =
      ReadFile(std::string(HONE_SHARED_DATA) + "/golden/families/llama-gqa8/hf/tokenizer.json");
  ASSERT_TRUE(json.ok()) << json.message();
  std::string source = *std::move(json);
  for (const char* mark : {"\"<think>\"", "\"</think>\""}) {
    const std::string flag = "\"special\":false";
    const std::size_t at = source.find(flag, source.find(mark));
    ASSERT_NE(at, std::string::npos);
    source.replace(at, flag.size(), "\"special\":true");
  }
  runtime::TextSetup text = Thinks();
  auto tokenizer = bridge::Tokenizer::FromJson(source);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  text.tokenizer = *std::move(tokenizer);
  AnswerReader reader(text, /*starts_in_thinking=*/false, {});
  reader.Token(*text.tokenizer->TokenId("<think>"));
  reader.Text("Hm.");
  reader.Token(*text.tokenizer->TokenId("</think>"));
  reader.Text("Yes.");
  reader.Finish();
  EXPECT_EQ(reader.thinking(), "Hm.");
  EXPECT_EQ(reader.content(), "Yes.");
}

}  // namespace
}  // namespace hone::cli
