// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/fit_buffers.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/largest_tensors.h"

namespace hone::exporter {
namespace {

// A model without bytes: sizes come from shapes alone.
model::DecoderModel Model(std::int64_t vocab = 512) {
  model::DecoderModel model;
  model::DecoderSpec& spec = model.spec;
  spec.num_layers = 2;
  spec.hidden = 64;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 16;
  spec.ffn = 96;
  spec.vocab = vocab;
  spec.max_positions = 1 << 20;
  spec.norm_epsilon = 1e-5f;
  spec.attention_scale = 0.25f;
  spec.ropes.resize(1);
  spec.ropes[0].inv_freq.assign(8, 0.5f);
  model.layers.resize(2);
  return model;
}

quant::Resolved Schemes(const model::DecoderModel& model, const char* preset) {
  auto recipe = quant::GetPreset(preset);
  EXPECT_TRUE(recipe.ok());
  auto resolved = quant::Resolve(*recipe, model.spec, false);
  EXPECT_TRUE(resolved.ok()) << resolved.message();
  return *std::move(resolved);
}

Result<FitResult> Fit(const model::DecoderModel& model, std::int64_t context,
                      const FitRequest& request, const char* preset = "none") {
  return FitBuffers(model, Schemes(model, preset),
                    {.context = context, .prefill = {1024, 256, 64, 16, 4, 1}}, request);
}

std::uint64_t LargestOf(const model::DecoderModel& model, const graph::BuildOptions& build) {
  auto graph = graph::BuildDecoder(model, Schemes(model, "none"), build);
  EXPECT_TRUE(graph.ok());
  std::uint64_t largest = 0;
  for (const auto& tensor : graph::LargestTensors(*graph, 1)) {
    largest = std::max(largest, tensor.bytes);
  }
  return largest;
}

TEST(FitBuffers, KeepsWhatFits) {
  auto fit = Fit(Model(), 1024, {.max_bytes = 1 << 30});
  ASSERT_TRUE(fit.ok()) << fit.message();
  EXPECT_EQ(fit->build.context, 1024);
  EXPECT_EQ(fit->build.prefill, (std::vector<std::int64_t>{1024, 256, 64, 16, 4, 1}));
  ASSERT_EQ(fit->notes.size(), 1u);
  // Scores of 4 heads, 1024 rows, 1024 columns.
  EXPECT_NE(fit->notes[0].find("16.0 MiB"), std::string::npos) << fit->notes[0];
}

TEST(FitBuffers, ReplacesARungThatDoesNotFitByTheLargestPowerOfTwoThatDoes) {
  // 4 heads * 512 rows * 1024 columns * 4 bytes.
  auto fit = Fit(Model(), 1024, {.max_bytes = 8 << 20});
  ASSERT_TRUE(fit.ok()) << fit.message();
  EXPECT_EQ(fit->build.context, 1024);
  EXPECT_EQ(fit->build.prefill, (std::vector<std::int64_t>{512, 256, 64, 16, 4, 1}));
  EXPECT_EQ(LargestOf(Model(), fit->build), 8u << 20);
  auto less = Fit(Model(), 1024, {.max_bytes = (8 << 20) - 1});
  ASSERT_TRUE(less.ok());
  EXPECT_EQ(less->build.prefill[0], 256);
}

TEST(FitBuffers, DropsRungsThatWereAskedFor) {
  auto fit = Fit(Model(), 1024, {.max_bytes = 8 << 20, .keep_rungs = true});
  ASSERT_TRUE(fit.ok()) << fit.message();
  EXPECT_EQ(fit->build.prefill, (std::vector<std::int64_t>{256, 64, 16, 4, 1}));
}

TEST(FitBuffers, ShortensAContextThatWasNotAskedFor) {
  // Key caches of 2 heads of 16: 128 bytes a position.
  auto fit = Fit(Model(), 4096, {.max_bytes = 128 * 1000 + 50000});
  ASSERT_TRUE(fit.ok()) << fit.message();
  EXPECT_EQ(fit->build.context, 178000 / 128 / 64 * 64);
  EXPECT_LE(LargestOf(Model(), fit->build), 178000u);
  EXPECT_EQ(fit->notes.size(), 2u);
  auto half =
      FitBuffers(Model(), Schemes(Model(), "none"),
                 {.context = 4096, .prefill = {1}, .half_cache = true}, {.max_bytes = 178000});
  ASSERT_TRUE(half.ok());
  EXPECT_EQ(half->build.context, fit->build.context) << "the cache is read as float32";
}

TEST(FitBuffers, RefusesAContextThatWasAskedForAndSaysWhichFits) {
  auto fit = Fit(Model(), 4096, {.max_bytes = 178000, .keep_context = true});
  EXPECT_EQ(fit.code(), Code::kUnsupported);
  EXPECT_NE(fit.message().find("1344 fits"), std::string_view::npos) << fit.message();
}

TEST(FitBuffers, NamesAHeadThatIsTooLargeAtEveryContext) {
  auto fit = Fit(Model(4096), 4096, {.max_bytes = 1 << 19});
  EXPECT_EQ(fit.code(), Code::kUnsupported);
  EXPECT_NE(fit.message().find("'lm_head.weight' [4096, 64] of"), std::string_view::npos)
      << fit.message();
  EXPECT_NE(fit.message().find("1048576 bytes"), std::string_view::npos) << fit.message();
  EXPECT_TRUE(Fit(Model(4096), 4096, {.max_bytes = 1 << 19}, "int8").ok());
}

TEST(BinaryBytesText, CountsInPowersOf1024) {
  EXPECT_EQ(BinaryBytesText(1023), "1023 bytes");
  EXPECT_EQ(BinaryBytesText(128ULL << 20), "128.0 MiB");
  EXPECT_EQ(BinaryBytesText(3ULL << 29), "1.5 GiB");
}

}  // namespace
}  // namespace hone::exporter
