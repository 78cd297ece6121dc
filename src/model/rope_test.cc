// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hone::model {
namespace {

// The facts of a config.json with these members; max_position_embeddings is 8192.
Result<RopeFacts> Read(const std::string& members, std::vector<std::string>* warnings = nullptr) {
  std::vector<std::string> ignored;
  auto json = ParseJson("{" + members + "}");
  EXPECT_TRUE(json.ok()) << json.message();
  return ReadRopeFacts(*json, 8192, warnings != nullptr ? warnings : &ignored);
}

RopeTable Table(const std::string& members, std::int64_t head_dim) {
  auto facts = Read(members);
  EXPECT_TRUE(facts.ok()) << facts.message();
  if (!facts.ok()) return {};
  auto table = MakeRopeTable(*facts, head_dim);
  EXPECT_TRUE(table.ok()) << table.message();
  return table.ok() ? *table : RopeTable();
}

std::string Refusal(const std::string& members) {
  auto facts = Read(members);
  EXPECT_FALSE(facts.ok()) << members;
  return std::string(facts.message());
}

void ExpectContains(const std::string& text, const std::string& word) {
  EXPECT_NE(text.find(word), std::string::npos) << text << "\nlacks: " << word;
}

constexpr const char* kLlama3 =
    R"("factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
       "original_max_position_embeddings": 8192)";

TEST(Rope, Llama3NumbersEqualTransformers) {
  const RopeTable table = Table(
      std::string(R"("rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", )") + kLlama3 + "}",
      64);
  // Short waves stay (0, 8), 15 to 17 are mixed, long ones are divided by the factor.
  const std::pair<std::size_t, double> expected[] = {
      {0, 1.0},
      {8, 0.0376060309},
      {15, 0.00129054793},
      {16, 0.000429556797},
      {17, 9.7082878e-05},
      {18, 1.94616382e-05},
      {31, 9.41830673e-08},
  };
  ASSERT_EQ(table.inv_freq.size(), 32U);
  for (const auto& [i, value] : expected) {
    EXPECT_NEAR(table.inv_freq[i] / value, 1.0, 3e-7) << i;
  }
  EXPECT_EQ(table.magnitude, 1.0f);
}

TEST(Rope, YarnFactorFourGivesThePaperMagnitude) {
  const std::string config =
      R"("rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 4.0,
         "original_max_position_embeddings": 32})";
  const RopeTable table = Table(config, 32);
  EXPECT_NEAR(table.magnitude, 1.1386294, 1e-7);
  // The fastest dimension keeps its frequency, the slowest is divided by the factor.
  EXPECT_EQ(table.inv_freq.front(), 1.0f);
  EXPECT_NEAR(table.inv_freq.back() * 4 / std::pow(1e4, -30.0 / 32), 1.0, 1e-6);
}

TEST(Rope, YarnMagnitudeFollowsAttentionFactorAndMscale) {
  const auto magnitude = [](const std::string& more) {
    return Table(R"("rope_theta": 1e4, "rope_scaling": {"rope_type": "yarn", "factor": 40.0, )" +
                     more + R"("original_max_position_embeddings": 4096})",
                 64)
        .magnitude;
  };
  EXPECT_EQ(magnitude(R"("attention_factor": 0.5, )"), 0.5f);
  EXPECT_EQ(magnitude(R"("mscale": 1.0, "mscale_all_dim": 1.0, )"), 1.0f);
  EXPECT_NEAR(magnitude(R"("mscale": 2.0, "mscale_all_dim": 1.0, )"),
              (0.2 * std::log(40.0) + 1) / (0.1 * std::log(40.0) + 1), 1e-6);
  EXPECT_NEAR(magnitude(R"("mscale": 0, "mscale_all_dim": 1.0, )"), 0.1 * std::log(40.0) + 1, 1e-6);
}

