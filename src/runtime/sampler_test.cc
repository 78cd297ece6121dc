// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "runtime/ranked_logits.h"
#include "runtime/sampler_twin.h"

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

// Logits with ties, zeros of both signs, NaN and infinities now and then.
std::vector<float> OddLogits(std::mt19937& random, std::size_t size) {
  std::normal_distribution<float> normal(0.0F, 4.0F);
  std::vector<float> logits(size);
  const bool coarse = random() % 3 == 0;
  const bool odd = random() % 2 == 0;
  for (float& value : logits) {
    value = normal(random);
    if (coarse) value = std::round(value);
    if (!odd) continue;
    switch (random() % 32) {
      case 0:
        value = kNan;
        break;
      case 1:
        value = -kInf;
        break;
      case 2:
        value = -0.0F;
        break;
      case 3:
        value = random() % 16 == 0 ? kInf : 0.0F;
        break;
      default:
        break;
    }
  }
  return logits;
}

SamplerOptions AnyOptions(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<float> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  SamplerOptions options;
  options.temperature = pick({0.0F, 1e-40F, 0.2F, 0.7F, 1.0F, 5.0F, kInf});
  options.top_k = static_cast<std::int32_t>(pick({0.0F, 0.0F, 1.0F, 2.0F, 20.0F, 500.0F, 1e6F}));
  options.top_p = pick({1.0F, 1.0F, 0.95F, 0.5F, 0.0F, 0.9999F});
  options.min_p = pick({0.0F, 0.0F, 0.05F, 0.5F, 1.0F});
  options.repetition_penalty = pick({1.0F, 1.0F, 1.1F, 0.5F, 1e-39F});
  options.presence_penalty = pick({0.0F, 0.0F, 0.5F, -1.0F});
  options.frequency_penalty = pick({0.0F, 0.0F, 0.25F});
  options.seed = random();
  return options;
}

TEST(Sampler, ChoosesWhatItsTwinChooses) {
  std::mt19937 random(5);
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    const std::size_t size = 1 + random() % (round % 10 == 0 ? 5000 : 300);
    const SamplerOptions options = AnyOptions(random);
    Ids suppressed, history;
    for (std::size_t i = random() % 40; i > 0; --i) {
      suppressed.push_back(static_cast<std::int32_t>(random() % (size + 4)) - 2);
      history.push_back(static_cast<std::int32_t>(random() % (size + 4)) - 2);
      history.push_back(history.front());
    }
    Sampler sampler(options, suppressed);
    SamplerTwin twin(options, suppressed);
    for (int draw = 0; draw < 4; ++draw) {
      const std::vector<float> logits = OddLogits(random, size);
      ASSERT_EQ(sampler.Sample(logits, history), twin.Sample(logits, history)) << "draw " << draw;
    }
  }
}

TEST(LogitRanking, GivesAPrefixOfTheSortedCandidates) {
  std::mt19937 random(6);
  for (const std::size_t size : {1U, 63U, 64U, 65U, 200U, 4097U}) {
    const std::vector<float> logits = OddLogits(random, size);
    std::vector<std::int32_t> order;
    for (std::size_t i = 0; i < size; ++i) {
      if (logits[i] > -kInf) order.push_back(static_cast<std::int32_t>(i));
    }
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    LogitRanking ranking;
    ranking.Reset(logits);
    ASSERT_EQ(ranking.num_candidates(), order.size());
    for (const std::size_t count : {1U, 2U, 64U, 100U, 5000U}) {
      const auto top = ranking.Top(count);
      ASSERT_GE(top.size(), std::min<std::size_t>(count, order.size()));
      for (std::size_t i = 0; i < top.size(); ++i) ASSERT_EQ(top[i].id, order[i]) << i;
    }
  }
}

TEST(Sampler, AMaskCountsAsMinusInfinity) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 3);
  for (const std::size_t vocab : {1U, 31U, 64U, 65U, 700U}) {
    for (int round = 0; round < 40; ++round) {
      std::vector<float> logits(vocab);
      for (float& logit : logits) logit = normal(random);
      std::vector<std::uint32_t> allowed((vocab + 31) / 32 - (round == 7 && vocab > 32 ? 1 : 0));
      for (std::uint32_t& word : allowed) {
        word = static_cast<std::uint32_t>(random());
        if (random() % 3 == 0) word = random() % 2 == 0 ? 0 : ~std::uint32_t{0};
      }
      std::vector<float> masked = logits;
      for (std::size_t i = 0; i < vocab; ++i) {
        if (i / 32 >= allowed.size() || (allowed[i / 32] >> (i % 32) & 1U) == 0) masked[i] = -kInf;
      }
      SamplerOptions options;
      options.temperature = round % 4 == 0 ? 0.0F : 1.5F;
      options.top_k = round % 3 * 5;
      options.top_p = round % 5 == 0 ? 0.8F : 1.0F;
      options.repetition_penalty = round % 2 == 0 ? 1.0F : 1.3F;
      options.seed = static_cast<std::uint64_t>(round);
      const Ids history = {0, 3, 3, 40};
      Sampler sampler(options, {2, 33});
      SamplerTwin twin(options, {2, 33});
      for (int draw = 0; draw < 3; ++draw) {
        EXPECT_EQ(sampler.Sample(logits, history, allowed), twin.Sample(masked, history)) << round;
      }
    }
  }
}

}  // namespace
}  // namespace hone::runtime
