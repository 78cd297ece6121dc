// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/parts.h"

#include <gtest/gtest.h>

#include <vector>

namespace hone::kernels {
namespace {

struct Shape {
  std::int64_t panels, panel_bytes, least;
};

// One panel; fewer than a pair a thread; a feed-forward matrix; the head of a large vocabulary,
// with the least part of one row and of many.
constexpr Shape kShapes[] = {{1, 1280, 32768},     {3, 1280, 2560},     {36, 5376, 32768},
                             {384, 17536, 35072},  {385, 17536, 35072}, {8192, 17536, 35072},
                             {16384, 1280, 32768}, {16385, 1280, 2560}};

TEST(Parts, NoPartIsLargeForAnyNumberOfThreads) {
  for (const Shape& s : kShapes) {
    const std::int64_t bytes = s.panels * s.panel_bytes, pair = kPair * s.panel_bytes;
    for (int threads = 2; threads <= 96; ++threads) {
      const Parts parts(bytes, s.least, threads);
      ASSERT_LE(parts.count(), Parts::kMost);
      ASSERT_LE(parts.least(), std::max(s.least, bytes / 200));
      const std::int64_t limit = std::max(parts.least(), bytes / (2 * threads));
      for (int part = 0; part < parts.count(); ++part) {
        const std::int64_t first = PanelAt(parts.begin(part), 0, s.panels, s.panel_bytes);
        const std::int64_t end = PanelAt(parts.end(part), 0, s.panels, s.panel_bytes);
        ASSERT_LE((end - first) * s.panel_bytes, CeilDiv(limit, pair) * pair)
            << s.panels << " panels, " << threads << " threads, part " << part;
      }
    }
  }
}

TEST(Parts, CoverEveryPanelOnceInOrder) {
  for (const Shape& s : kShapes) {
    const std::int64_t bytes = s.panels * s.panel_bytes;
    for (int threads = 1; threads <= 96; ++threads) {
      const Parts parts(bytes, s.least, threads);
      std::int64_t at = 0, panel = 0;
      for (int part = 0; part < parts.count(); ++part) {
        ASSERT_EQ(parts.begin(part), at);
        ASSERT_GT(parts.end(part), at);
        at = parts.end(part);
        ASSERT_EQ(PanelAt(parts.begin(part), 0, s.panels, s.panel_bytes), panel);
        panel = PanelAt(at, 0, s.panels, s.panel_bytes);
      }
      ASSERT_EQ(at, bytes);
      ASSERT_EQ(panel, s.panels);
      ASSERT_TRUE(threads > 1 || parts.count() == 1);
    }
  }
  EXPECT_EQ(Parts(0, 1, 4).count(), 0);
}

// Threads that take one part after the other, all equally fast, end within a quarter of the ideal.
TEST(Parts, ManyThreadsFinishTogether) {
  const std::int64_t bytes = std::int64_t{16384} * 17536;
  for (const int threads : {2, 8, 16, 32, 48, 64, 96}) {
    const Parts parts(bytes, 32768, threads);
    std::vector<std::int64_t> busy(static_cast<std::size_t>(threads));
    for (int part = 0; part < parts.count(); ++part) {
      *std::min_element(busy.begin(), busy.end()) += parts.end(part) - parts.begin(part);
    }
    EXPECT_LE(*std::max_element(busy.begin(), busy.end()) * threads, bytes * 5 / 4) << threads;
  }
}

}  // namespace
}  // namespace hone::kernels