TEST(Rope, YarnWithoutTruncationMovesTheRamp) {
  const auto table = [](const char* truncate) {
    return Table(std::string(R"("rope_theta": 1e4, "rope_scaling": {"rope_type": "yarn",
                 "factor": 4.0, "truncate": )") +
                     truncate + R"(, "original_max_position_embeddings": 4096})",
                 64)
        .inv_freq;
  };
  EXPECT_NE(table("true"), table("false"));
}

TEST(Rope, LinearDividesEveryFrequency) {
  const RopeTable plain = Table(R"("rope_theta": 10000.0)", 16);
  const RopeTable linear =
      Table(R"("rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 8})", 16);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(linear.inv_freq[i], plain.inv_freq[i] / 8.0f);
}

TEST(Rope, DynamicWithAlphaScalesThetaOnce) {
  const RopeTable table =
      Table(R"("rope_theta": 10000.0, "rope_scaling": {"type": "dynamic", "alpha": 1000.0})", 128);
  ASSERT_EQ(table.inv_freq.size(), 64U);
  for (const std::size_t i : {1U, 17U, 63U}) {
    const double expected = std::pow(11158839.925, -2.0 * static_cast<double>(i) / 128);
    EXPECT_NEAR(static_cast<double>(table.inv_freq[i]) / expected, 1.0, 3e-7) << i;
  }
  EXPECT_FALSE(table.by_length);
  ExpectContains(Refusal(R"("rope_theta": 1e4,
                           "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 2.0})"),
                 "alpha");
}

TEST(Rope, DynamicThetaGrowsBeyondTheOriginalLength) {
  const RopeTable plain = Table(R"("rope_theta": 10000.0)", 16);
  const RopeTable table =
      Table(R"("rope_theta": 10000.0, "rope_scaling": {"type": "dynamic", "factor": 4.0})", 16);
  ASSERT_TRUE(table.by_length);
  EXPECT_EQ(table.inv_freq, plain.inv_freq);
  EXPECT_EQ(RopeForLength(table, 8192).inv_freq, plain.inv_freq);
  const RopeTable longer = RopeForLength(table, 3 * 8192);
  EXPECT_FALSE(longer.by_length);
  // theta (4 * 3 - 3)^(16 / 14)
  const double theta = 10000 * std::pow(9.0, 16.0 / 14);
  EXPECT_NEAR(static_cast<double>(longer.inv_freq[7]) * std::pow(theta, 14.0 / 16), 1.0, 1e-6);
  EXPECT_LT(RopeForLength(table, 8193).inv_freq[7], plain.inv_freq[7]);
}

constexpr const char* kLists = R"("short_factor": [1, 2, 3, 4], "long_factor": [2, 4, 6, 8])";

