// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/reference_forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/checkpoint.h"
#include "model/family_golden.h"
#include "model/test_util.h"

namespace hone::model {
namespace {

constexpr float kTolerance = 1e-4f;
constexpr double kSureGap = 2e-3;

// The golden checkpoints of transformers; see golden/families/README.md.
class Family : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = GoldenPath(std::string("families/") + GetParam());
    auto checkpoint = OpenCheckpoint(folder + "/hf");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
    EXPECT_TRUE(checkpoint->warnings.empty()) << checkpoint->warnings.front();
    checkpoint_ = *std::move(checkpoint);
    golden_ = ReadJson(folder + "/golden.json");
    expected_ = ReadNpy(folder + "/logits.npy");
  }

  void ExpectRow(std::span<const float> got, std::int64_t row, const std::string& prompt) {
    const auto width = static_cast<std::size_t>(expected_.shape[1]);
    ASSERT_EQ(got.size(), width);
    const float* want = expected_.data.data() + static_cast<std::size_t>(row) * width;
    for (std::size_t i = 0; i < width; ++i) {
      ASSERT_LE(std::abs(got[i] - want[i]), kTolerance)
          << prompt << " row " << row << " id " << i << ": got " << got[i] << ", want " << want[i];
    }
  }

  Checkpoint checkpoint_;
  Json golden_;
  formats::NpyArray expected_;
};

std::int64_t ArgMax(std::span<const float> row) {
  return std::max_element(row.begin(), row.end()) - row.begin();
}

TEST_P(Family, LogitsEqualTransformers) {
  for (const Json& prompt : golden_.Find("prompts")->AsArray()) {
    const std::vector<std::int32_t> ids = ReadIds(*prompt.Find("ids"));
    auto logits = ReferenceLogits(checkpoint_.model, ids);
    ASSERT_TRUE(logits.ok()) << logits.message();
    const auto vocab = static_cast<std::size_t>(checkpoint_.model.spec.vocab);
    const std::span<const float> all(*logits);
    const std::string& name = prompt.Find("name")->AsString();
    ExpectRow(all.subspan((ids.size() - 1) * vocab, vocab), prompt.Find("row_last")->AsInt(), name);
    ExpectRow(all.subspan(3 * vocab, vocab), prompt.Find("row_pos3")->AsInt(), name);
    const std::vector<std::int32_t> best = ReadIds(*prompt.Find("argmax_per_pos"));
    ASSERT_EQ(best.size(), ids.size());
    for (std::size_t t = 0; t < best.size(); ++t) {
      const std::span<const float> row = all.subspan(t * vocab, vocab);
      // Another id is right only if the two are equal within the tolerance.
      const float behind =
          row[static_cast<std::size_t>(ArgMax(row))] - row[static_cast<std::size_t>(best[t])];
      EXPECT_LE(behind, 2 * kTolerance) << name << " position " << t;
    }
  }
}

TEST_P(Family, GreedyTokensEqualTransformers) {
  // The shortest prompt: each step computes everything again.
  const Json& prompt = golden_.Find("prompts")->AsArray()[0];
  std::vector<std::int32_t> ids = ReadIds(*prompt.Find("ids"));
  const std::vector<std::int32_t> greedy = ReadIds(*prompt.Find("greedy_24"));
  const Json::Array& gaps = prompt.Find("greedy_gap")->AsArray();
  const auto vocab = static_cast<std::size_t>(checkpoint_.model.spec.vocab);
  std::vector<std::int32_t> whole = ids;
  whole.insert(whole.end(), greedy.begin(), greedy.end() - 1);
  // A causal model gives every step at once when it is fed the golden tokens.
  auto logits = ReferenceLogits(checkpoint_.model, whole);
  ASSERT_TRUE(logits.ok()) << logits.message();
  std::size_t compared = 0;
  for (std::size_t step = 0; step < greedy.size() && gaps[step].AsDouble() >= kSureGap; ++step) {
    const std::span<const float> row(logits->data() + (ids.size() - 1 + step) * vocab, vocab);
    EXPECT_EQ(ArgMax(row), greedy[step]) << "step " << step;
    ++compared;
  }
  EXPECT_GT(compared, 0U);
}

