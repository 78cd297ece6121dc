// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/llm_metadata_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/file.h"
#include "formats/hf_config/hf_config.h"

namespace hone::exporter {
namespace {

namespace litertlm = formats::litertlm;

// Text facts of the tokenizer that the golden families share: <s> 0, </s> 1, <|im_start|> 2,
// <|im_end|> 3, fused 642 and 643 (special) and 644 (not special); 645 ids.
formats::TextFacts FamilyText() {
  auto folder =
      formats::ReadHfFolder(std::string(HONE_SHARED_DATA) + "/golden/families/llama-gqa8/hf");
  EXPECT_TRUE(folder.ok()) << folder.message();
  return std::move(folder->text);
}

model::DecoderSpec Spec(std::int64_t vocab = 704) {
  model::DecoderSpec spec;
  spec.vocab = vocab;
  spec.max_positions = 256;
  return spec;
}

BundleText Build(const formats::TextFacts& text, std::int64_t vocab = 704, bool compat = false) {
  auto built = BuildBundleText(Spec(vocab), text, 256, compat);
  EXPECT_TRUE(built.ok()) << built.message();
  return built.ok() ? *std::move(built) : BundleText();
}

std::vector<std::int32_t> StopIds(const BundleText& text) {
  std::vector<std::int32_t> ids;
  for (const litertlm::TokenUnion& token : text.metadata.stop_tokens) {
    ids.insert(ids.end(), token.ids.begin(), token.ids.end());
  }
  return ids;
}

bool Mentions(const std::vector<std::string>& lines, std::string_view words) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(words) != std::string::npos;
  });
}

TEST(BundleText, UnitesStopIdsOfConfigTemplateAndFusedTokens) {
  EXPECT_EQ(StopIds(Build(FamilyText())), (std::vector<std::int32_t>{1, 3, 642, 643, 644}));
}

TEST(BundleText, WarnsOfAStopIdThatIsWhiteSpaceOrAWord) {
  formats::TextFacts text = FamilyText();
  text.eos_ids = {202, 441};  // "\n" and a word piece
  const BundleText built = Build(text);
  EXPECT_TRUE(Mentions(built.warnings, "stop id 202")) << built.warnings.size();
  EXPECT_TRUE(Mentions(built.warnings, "white space"));
  EXPECT_TRUE(Mentions(built.warnings, "stop id 441"));
  EXPECT_FALSE(Mentions(Build(FamilyText()).warnings, "stop id"));
}

TEST(BundleText, LeavesOutAStopIdBeyondTheVocabulary) {
  formats::TextFacts text = FamilyText();
  text.eos_ids = {1, 70000};
  const BundleText built = Build(text);
  EXPECT_TRUE(Mentions(built.warnings, "70000"));
  EXPECT_EQ(StopIds(built), (std::vector<std::int32_t>{1, 3, 642, 643, 644}));
}

TEST(BundleText, RefusesASourceWithoutAnyStopToken) {
  formats::TextFacts text = FamilyText();
  text.eos_ids.clear();
  text.eos_strings.clear();
  text.eos_token.clear();
  text.chat_template.clear();
  const auto built = BuildBundleText(Spec(), text, 256, false);
  EXPECT_EQ(built.code(), Code::kUnsupported);
  EXPECT_NE(built.message().find("eos_token_id"), std::string_view::npos);
}

TEST(BundleText, WritesAStartTokenOnlyWhenTheTemplateLeavesTheBosToItsVariable) {
  formats::TextFacts text = FamilyText();
  // The family's template begins with {{- bos_token }}.
  const BundleText variable = Build(text);
  ASSERT_TRUE(variable.metadata.start_token.has_value());
  EXPECT_EQ(variable.metadata.start_token->ids, (std::vector<std::int32_t>{0}));

  text.chat_template = "<s>{% for m in messages %}{{ m.content + '' }}<|im_end|>{% endfor %}";
  EXPECT_FALSE(Build(text).metadata.start_token.has_value());
  text.chat_template = "{% for m in messages %}{{ m.content + '' }}<|im_end|>{% endfor %}";
  EXPECT_FALSE(Build(text).metadata.start_token.has_value());
}

TEST(BundleText, LetsTheTokenizerDecideAboutBosWithoutATemplate) {
  formats::TextFacts text = FamilyText();
  text.chat_template.clear();
  text.add_bos_token.reset();  // the post-processor of the tokenizer adds <s>
  EXPECT_TRUE(Build(text).metadata.start_token.has_value());
  EXPECT_TRUE(Mentions(Build(text).warnings, "no chat template"));
  text.add_bos_token = false;
  EXPECT_FALSE(Build(text).metadata.start_token.has_value());
}

TEST(BundleText, KeepsTheTemplateByteForByte) {
  const formats::TextFacts text = FamilyText();
  EXPECT_EQ(Build(text).metadata.jinja_prompt_template, text.chat_template);
  const BundleText wrapped = Build(text, 704, true);
  EXPECT_TRUE(wrapped.wrapped_template);
  EXPECT_TRUE(wrapped.metadata.jinja_prompt_template->ends_with(text.chat_template));
  EXPECT_FALSE(Mentions(wrapped.warnings, "chat template"));
}

