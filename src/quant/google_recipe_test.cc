// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/google_recipe.h"

#include <gtest/gtest.h>

#include <string>

namespace hone::quant {
namespace {

using model::Role;

model::DecoderSpec SmallSpec() {
  model::DecoderSpec spec;
  spec.architecture = "llama";
  spec.num_layers = 12;
  spec.hidden = 128;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 32;
  spec.ffn = 192;
  spec.vocab = 100;
  return spec;
}

// A rule as text; bits 0: no_quantize.
std::string RuleText(const std::string& regex, const std::string& operation, int bits,
                     const std::string& granularity, const std::string& algorithm,
                     const std::string& extra = "") {
  if (bits == 0) {
    return R"({"regex": ")" + regex + R"(", "operation": ")" + operation +
           R"(", "algorithm_key": "no_quantize", "op_config": {}})";
  }
  return R"({"regex": ")" + regex + R"(", "operation": ")" + operation +
         R"(", "algorithm_key": ")" + algorithm +
         R"(", "op_config": {"weight_tensor_config": {"num_bits": )" + std::to_string(bits) +
         R"(, "symmetric": true, "granularity": ")" + granularity +
         R"(", "dtype": "INT"}, "compute_precision": "INTEGER", "explicit_dequantize": false, )" +
         R"("skip_checks": false, "min_weight_elements": 0)" + extra + "}}";
}
const std::string kAll4 = RuleText(".*", "*", 4, "BLOCKWISE_32", "OCTAV");
const std::string kEmbedding8 =
    RuleText(".*", "EMBEDDING_LOOKUP", 8, "CHANNELWISE", "min_max_uniform_quantize");

Result<Recipe> Parse(const std::string& text, const RecipeFileReader& read = nullptr) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.message() << text;
  EXPECT_TRUE(IsGoogleRecipe(*json));
  return ParseGoogleRecipe(*json, "test.json", read);
}

class GoogleRecipe : public ::testing::Test {
 protected:
  void SkipWithoutBridge() {
    if (!bridge::Regex::Compile("a").ok()) GTEST_SKIP() << "this build has no regular expressions";
  }
  void SetUp() override { SkipWithoutBridge(); }

  static std::string NameOf(const std::string& text, Role role, std::int64_t layer = 3) {
    auto recipe = Parse(text);
    EXPECT_TRUE(recipe.ok()) << recipe.message();
    if (!recipe.ok()) return "";
    auto resolved = Resolve(*recipe, SmallSpec(), false);
    EXPECT_TRUE(resolved.ok()) << resolved.message();
    return resolved.ok() ? SchemeName(resolved->Get(role, layer)) : "";
  }
  static std::string ErrorOf(const std::string& text, Code code) {
    auto recipe = Parse(text);
    EXPECT_EQ(recipe.code(), code) << text << recipe.message();
    return std::string(recipe.message());
  }
};

TEST_F(GoogleRecipe, TheLastMatchingRuleOfTheOperationWins) {
  const std::string recipe = "[" + kAll4 + ", " + kEmbedding8 + "]";
  EXPECT_EQ(NameOf(recipe, Role::kQ), "int4_block32 octav");
  EXPECT_EQ(NameOf(recipe, Role::kHead), "int4_block32 octav");
  EXPECT_EQ(NameOf(recipe, Role::kEmbedding), "int8 min-max");
}

TEST_F(GoogleRecipe, ARuleForEveryOperationClearsEarlierOnesOfItsRegex) {
  const std::string recipe = "[" + kEmbedding8 + ", " + kAll4 + "]";
  EXPECT_EQ(NameOf(recipe, Role::kEmbedding), "int4_block32 octav");
  auto parsed = Parse(recipe);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->scope_rules.size(), 1U);
}

TEST_F(GoogleRecipe, RegexesSearchTheNamesThatLitertTorchWrites) {
  const auto with = [](const std::string& regex) {
    return "[" + kAll4 + ", " +
           RuleText(regex, "FULLY_CONNECTED", 8, "CHANNELWISE", "min_max_uniform_quantize") + "]";
  };
  const std::string layer1 = with("LlamaDecoderLayer_1/");
  EXPECT_EQ(NameOf(layer1, Role::kDown, 1), "int8 min-max");
  EXPECT_EQ(NameOf(layer1, Role::kDown, 10), "int4_block32 octav");
  EXPECT_EQ(NameOf(with("self_attn/"), Role::kO), "int8 min-max");
  EXPECT_EQ(NameOf(with("self_attn/"), Role::kUp), "int4_block32 octav");
  EXPECT_EQ(NameOf(with("Linear_(gate|up)_proj"), Role::kUp), "int8 min-max");
  EXPECT_EQ(NameOf(with("logits_output"), Role::kHead), "int8 min-max");
  EXPECT_EQ(NameOf(with("^StatefulPartitionedCall"), Role::kHead), "int4_block32 octav");
  EXPECT_EQ(
      NameOf("[" + kAll4 + "," + RuleText("logits_output", "*", 0, "", "") + "]", Role::kHead),
      "f32");
}

