// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/chat_template.h"

#include <gtest/gtest.h>

namespace hone::bridge {
namespace {

TEST(ChatTemplate, RendersText) {
  auto compiled = ChatTemplate::Compile("a{{ x }}");
  ASSERT_TRUE(compiled.ok()) << compiled.message();
  EXPECT_EQ(*compiled->Render(R"({"x": 1.5})", 0), "a1.5");
}

}  // namespace
}  // namespace hone::bridge
