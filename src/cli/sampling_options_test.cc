// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/sampling_options.h"

#include <gtest/gtest.h>

namespace hone::cli {
namespace {

TEST(SetSampling, SetsWhatIsInItsRange) {
  SamplingArgs args;
  EXPECT_TRUE(SetSampling("temperature", "0.7", args).ok());
  EXPECT_TRUE(SetSampling("top_k", "40", args).ok());
  EXPECT_TRUE(SetSampling("frequency-penalty", "-1", args).ok());
  EXPECT_TRUE(SetSampling("seed", "0", args).ok());
  EXPECT_TRUE(SetSampling("max-tokens", "5", args).ok());
  EXPECT_FLOAT_EQ(*args.temperature, 0.7F);
  EXPECT_EQ(*args.top_k, 40);
  EXPECT_FLOAT_EQ(*args.frequency_penalty, -1.0F);
  EXPECT_EQ(*args.seed, 0);
  EXPECT_EQ(*args.max_tokens, 5);
  EXPECT_TRUE(SetSampling("max_tokens", "default", args).ok());
  EXPECT_FALSE(args.max_tokens);
}

TEST(SetSampling, KeepsTheOldValueOfWhatIsRefused) {
  SamplingArgs args;
  args.temperature = 0.5F;
  args.seed = 3;
  for (const char* value : {"-1", "101", "x", "", "nan", "0.5x", "1 2"}) {
    EXPECT_EQ(SetSampling("temperature", value, args).code(), Code::kInvalidArgument) << value;
  }
  for (const char* value : {"-1", "1.5", "9223372036854775808"}) {
    EXPECT_EQ(SetSampling("seed", value, args).code(), Code::kInvalidArgument) << value;
  }
  EXPECT_EQ(SetSampling("top-k", "-1", args).code(), Code::kInvalidArgument);
  EXPECT_EQ(SetSampling("max-tokens", "0", args).code(), Code::kInvalidArgument);
  EXPECT_FLOAT_EQ(*args.temperature, 0.5F);
  EXPECT_EQ(*args.seed, 3);
  EXPECT_FALSE(args.top_k || args.max_tokens);
  const Status unknown = SetSampling("heat", "1", args);
  EXPECT_NE(unknown.message().find("top-p"), std::string_view::npos) << unknown.message();
}

TEST(MakeSampler, TakesTheModelsRecommendationFirst) {
  runtime::TextSetup text;
  text.temperature = 0.9F;
  text.top_p = 0.8F;
  SamplingArgs args;
  args.top_p = 0.5F;
  args.seed = 7;
  const runtime::SamplerOptions sampler = MakeSampler(args, text);
  EXPECT_FLOAT_EQ(sampler.temperature, 0.9F);
  EXPECT_FLOAT_EQ(sampler.top_p, 0.5F);
  EXPECT_EQ(sampler.seed, 7u);
  const std::string shown = SamplingText(args, sampler);
  EXPECT_NE(shown.find("  temperature         0.9\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("  max-tokens          no limit\n"), std::string::npos) << shown;
}

}  // namespace
}  // namespace hone::cli
