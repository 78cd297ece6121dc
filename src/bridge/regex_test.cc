// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/regex.h"

#include <gtest/gtest.h>

namespace hone::bridge {
namespace {

TEST(Regex, SearchesAsPythonDoes) {
  auto regex = Regex::Compile("LlamaDecoderLayer_(0|1)/.*mlp");
  ASSERT_TRUE(regex.ok()) << regex.message();
  EXPECT_TRUE(regex->Search("model/LlamaDecoderLayer_1/LlamaMLP_mlp/Linear_up_proj;1"));
  EXPECT_FALSE(regex->Search("model/LlamaDecoderLayer_2/LlamaMLP_mlp/Linear_up_proj;1"));
  const Regex copy = *regex;
  EXPECT_TRUE(copy.Search("LlamaDecoderLayer_0/mlp"));
}

TEST(Regex, RefusesWithAReasonWhatItCannotBound) {
  for (const char* pattern : {"(?<!a)b", "(a)\\1", "(a", "(a{1000}){1000}"}) {
    auto regex = Regex::Compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.code(), Code::kUnsupported);
    EXPECT_NE(std::string(regex.message()).find(pattern), std::string::npos) << regex.message();
  }
}

}  // namespace
}  // namespace hone::bridge
