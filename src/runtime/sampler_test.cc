// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
const std::vector<float> kLogits = {1.0F, 3.0F, 2.0F, -1.0F, 2.5F, 0.0F, 3.0F, -4.0F};

Ids DrawMany(const SamplerOptions& options, int count, const std::vector<float>& logits = kLogits) {
  Sampler sampler(options, {});
  Ids ids;
  for (int i = 0; i < count; ++i) ids.push_back(sampler.Sample(logits, {}));
  return ids;
}

TEST(Sampler, GreedyTakesTheLowestOfEqualBestIds) { EXPECT_EQ(DrawMany({}, 2), (Ids{1, 1})); }

// Expected picks were worked out by a separate Python program from SplitMix64 and math.exp.
TEST(Sampler, DrawsTheExpectedIdsForASeed) {
  SamplerOptions options;
  options.seed = 42;
  options.temperature = 1;
  EXPECT_EQ(DrawMany(options, 16), (Ids{4, 1, 1, 6, 1, 2, 1, 4, 6, 6, 1, 6, 6, 6, 4, 1}));
  options.min_p = 0.3F;
  EXPECT_EQ(DrawMany(options, 16), (Ids{4, 1, 1, 6, 1, 4, 1, 4, 6, 6, 1, 6, 6, 6, 6, 1}));
  options = {};
  options.seed = 42;
  options.temperature = 0.7F;
  options.top_k = 3;
  EXPECT_EQ(DrawMany(options, 16), (Ids{6, 1, 1, 1, 1, 4, 1, 6, 1, 6, 1, 6, 6, 6, 6, 1}));
  options.temperature = 2;
  options.top_k = 5;
  options.top_p = 0.9F;
  options.min_p = 0.2F;
  EXPECT_EQ(DrawMany(options, 16), (Ids{4, 1, 1, 6, 1, 2, 1, 4, 6, 4, 1, 6, 6, 6, 4, 1}));
}

TEST(Sampler, TopKKeepsOnlyTheBestK) {
  SamplerOptions options;
  options.temperature = 50;
  options.top_k = 3;
  const Ids ids = DrawMany(options, 200);
  EXPECT_EQ(std::set<std::int32_t>(ids.begin(), ids.end()), (std::set<std::int32_t>{1, 4, 6}));
}

TEST(Sampler, TopPKeepsTheTokenThatCrossesTheSum) {
  SamplerOptions options;
  options.temperature = 1;
  options.top_p = 0.5F;  // 0.33 + 0.33 reaches it
  const Ids ids = DrawMany(options, 200);
  EXPECT_EQ(std::set<std::int32_t>(ids.begin(), ids.end()), (std::set<std::int32_t>{1, 6}));
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  SamplerOptions options;
  options.temperature = 1;
  options.min_p = 0.5F;  // exp(-0.5) = 0.61 stays, exp(-1) = 0.37 goes
  const Ids ids = DrawMany(options, 200);
  EXPECT_EQ(std::set<std::int32_t>(ids.begin(), ids.end()), (std::set<std::int32_t>{1, 4, 6}));
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  std::vector<float> logits;
  for (int i = 0; i < 300; ++i) logits.push_back(i % 2 == 0 ? 0.0F : std::log(3.0F));
  SamplerOptions options;
  options.temperature = 1;
  int odd = 0;
  for (const std::int32_t id : DrawMany(options, 2000, logits)) odd += id % 2;
  EXPECT_NEAR(odd / 2000.0, 0.75, 0.04);
}

TEST(Sampler, PenaltiesFollowTheUsualDefinitions) {
  const Ids history = {1, 1, 6};
  SamplerOptions options;
  options.repetition_penalty = 2;  // 1 and 6: 3 -> 1.5, so 4 wins with 2.5
  EXPECT_EQ(Sampler(options, {}).Sample(kLogits, history), 4);
  options = {};
  options.frequency_penalty = 0.2F;  // 1: 3 - 0.4, 6: 3 - 0.2
  EXPECT_EQ(Sampler(options, {}).Sample(kLogits, history), 6);
  options = {};
  options.presence_penalty = 0.6F;  // both 2.4
  EXPECT_EQ(Sampler(options, {}).Sample(kLogits, history), 4);
  options = {};
  options.repetition_penalty = 2;  // negative logits are multiplied: -1 -> -2
  EXPECT_EQ(Sampler(options, {}).Sample(std::vector<float>{-1.0F, -1.5F}, Ids{0}), 1);
}

TEST(Sampler, SuppressedIdsAreNeverChosen) {
  EXPECT_EQ(Sampler({}, {1, 6, 99, -3}).Sample(kLogits, {}), 4);
}

TEST(Sampler, NanAndInfinityDoNotBreakTheChoice) {
  SamplerOptions options;
  options.temperature = 1;
  for (const auto& logits :
       {std::vector<float>{kNan, 1.0F, -kInf}, std::vector<float>{kNan, kInf, 5.0F}}) {
    EXPECT_EQ(Sampler({}, {}).Sample(logits, {}), 1);
    for (const std::int32_t id : DrawMany(options, 20, logits)) EXPECT_EQ(id, 1);
  }
  EXPECT_EQ(Sampler(options, {}).Sample(std::vector<float>{kNan, -kInf}, {}), -1);
  EXPECT_EQ(Sampler({}, {0}).Sample(std::vector<float>{1.0F}, {}), -1);
}

TEST(Sampler, PenaltiesThatOverflowKeepTheOrder) {
  SamplerOptions options;
  options.temperature = 1;
  options.top_k = 2;
  options.repetition_penalty = 1e-39F;  // 3 / 1e-39 is over the largest float
  Sampler sampler(options, {});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sampler.Sample(kLogits, Ids{1}), 1);
}

}  // namespace
}  // namespace hone::runtime