TEST(BundleText, NamesTheThoughtChannelOfATemplateThatThinks) {
  formats::TextFacts text = FamilyText();
  BundleText built = Build(text);
  ASSERT_EQ(built.metadata.channels.size(), 1u);
  EXPECT_EQ(built.metadata.channels[0].name, "thought");
  EXPECT_EQ(built.metadata.channels[0].start, "<think>");
  EXPECT_EQ(built.metadata.channels[0].end, "</think>");
  EXPECT_EQ(built.metadata.supports_thinking, true);
  EXPECT_EQ(built.metadata.supports_function_calling, false);
  text.chat_template = "{% for m in messages %}{{ m.content + '' }}{% endfor %}[THINK]";
  built = Build(text);
  ASSERT_EQ(built.metadata.channels.size(), 1u);
  EXPECT_EQ(built.metadata.channels[0].start, "[THINK]");
  EXPECT_EQ(built.metadata.channels[0].end, "[/THINK]");
  text.chat_template = "{% for m in messages %}{{ m.content + '' }}{% endfor %}{{ tools }}";
  built = Build(text);
  EXPECT_TRUE(built.metadata.channels.empty());
  EXPECT_EQ(built.metadata.supports_thinking, false);
  EXPECT_EQ(built.metadata.supports_function_calling, true);
}

TEST(BundleText, SamplesByTopPWithAPositiveK) {
  formats::TextFacts text = FamilyText();
  text.sampling = {};
  litertlm::SamplerParameters sampler = *Build(text).metadata.sampler;
  EXPECT_EQ(sampler.type, litertlm::SamplerType::kTopP);
  EXPECT_EQ(sampler.k, 1);

  text.sampling.do_sample = true;
  text.sampling.temperature = 0.7;
  text.sampling.top_p = 0.9;
  sampler = *Build(text).metadata.sampler;
  EXPECT_EQ(sampler.k, kDefaultTopK);
  EXPECT_FLOAT_EQ(sampler.p, 0.9f);
  EXPECT_FLOAT_EQ(sampler.temperature, 0.7f);
  text.sampling.top_k = 20;
  EXPECT_EQ(Build(text).metadata.sampler->k, 20);
  text.sampling.top_k = 0;  // no limit
  EXPECT_EQ(Build(text).metadata.sampler->k, 704);
  text.sampling.temperature = 0;
  EXPECT_EQ(Build(text).metadata.sampler->k, 1);
}

TEST(BundleText, SuppressesEveryPaddedRow) {
  const BundleText some = Build(FamilyText());
  EXPECT_EQ(some.metadata.suppress_tokens.size(), 704u - 645u);
  EXPECT_EQ(some.metadata.suppress_tokens.front(), 645);
  EXPECT_TRUE(Build(FamilyText(), 645).metadata.suppress_tokens.empty());
  const BundleText many = Build(FamilyText(), 645 + 50000);
  EXPECT_EQ(many.metadata.suppress_tokens.size(), 50000u);
  EXPECT_EQ(many.metadata.suppress_tokens.back(), 50644);
}

TEST(BundleText, RefusesATokenizerWithMoreIdsThanTheEmbeddingHasRows) {
  const auto built = BuildBundleText(Spec(600), FamilyText(), 256, false);
  EXPECT_EQ(built.code(), Code::kDataLoss);
  EXPECT_NE(built.message().find("645"), std::string_view::npos);
  EXPECT_NE(built.message().find("600"), std::string_view::npos);
}

TEST(BundleText, NamesTheLineOfATemplateSyntaxError) {
  formats::TextFacts text = FamilyText();
  text.chat_template = "a\nb\n{% for";
  const auto built = BuildBundleText(Spec(), text, 256, false);
  EXPECT_EQ(built.code(), Code::kDataLoss);
  EXPECT_NE(built.message().find("chat_template"), std::string_view::npos) << built.message();
  EXPECT_NE(built.message().find("line 3"), std::string_view::npos) << built.message();
}

TEST(BundleText, SaysThatNamedTemplatesAreLeftOut) {
  formats::TextFacts text = FamilyText();
  text.named_templates = {{"tool_use", "{{ tools }}"}};
  EXPECT_TRUE(Mentions(Build(text).warnings, "\"tool_use\" is left out"));
}

TEST(BundleText, IsAGenericModelWithItsContext) {
  const BundleText built = Build(FamilyText());
  EXPECT_EQ(built.metadata.model_type, "generic_model");
  EXPECT_EQ(built.metadata.max_num_tokens, 256);
  ASSERT_TRUE(built.metadata.pad_token.has_value());
  EXPECT_EQ(built.metadata.pad_token->ids, (std::vector<std::int32_t>{1}));
}

}  // namespace
}  // namespace hone::exporter
