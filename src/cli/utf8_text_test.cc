// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/utf8_text.h"

#include <gtest/gtest.h>

namespace hone::cli {
namespace {

TEST(Utf8, ComesBackAsItWas) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\n";
  EXPECT_EQ(ToWide(text), L"a\u00e9\u20ac\U0001f600\n");
  EXPECT_EQ(FromWide(ToWide(text)), text);
}

TEST(Utf8, IsReplacedWhereItIsBroken) {
  EXPECT_EQ(ToWide("a\xff\x80z"), L"a\ufffd\ufffdz");
  EXPECT_EQ(ToWide("\xe2\x82"), L"\ufffd");          // cut
  EXPECT_EQ(ToWide("\xed\xa0\x80"), L"\ufffd");      // a surrogate
  EXPECT_EQ(ToWide("\xc0\xaf"), L"\ufffd\ufffd");    // too long
  EXPECT_EQ(ToWide("\xf4\x90\x80\x80"), L"\ufffd");  // too large
}

TEST(Utf8, WaitsForTheEndOfACharacter) {
  std::string pending = "\xe2\x82";
  EXPECT_EQ(Utf8Bytes(pending), 0u);
  pending += "\xac!";
  EXPECT_EQ(Utf8Bytes(pending), 3u);
  EXPECT_EQ(TakeUtf8(pending), L'\u20ac');
  EXPECT_EQ(pending, "!");
  EXPECT_EQ(Utf8Bytes("\xe2!"), 1u);
}

TEST(PlainText, HasOneKindOfLineEndAndNoControlCharacters) {
  EXPECT_EQ(PlainText("a\r\nb\rc\n\r\td\x1b[2J\x7f\xc2\x9b"), "a\nb\nc\n\td[2J");
}

TEST(VisibleText, ShowsControlCharacters) {
  EXPECT_EQ(VisibleText("a\n\tb\x1b[2J\x7f\xc2\x9b\xc3\xa9\xc2\xa0"),
            "a\n\tb\\x1b[2J\\x7f\\x9b\xc3\xa9\xc2\xa0");
}

}  // namespace
}  // namespace hone::cli
