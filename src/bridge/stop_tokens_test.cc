// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/stop_tokens.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace hone::bridge {
namespace {

const std::string kFamily = HONE_SHARED_DATA "/golden/families/llama-gqa8/hf/";

Tokenizer GoldenTokenizer() {
  auto json = ReadFile(kFamily + "tokenizer.json");
  EXPECT_TRUE(json.ok()) << json.message();
  auto tokenizer = Tokenizer::FromJson(*json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.message();
  return *std::move(tokenizer);
}

ChatTemplate Compiled(std::string_view source) {
  auto compiled = ChatTemplate::Compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.message();
  return *std::move(compiled);
}

std::vector<std::int32_t> Ids(const StopTokens& stops) {
  std::vector<std::int32_t> ids;
  for (const StopToken& token : stops.tokens) ids.push_back(token.id);
  return ids;
}

TEST(StopTokens, UniteConfigurationTemplateAndFusedTokens) {
  const Tokenizer tokenizer = GoldenTokenizer();
  auto source = ReadFile(kFamily + "chat_template.jinja");
  ASSERT_TRUE(source.ok()) << source.message();
  const ChatTemplate chat = Compiled(*source);
  const std::vector<std::int64_t> eos_ids = {1, 1};
  const StopTokens stops =
      FindStopTokens(tokenizer, &chat, {.eos_ids = eos_ids, .eos_token = "</s>"});
  EXPECT_EQ(Ids(stops), (std::vector<std::int32_t>{1, 3, 642, 643, 644}));
  EXPECT_EQ(stops.tokens[0].kept, "");
  EXPECT_EQ(stops.tokens[1].text, "<|im_end|>");
  EXPECT_EQ(stops.tokens[1].kept, "");
  EXPECT_EQ(stops.tokens[2].kept, ".");
  EXPECT_EQ(stops.tokens[3].kept, "!");
  EXPECT_EQ(stops.tokens[4].kept, "?");
  EXPECT_TRUE(stops.notes.empty()) << stops.notes[0];
}

TEST(StopTokens, AreFoundWhereTheTemplateWantsPartsOrSpacesBeforeTheStop) {
  const Tokenizer tokenizer = GoldenTokenizer();
  const ChatTemplate parts = Compiled(
      "{% for m in messages %}{% if m.content is string %}{{ raise_exception('parts') }}"
      "{% endif %}{{ m.content[0].text + ' </s>' }}{% endfor %}");
  const StopTokens stops = FindStopTokens(tokenizer, &parts, {});
  EXPECT_EQ(Ids(stops), (std::vector<std::int32_t>{1}));
}

TEST(StopTokens, SayWhatCouldNotBeUsed) {
  const Tokenizer tokenizer = GoldenTokenizer();
  const ChatTemplate broken = Compiled("{{ raise_exception('never') }}");
  const std::vector<std::int64_t> eos_ids = {-1, 5000000000};
  const std::vector<std::string> eos_strings = {"<nope>", "<|im_end|>"};
  const StopTokens stops =
      FindStopTokens(tokenizer, &broken, {.eos_ids = eos_ids, .eos_strings = eos_strings});
  EXPECT_EQ(Ids(stops), (std::vector<std::int32_t>{3}));
  ASSERT_EQ(stops.notes.size(), 4U);
  EXPECT_NE(stops.notes[0].find("-1"), std::string::npos);
  EXPECT_NE(stops.notes[2].find("<nope>"), std::string::npos);
  EXPECT_NE(stops.notes[3].find("never"), std::string::npos);
}

TEST(StopTokens, KeepTheTextInFrontOfTheStop) {
  const std::vector<std::string> stops = {"", "<|im_end|>", "</s>", ".<|im_end|>\n"};
  EXPECT_EQ(TextBeforeStop(".<|im_end|>\n", stops), ".");
  EXPECT_EQ(TextBeforeStop("<|im_end|>\n", stops), "");
  EXPECT_EQ(TextBeforeStop("<|im_end|>", stops), "");
}

}  // namespace
}  // namespace hone::bridge
