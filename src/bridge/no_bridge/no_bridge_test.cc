// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "bridge/chat_template.h"
#include "bridge/grammar.h"
#include "bridge/tokenizer.h"

namespace hone::bridge {
namespace {

TEST(NoBridge, SaysThatTextSupportIsNotBuilt) {
  const auto tokenizer = Tokenizer::FromJson("{}");
  EXPECT_EQ(tokenizer.code(), Code::kUnsupported);
  EXPECT_EQ(tokenizer.message(), "this build has no text support (HONE_BRIDGE=OFF)");
  EXPECT_EQ(ChatTemplate::Compile("x").code(), Code::kUnsupported);
  EXPECT_EQ(CheckGrammar({}).code(), Code::kUnsupported);
  EXPECT_EQ(Vocabulary::Make(Tokenizer(), 10, {}, {}).code(), Code::kUnsupported);
  EXPECT_EQ(TokenMatcher::Compile(Vocabulary(), {}).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace hone::bridge
