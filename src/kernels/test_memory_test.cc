// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/test_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace hone::kernels {
namespace {

TEST(PlacedRows, PutsRowsWhereAskedAndSeesAByteBesideThem) {
  const std::vector<std::int32_t> values = {1, 2, 3, 4, 5, 6};
  for (const Placement& at : kPlacements) {
    const PlacedRows<std::int32_t> rows(values.data(), 2, 3, 3, 3 + at.x_gap, at);
    for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(rows.row(i / 3)[i % 3], i + 1) << at.Text();
    if (at.place == Place::kBetweenGuards) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(rows.data()) % 64,
                static_cast<std::uintptr_t>(at.shift * 4 % 64));
    }
    EXPECT_TRUE(rows.Intact()) << at.Text();
    auto* bytes = reinterpret_cast<std::byte*>(rows.data());
    std::vector<std::int64_t> beside;
    if (at.place != Place::kBehindAFence) beside.push_back(-1);
    if (at.place != Place::kBeforeAFence) beside.push_back((2 * 3 + at.x_gap) * 4);
    if (at.x_gap > 0) beside.push_back(3 * 4 + at.x_gap * 4 - 1);
    for (const std::int64_t i : beside) {
      const std::byte old = bytes[i];
      bytes[i] = std::byte{0};
      EXPECT_FALSE(rows.Intact()) << at.Text() << " byte " << i;
      bytes[i] = old;
    }
    EXPECT_TRUE(rows.Intact()) << at.Text();
  }
}

TEST(PlacedRowsDeathTest, AFenceEndsWhoTouchesIt) {
  const std::vector<float> values(5, 1.0f);
  const PlacedRows<float> before(values.data(), 5, {Place::kBeforeAFence});
  const PlacedRows<float> behind(values.data(), 5, {Place::kBehindAFence});
  const auto read = [](const float* p) { return *static_cast<const volatile float*>(p); };
  EXPECT_DEATH(read(before.data() + 5), "");
  EXPECT_DEATH(read(behind.data() - 1), "");
}

}  // namespace
}  // namespace hone::kernels
