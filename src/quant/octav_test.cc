// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/octav.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace hone::quant {
namespace {

// Every vector width must give what one block alone gives, also for blocks that are zero, huge or
// have one outlier, and for the blocks left over behind the vectors.
TEST(OctavClips, EqualsOneBlockAfterTheOtherBitForBit) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  for (const std::size_t block : {8U, 32U, 64U, 128U, 136U, 33U}) {
    for (const std::size_t count : {1U, 5U, 16U, 37U}) {
      for (const float size : {1e-30f, 0.02f, 3.0f, 1e30f}) {
        std::vector<float> row(block * count);
        for (float& v : row) v = size * normal(random);
        for (std::size_t i = 0; i < block; ++i) row[i] = 0.0f;
        row[block * (count - 1)] = 100.0f * size;
        std::vector<float> clips(count);
        OctavClips(row, block, 4, clips);
        for (std::size_t b = 0; b < count; ++b) {
          const float expected = OctavClip(std::span(row).subspan(b * block, block), 4);
          EXPECT_EQ(clips[b], expected) << "block " << b << " of " << count << " x " << block;
        }
      }
    }
  }
}

TEST(OctavClip, CutsOffAnOutlier) {
  std::vector<float> x(32, 1.0f);
  x[5] = 50.0f;
  const float clip = OctavClip(x, 4);
  EXPECT_GT(clip, 1.0f);
  EXPECT_LT(clip, 50.0f);
}

}  // namespace
}  // namespace hone::quant
