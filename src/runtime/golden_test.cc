// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The runtime against logits and tokens that transformers and litert-torch wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "formats/npy.h"
#include "runtime/decode_loop.h"
#include "runtime/engine.h"

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kGolden = HONE_SHARED_DATA "/golden/";

Json ReadGolden(const std::string& path) {
  auto text = ReadFile(kGolden + path);
  EXPECT_TRUE(text.ok()) << text.message();
  auto json = ParseJson(text.ok() ? *text : "null");
  EXPECT_TRUE(json.ok()) << json.message();
  return *std::move(json);
}

formats::NpyArray ReadNpy(const std::string& path) {
  auto bytes = ReadFile(kGolden + path);
  EXPECT_TRUE(bytes.ok()) << bytes.message();
  auto array = formats::ParseNpy(AsBytes(*bytes));
  EXPECT_TRUE(array.ok()) << array.message();
  return *std::move(array);
}

Ids ToIds(const Json& array) {
  Ids ids;
  for (const Json& id : array.AsArray()) ids.push_back(static_cast<std::int32_t>(id.AsInt()));
  return ids;
}

std::vector<float> AllLogits(Engine& engine, const Ids& ids) {
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok());
  std::vector<float> logits;
  const Status status = engine.Run(Step{{{sequence->get(), ids, true}}}, &logits);
  EXPECT_TRUE(status.ok()) << status.message();
  return logits;
}

// The largest difference between a row of got and a row of want, vocab values each.
float MaxDiff(const std::vector<float>& got, std::size_t got_row, const formats::NpyArray& want,
              std::size_t want_row) {
  const auto vocab = static_cast<std::size_t>(want.shape[1]);
  float worst = 0;
  for (std::size_t i = 0; i < vocab; ++i) {
    const float diff = std::fabs(got[got_row * vocab + i] - want.data[want_row * vocab + i]);
    worst = std::max(worst, std::isnan(diff) ? HUGE_VALF : diff);
  }
  return worst;
}

// Greedy tokens must agree up to the first step whose gap is below the limit.
void ExpectGreedy(Engine& engine, const Ids& prompt, const Ids& want, const Json& gaps,
                  double limit) {
  auto sequence = engine.NewSequence();
  ASSERT_TRUE(sequence.ok());
  GenerateOptions options;
  options.max_tokens = static_cast<std::int64_t>(want.size());
  auto answer = Generate(engine, **sequence, prompt, options);
  ASSERT_TRUE(answer.ok()) << answer.message();
  ASSERT_EQ(answer->ids.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (answer->ids[i] == want[i]) continue;
    EXPECT_LT(gaps.AsArray()[i].AsDouble(), limit)
        << "step " << i << ": got " << answer->ids[i] << ", want " << want[i];
    return;
  }
}

class Family : public testing::TestWithParam<const char*> {};

