// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/foreign_file.h"

#include <gtest/gtest.h>

namespace hone::formats {
namespace {

TEST(ForeignFile, Utf8IsStrict) {
  for (const char* good : {"", "abc", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2 ", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "ok\xfe"}) {
    EXPECT_FALSE(IsUtf8(bad)) << bad;
  }
  EXPECT_TRUE(IsUtf8(std::string_view("a\0b", 3)));
}

TEST(ForeignFile, QuotesAreOneShortLine) {
  EXPECT_EQ(Quote("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  EXPECT_EQ(Quote(std::string_view("a\n\0\xff", 4)), "\"a\\x0a\\x00\\xff\"");
  const std::string cut = Quote(std::string(100000, 'x'));
  EXPECT_LT(cut.size(), 210U);
  EXPECT_TRUE(cut.ends_with("...\""));
}

TEST(ForeignFile, KnowsWhatPeopleSaveByMistake) {
  const auto describe = [](std::string_view text) { return DescribeForeignFile(AsBytes(text)); };
  EXPECT_NE(describe("version https://git-lfs.github.com/spec/v1").find("Git LFS"),
            std::string::npos);
  for (const char* page : {"<!doctype html>", "<!DOCTYPE HTML>", "\xef\xbb\xbf\r\n <HTML>"}) {
    EXPECT_NE(describe(page).find("web page"), std::string::npos) << page;
  }
  EXPECT_EQ(describe(""), "");
  EXPECT_EQ(describe("{}"), "");
  EXPECT_EQ(describe("<x"), "");
}

}  // namespace
}  // namespace hone::formats