TEST(Rope, LongRopeChoosesItsListByTheLength) {
  const RopeTable plain = Table(R"("rope_theta": 10000.0)", 8);
  for (const std::string type : {"longrope", "su", "yarn"}) {
    const RopeTable table = Table(
        R"("rope_theta": 10000.0, "original_max_position_embeddings": 2048,
           "rope_scaling": {"type": ")" +
            type + "\", " + kLists + "}",
        8);
    EXPECT_NEAR(table.magnitude, std::sqrt(1 + std::log(4.0) / std::log(2048.0)), 1e-6);
    for (std::size_t i = 0; i < 4; ++i) {
      const float by = static_cast<float>(i + 1);
      EXPECT_FLOAT_EQ(RopeForLength(table, 2048).inv_freq[i], plain.inv_freq[i] / by);
      EXPECT_FLOAT_EQ(RopeForLength(table, 2049).inv_freq[i], plain.inv_freq[i] / (2 * by));
    }
    EXPECT_EQ(RopeForLength(table, 2049).magnitude, table.magnitude);
  }
}

TEST(Rope, LongRopeMagnitudeOfTheUsualNumbers) {
  auto json = ParseJson(std::string(R"({"rope_theta": 1e4, "rope_scaling": {"rope_type": "longrope",
      "original_max_position_embeddings": 4096, )") +
                        kLists + "}}");
  ASSERT_TRUE(json.ok());
  std::vector<std::string> warnings;
  auto facts = ReadRopeFacts(*json, 131072, &warnings);
  ASSERT_TRUE(facts.ok()) << facts.message();
  auto table = MakeRopeTable(*facts, 8);
  ASSERT_TRUE(table.ok()) << table.message();
  EXPECT_NEAR(table->magnitude, 1.1902381, 1e-7);
}

TEST(Rope, LongRopeByMaxPositionsIsFixed) {
  RopeFacts facts;
  facts.kind = RopeKind::kLongRope;
  facts.theta = 10000;
  facts.short_factor = {1, 1};
  facts.long_factor = {2, 2};
  facts.original_positions = 64;
  facts.by_max_positions = true;
  for (const double max : {64.0, 256.0}) {
    facts.max_positions = max;
    auto table = MakeRopeTable(facts, 4);
    ASSERT_TRUE(table.ok());
    EXPECT_FALSE(table->by_length);
    EXPECT_EQ(table->inv_freq[0], max > 64 ? 0.5f : 1.0f);
  }
}

TEST(Rope, LongRopeListsAreChecked) {
  const auto config = [](const std::string& lists) {
    return R"("rope_theta": 1e4, "rope_scaling": {"type": "longrope",
              "original_max_position_embeddings": 64, )" +
           lists + "}";
  };
  ExpectContains(Refusal(config(R"("short_factor": [1, 1])")), "long_factor");
  ExpectContains(Refusal(config(R"("short_factor": [1, 0], "long_factor": [1, 1])")),
                 "short_factor");
  ExpectContains(Refusal(config(R"("short_factor": 1, "long_factor": [1, 1])")), "short_factor");
  auto facts = Read(config(R"("short_factor": [1, 1], "long_factor": [1, 1, 1])"));
  ASSERT_TRUE(facts.ok()) << facts.message();
  auto table = MakeRopeTable(*facts, 4);
  EXPECT_EQ(table.code(), Code::kDataLoss);
  ExpectContains(std::string(table.message()), "long_factor has 3 numbers, expected 2");
}

TEST(Rope, PartialRotationUsesTheRotaryDimension) {
  const RopeTable table = Table(R"("rope_theta": 10000.0, "partial_rotary_factor": 0.75)", 16);
  ASSERT_EQ(table.inv_freq.size(), 6U);
  EXPECT_FLOAT_EQ(table.inv_freq[1], static_cast<float>(std::pow(1e4, -2.0 / 12)));
  const RopeTable inside =
      Table(R"("rope_parameters": {"rope_theta": 10000.0, "rope_type": "default",
                                   "partial_rotary_factor": 0.75})",
            16);
  EXPECT_EQ(inside.inv_freq, table.inv_freq);
  ExpectContains(Refusal(R"("rope_theta": 1e4, "partial_rotary_factor": 1.5)"),
                 "partial_rotary_factor");
  auto facts = Read(R"("rope_theta": 1e4, "partial_rotary_factor": 0.2)");  // 3 of 16
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(MakeRopeTable(*facts, 16).code(), Code::kUnsupported);
}