INSTANTIATE_TEST_SUITE_P(Golden, Family,
                         testing::Values("llama-gqa8", "llama-tied", "llama-sharded", "llama-bias",
                                         "llama3-rope", "llama-yarn", "mistral-sliding", "qwen2",
                                         "qwen3", "smollm3", "minicpm4-short", "minicpm4-long"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The checkpoints that tools/update_golden.py makes, with families that the others lack.
class TinyFamily : public testing::TestWithParam<std::string> {};

constexpr const char* kTinyFamilies = HONE_TESTDATA "/families";

TEST_P(TinyFamily, LogitsEqualTransformers) {
  auto golden = LoadFamilyGolden(kTinyFamilies, GetParam());
  ASSERT_TRUE(golden.ok()) << golden.message();
  auto checkpoint = OpenCheckpoint(golden->folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
  const DecoderModel& model = checkpoint->model;
  const auto vocab = static_cast<std::size_t>(model.spec.vocab);
  for (const GoldenPrompt& prompt : golden->prompts) {
    auto logits = ReferenceLogits(model, prompt.ids);
    ASSERT_TRUE(logits.ok()) << logits.message();
    const std::span<const float> all(*logits);
    for (std::size_t i = 0; i < prompt.positions.size(); ++i) {
      const std::span<const float> row = all.subspan(prompt.positions[i] * vocab, vocab);
      ASSERT_EQ(prompt.rows[i].size(), vocab);
      for (std::size_t id = 0; id < vocab; ++id) {
        ASSERT_NEAR(row[id], prompt.rows[i][id], kTolerance)
            << prompt.ids.size() << " ids, position " << prompt.positions[i] << ", id " << id;
      }
    }
    for (std::size_t t = 0; t < prompt.argmax.size(); ++t) {
      EXPECT_EQ(ArgMax(all.subspan(t * vocab, vocab)), prompt.argmax[t]) << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, TinyFamily, testing::ValuesIn(FamilyCases(kTinyFamilies)),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class ReferenceLogitsInput : public testing::Test {
 protected:
  void SetUp() override {
    auto checkpoint = OpenCheckpoint(GoldenPath("bad/00-control-ok"));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
    model_ = std::move(checkpoint->model);
  }
  Code CodeFor(std::span<const std::int32_t> ids) { return ReferenceLogits(model_, ids).code(); }
  DecoderModel model_;
};

TEST_F(ReferenceLogitsInput, RefusesIdsOutsideTheVocabulary) {
  const std::int32_t vocab = static_cast<std::int32_t>(model_.spec.vocab);
  EXPECT_EQ(CodeFor(std::vector{0, vocab - 1}), Code::kOk);
  EXPECT_EQ(CodeFor(std::vector{0, vocab}), Code::kInvalidArgument);
  EXPECT_EQ(CodeFor(std::vector{-1}), Code::kInvalidArgument);
}

TEST_F(ReferenceLogitsInput, RefusesNoIdsAndTooManyIds) {
  EXPECT_EQ(CodeFor({}), Code::kInvalidArgument);
  model_.spec.max_positions = 3;
  EXPECT_EQ(CodeFor(std::vector{0, 1, 2}), Code::kOk);
  EXPECT_EQ(CodeFor(std::vector{0, 1, 2, 3}), Code::kInvalidArgument);
}

TEST_F(ReferenceLogitsInput, LaterTokensDoNotChangeEarlierLogits) {
  auto two = ReferenceLogits(model_, std::vector{5, 9});
  auto three = ReferenceLogits(model_, std::vector{5, 9, 100});
  ASSERT_TRUE(two.ok() && three.ok());
  EXPECT_TRUE(std::equal(two->begin(), two->end(), three->begin()));
}

}  // namespace
}  // namespace hone::model
