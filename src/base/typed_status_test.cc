// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/typed_status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace hone {
namespace {

struct PlaceError {
  int line = 0;
  std::string message;
};
using PlaceStatus = TypedStatus<PlaceError>;
template <typename T>
using PlaceResult = TypedResult<T, PlaceError>;

PlaceStatus CheckPositive(int number) {
  if (number <= 0) return PlaceError{.line = 3, .message = StrCat(number, " is not positive")};
  return PlaceStatus();
}

// A value that only moves.
PlaceResult<std::unique_ptr<int>> Box(int number) {
  HONE_TRY(CheckPositive(number));
  if (number > 9) return PlaceError{.line = 4, .message = "too big"};
  return std::make_unique<int>(number);
}

PlaceResult<std::string> Print(int number) {
  HONE_ASSIGN(const std::unique_ptr<int> box, Box(number));
  return StrCat("<", *box, ">");
}

PlaceStatus CheckPrint(int number) {
  HONE_ASSIGN(const std::string text, Print(number));
  return text.size() == 3 ? PlaceStatus() : PlaceStatus({.line = 5, .message = text});
}

TEST(TypedStatus, IsOnePointerAndHasTheError) {
  static_assert(sizeof(PlaceStatus) == sizeof(void*));
  EXPECT_TRUE(PlaceStatus().ok());
  EXPECT_TRUE(CheckPositive(1).ok());
  PlaceStatus status = CheckPositive(-2);
  ASSERT_FALSE(status.ok());
  const PlaceStatus moved = std::move(status);
  ASSERT_FALSE(moved.ok());
  EXPECT_EQ(moved.error().line, 3);
  EXPECT_EQ(moved.error().message, "-2 is not positive");
}

TEST(TypedResult, HasTheValueOrTheError) {
  PlaceResult<std::string> text = Print(7);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "<7>");
  *text += "!";
  EXPECT_EQ(std::as_const(text)->size(), 4U);
  EXPECT_EQ(*std::as_const(text), "<7>!");
  const std::string taken = *std::move(text);
  EXPECT_EQ(taken, "<7>!");

  const PlaceResult<std::string> none = Print(12);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().line, 4);
  EXPECT_EQ(none.error().message, "too big");
}

TEST(TypedResult, TheMacrosPassTheErrorOn) {
  EXPECT_TRUE(CheckPrint(7).ok());
  const PlaceStatus low = CheckPrint(0);  // from a status, through two results
  ASSERT_FALSE(low.ok());
  EXPECT_EQ(low.error().line, 3);
  const PlaceStatus high = CheckPrint(10);
  ASSERT_FALSE(high.ok());
  EXPECT_EQ(high.error().line, 4);
}

TEST(TypedResult, GivesItsStatusAway) {
  EXPECT_TRUE(Box(5).status().ok());
  const PlaceStatus status = Box(-1).status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "-1 is not positive");
}

}  // namespace
}  // namespace hone