TEST(Rope, OriginalLengthsThatDisagreeAreRefused) {
  ExpectContains(Refusal(std::string(R"("rope_theta": 1e4, "original_max_position_embeddings": 32,
      "rope_scaling": {"type": "longrope", "original_max_position_embeddings": 64, )") +
                         kLists + "}"),
                 "original_max_position_embeddings");
}

TEST(Rope, OldAndNewKeysGiveTheSameTable) {
  const std::string old_style =
      std::string(R"("rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", )") + kLlama3 + "}";
  const std::string new_style =
      std::string(R"("rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", )") + kLlama3 +
      "}";
  EXPECT_EQ(Table(old_style, 64).inv_freq, Table(new_style, 64).inv_freq);
  EXPECT_EQ(Table(old_style + ", " + new_style, 64).inv_freq, Table(new_style, 64).inv_freq);
}

TEST(Rope, DefaultAndNullMeanPlainRope) {
  const RopeTable plain = Table(R"("rope_theta": 1e4)", 16);
  EXPECT_EQ(Table(R"("rope_theta": 1e4, "rope_scaling": null)", 16).inv_freq, plain.inv_freq);
  EXPECT_EQ(Table(R"("rope_theta": 1e4, "rope_scaling": {"rope_type": "default"})", 16).inv_freq,
            plain.inv_freq);
  EXPECT_EQ(Table(R"("rope_parameters": {"rope_theta": 1e4, "rope_type": "default"})", 16).inv_freq,
            plain.inv_freq);
}

TEST(Rope, PlacesThatDisagreeAreRefused) {
  ExpectContains(Refusal(R"("rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e5,
                            "rope_type": "default"})"),
                 "rope_theta");
  ExpectContains(Refusal(R"("rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2},
                            "rope_parameters": {"rope_type": "linear", "factor": 4})"),
                 "factor");
  ExpectContains(Refusal(R"("rope_theta": 1e4,
                            "rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2})"),
                 "yarn");
}

TEST(Rope, KindsThatAreNotComputedAreRefusedByName) {
  for (const std::string type : {"foo", "ntk", "mrope", "proportional"}) {
    for (const std::string key : {"type", "rope_type"}) {
      const std::string inside = "{\"" + key + "\": \"" + type + "\", \"factor\": 2.0}";
      ExpectContains(Refusal("\"rope_theta\": 1e4, \"rope_scaling\": " + inside), type);
      ExpectContains(Refusal("\"rope_theta\": 1e4, \"rope_parameters\": " + inside), type);
    }
  }
}

TEST(Rope, MissingAndBadFactorsAreNamed) {
  ExpectContains(Refusal(R"("rope_theta": 1e4, "rope_scaling": {"type": "linear"})"), "factor");
  ExpectContains(Refusal(R"("rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 0})"),
                 "factor");
  ExpectContains(
      Refusal(R"("rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": "two"})"),
      "factor");
  ExpectContains(Refusal(R"("rope_theta": 1e4, "rope_scaling": {"rope_type": "llama3", "factor": 8,
                            "low_freq_factor": 1, "high_freq_factor": 4})"),
                 "original_max_position_embeddings");
  ExpectContains(Refusal(R"("rope_theta": 1e4, "rope_scaling": {"rope_type": "llama3", "factor": 8,
                            "low_freq_factor": 4, "high_freq_factor": 4,
                            "original_max_position_embeddings": 32})"),
                 "high_freq_factor");
  ExpectContains(Refusal(R"("rope_theta": 1e4, "rope_scaling": {"factor": 2.0})"), "rope_type");
  ExpectContains(Refusal(R"("rope_theta": 1e4, "rope_scaling": 2)"), "rope_scaling");
  ExpectContains(Refusal(R"("rope_theta": 1)"), "rope_theta");
}

TEST(Rope, KeysThatTheKindDoesNotReadAreRefused) {
  ExpectContains(
      Refusal(R"("rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2, "alpha": 3})"),
      "alpha");
  ExpectContains(
      Refusal(R"("rope_theta": 1e4, "rope_scaling": {"rope_type": "default", "factor": 8})"),
      "factor");
  ExpectContains(Refusal(R"("rope_parameters": {"full_attention": {"rope_theta": 1e4}})"),
                 "full_attention");
}

TEST(Rope, MissingThetaWarns) {
  std::vector<std::string> warnings;
  auto facts = Read("", &warnings);
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->theta, 10000);
  ASSERT_EQ(warnings.size(), 1U);
}

TEST(Rope, FactsWithoutFiniteFrequenciesAreRefused) {
  RopeFacts facts;
  facts.kind = RopeKind::kYarn;
  facts.theta = 10000;
  facts.factor = 1e300;
  facts.original_positions = 32;
  facts.attention_factor = 1e300;
  EXPECT_EQ(MakeRopeTable(facts, 16).code(), Code::kDataLoss);
}

}  // namespace
}  // namespace hone::model