TEST_F(GoogleRecipe, SmallWeightsAreLeftToEarlierRules) {
  std::string large = RuleText(".*", "FULLY_CONNECTED", 8, "CHANNELWISE", "OCTAV");
  const std::string zero = R"("min_weight_elements": 0)";
  large.replace(large.find(zero), zero.size(), R"("min_weight_elements": 16384)");
  const std::string recipe = "[" + kAll4 + ", " + large + "]";
  EXPECT_EQ(NameOf(recipe, Role::kQ), "int8 octav");          // 128 x 128
  EXPECT_EQ(NameOf(recipe, Role::kK), "int4_block32 octav");  // 64 x 128
}

TEST_F(GoogleRecipe, ARuleThatMatchesNothingIsNotedAndARecipeThatDoesIsRefused) {
  auto recipe = Parse("[" + kAll4 + "," + RuleText("lm_head", "*", 0, "", "") + "]");
  ASSERT_TRUE(recipe.ok());
  auto resolved = Resolve(*recipe, SmallSpec(), false);
  ASSERT_TRUE(resolved.ok());
  ASSERT_EQ(resolved->notes.size(), 1U);
  EXPECT_NE(resolved->notes[0].find("lm_head"), std::string::npos);
  recipe = Parse("[" + RuleText("lm_head", "*", 0, "", "") + "]");
  ASSERT_TRUE(recipe.ok());
  EXPECT_EQ(Resolve(*recipe, SmallSpec(), false).code(), Code::kInvalidArgument);
}

TEST_F(GoogleRecipe, ABundleRecipeHasOneListForEachModel) {
  const auto read = [](const std::string& path) -> Result<Json> {
    EXPECT_EQ(path, "four.json");
    return ParseJson("[" + kAll4 + "]");
  };
  auto recipe = Parse(R"({"tf_lite_embedder": [)" + RuleText(".*", "*", 8, "CHANNELWISE", "OCTAV") +
                          R"(], "default": "four.json"})",
                      read);
  ASSERT_TRUE(recipe.ok()) << recipe.message();
  auto resolved = Resolve(*recipe, SmallSpec(), false);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(SchemeName(resolved->Get(Role::kEmbedding, -1)), "int8 octav");
  EXPECT_EQ(SchemeName(resolved->Get(Role::kHead, -1)), "int4_block32 octav");
}

TEST_F(GoogleRecipe, AnUnknownKeyBesideItsListsIsNamed) {
  const auto recipe = Parse("{\"prefill_decode\": [" + kAll4 + "], \"zork\": []}");
  ASSERT_FALSE(recipe.ok());
  EXPECT_NE(std::string(recipe.message()).find("unknown key \"zork\""), std::string::npos)
      << recipe.message();
}

TEST_F(GoogleRecipe, WhatHoneCannotDoIsRefusedByName) {
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(ErrorOf("[" + RuleText(".*", "*", 4, "BLOCKWISE_32", "GPTQ") + "]", Code::kUnsupported),
         "GPTQ");
  expect(ErrorOf("[" + RuleText(".*", "*", 2, "CHANNELWISE", "OCTAV") + "]", Code::kUnsupported),
         "num_bits is 2");
  expect(ErrorOf("[" + RuleText(".*", "*", 8, "BLOCKWISE_32", "OCTAV") + "]", Code::kUnsupported),
         "int8 in blocks");
  expect(ErrorOf("[" + RuleText("(?=a)", "*", 8, "CHANNELWISE", "OCTAV") + "]", Code::kUnsupported),
         "(?=a)");
  expect(ErrorOf("[" +
                     RuleText(".*", "*", 8, "CHANNELWISE", "OCTAV",
                              R"(, "activation_tensor_config": {"num_bits": 16})") +
                     "]",
                 Code::kUnsupported),
         "activation_tensor_config");
  expect(ErrorOf(R"([{"regex": ".*"}])", Code::kInvalidArgument), "rule 1: operation");
  expect(ErrorOf("[7]", Code::kInvalidArgument), "rule 1");
  expect(ErrorOf("[]", Code::kInvalidArgument), "no rules");
}

TEST(GoogleScopeName, FollowsTheClassesOfTransformers) {
  model::DecoderSpec spec = SmallSpec();
  spec.architecture = "qwen3";
  EXPECT_NE(
      GoogleScopeName(spec, Role::kDown, 7)
          .find("transformers.models.qwen3.modeling_qwen3.Qwen3DecoderLayer_7/transformers.models."
                "qwen3.modeling_qwen3.Qwen3MLP_mlp/torch.nn.modules.linear.Linear_down_proj;1"),
      std::string::npos);
}

}  // namespace
}  // namespace hone::quant