TEST_P(Family, GivesTheLogitsAndTokensOfTransformers) {
  const std::string folder = std::string("families/") + GetParam() + "/";
  const Json golden = ReadGolden(folder + "golden.json");
  const formats::NpyArray want = ReadNpy(folder + "logits.npy");
  // Without text: no stop tokens, as the recorded tokens went on after them.
  auto model = LoadModel(kGolden + folder + "hf", nullptr);
  ASSERT_TRUE(model.ok()) << model.message();
  auto engine =
      Engine::FromModel(*std::move(model), {}, {.num_threads = 2, .kv = KvChoice::kF32}, folder);
  ASSERT_TRUE(engine.ok()) << engine.message();
  for (const Json& prompt : golden.Find("prompts")->AsArray()) {
    const Ids ids = ToIds(*prompt.Find("ids"));
    const std::vector<float> got = AllLogits(**engine, ids);
    const auto row = [&](const char* key) {
      return static_cast<std::size_t>(prompt.Find(key)->AsInt());
    };
    EXPECT_LT(MaxDiff(got, ids.size() - 1, want, row("row_last")), 5e-4F) << ids.size();
    EXPECT_LT(MaxDiff(got, 3, want, row("row_pos3")), 5e-4F) << ids.size();
    ExpectGreedy(**engine, ids, ToIds(*prompt.Find("greedy_24")), *prompt.Find("greedy_gap"), 2e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Family,
                         testing::Values("llama-gqa8", "llama-tied", "llama-sharded", "llama-bias",
                                         "llama3-rope", "llama-yarn"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

struct BundleCase {
  const char* file;
  const char* logits;
  std::size_t first_row;  // of the prompt that the first row of logits belongs to
};

class GoldenBundle : public testing::TestWithParam<BundleCase> {};

TEST_P(GoldenBundle, GivesTheRecordedLogits) {
  const BundleCase& c = GetParam();
  const bool untied = std::string_view(c.file).find("untied") != std::string_view::npos;
  const Json golden = ReadGolden(untied ? "bundles/tiny-llama-untied-golden.json"
                                        : "bundles/tiny-llama-golden.json");
  const Ids ids = ToIds(*golden.Find("prompt_ids"));
  const formats::NpyArray want = ReadNpy(std::string("bundles/") + c.logits);
  auto engine = Engine::Open(kGolden + "bundles/" + c.file, {.kv = KvChoice::kF32});
  ASSERT_TRUE(engine.ok()) << engine.message();
  const std::vector<float> got = AllLogits(**engine, ids);
  for (std::size_t row = 0; row < static_cast<std::size_t>(want.shape[0]); ++row) {
    EXPECT_LT(MaxDiff(got, c.first_row + row, want, row), 1e-3F) << "position " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden, GoldenBundle,
    testing::Values(BundleCase{"tiny-llama-fp32/model.litertlm", "tiny-llama-golden-logits.npy", 0},
                    BundleCase{"tiny-llama-fp32/model-fixed-template-nobos.litertlm",
                               "tiny-llama-golden-logits.npy", 0},
                    BundleCase{"tiny-llama-wi8/model.litertlm",
                               "tiny-llama-wi8-dequant-logits-qd8sim.npy", 0},
                    BundleCase{"tiny-llama-wi8/model-fixed-template-nobos.litertlm",
                               "tiny-llama-wi8-dequant-logits-qd8sim.npy", 0},
                    BundleCase{"tiny-llama-wi4b32/model.litertlm",
                               "tiny-llama-wi4b32-dequant-logits-qd8sim.npy", 0},
                    BundleCase{"tiny-llama-wi4b32/model-fixed-template-nobos.litertlm",
                               "tiny-llama-wi4b32-dequant-logits-qd8sim.npy", 0},
                    BundleCase{"tiny-llama-untied-wi8/model.litertlm",
                               "tiny-llama-untied-wi8/litert_logits_8_16.npy", 8}),
    [](const auto& test) {
      std::string name = test.param.file;
      name = name.substr(0, name.find(".litertlm"));
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

TEST(GoldenBundle, ComputesDequantizedWeightsWithFloatActivationsOnRequest) {
  const Ids ids = ToIds(*ReadGolden("bundles/tiny-llama-golden.json").Find("prompt_ids"));
  for (const std::string name : {"tiny-llama-wi8", "tiny-llama-wi4b32"}) {
    const formats::NpyArray want = ReadNpy("bundles/" + name + "-dequant-logits.npy");
    auto engine = Engine::Open(kGolden + "bundles/" + name + "/model.litertlm",
                               {.compute = ComputeChoice::kF32, .kv = KvChoice::kF32});
    ASSERT_TRUE(engine.ok()) << engine.message();
    const std::vector<float> got = AllLogits(**engine, ids);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      EXPECT_LT(MaxDiff(got, row, want, row), 1e-3F) << name << " position " << row;
    }
  }
}

TEST(GoldenBundle, ChoosesComputeAndCacheByItsWeights) {
  auto quantized = Engine::Open(kGolden + "bundles/tiny-llama-wi4b32/model.litertlm", {});
  ASSERT_TRUE(quantized.ok()) << quantized.message();
  EXPECT_EQ((*quantized)->compute(), kernels::Compute::kQ8);
  EXPECT_EQ((*quantized)->kv_type(), kernels::KvType::kF16);
  auto floats = Engine::Open(kGolden + "bundles/tiny-llama-fp32/model.litertlm", {});
  ASSERT_TRUE(floats.ok()) << floats.message();
  EXPECT_EQ((*floats)->compute(), kernels::Compute::kF32);
  EXPECT_EQ((*floats)->kv_type(), kernels::KvType::kF32);
}

TEST(GoldenBundle, SaysWhatEndsAnAnswer) {
  auto text =
      LoadText(kGolden + "bundles/tiny-llama-fp32/model-fixed-template-nobos.litertlm", nullptr);
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_TRUE(text->is_bundle);
  ASSERT_TRUE(text->tokenizer.has_value());
  EXPECT_TRUE(text->chat_template.has_value()) << text->template_error;
  EXPECT_FALSE(text->start_id.has_value());
  EXPECT_EQ(text->stop_ids, Ids{2});
  EXPECT_FALSE(text->stop_strings.empty());
  auto exported = LoadText(kGolden + "bundles/tiny-llama-fp32/model.litertlm", nullptr);
  ASSERT_TRUE(exported.ok()) << exported.message();
  EXPECT_EQ(exported->start_id, 1);  // "<|im_start|>"
}

}  // namespace
}  // namespace hone::runtime
