// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/attention/attention_kernels.h"
#include "kernels/attention/attention_test_util.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

void CompareWithTwin(const Shape& s, std::int64_t first, std::int64_t m) {
  for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
    const Cache cache(kernel, s);
    ThreadPool pool(1);
    const auto size = static_cast<std::size_t>(m * s.heads * s.head_dim);
    std::vector<float> got(size), want(size);
    Attend(kernel, cache.Rows(first, m, got.data()), pool);
    AttentionReference(cache.Rows(first, m, want.data()));
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_NEAR(got[i], want[i],
                  s.type == KvType::kInt8 ? kernel.int8_tolerance : kernel.tolerance)
          << kernel.name << " heads " << s.heads << "/" << s.kv_heads << " dim " << s.head_dim
          << " first " << first << " m " << m << " window " << s.window << " at " << i;
    }
  }
}

TEST(Attention, EqualsTheTwinForEveryShape) {
  for (const KvType type : kTypes) {
    for (const std::int64_t dim : {1, 2, 3, 5, 8, 16, 24, 31, 32, 64, 80, 128}) {
      CompareWithTwin({4, 2, dim, 70, type}, 65, 5);
    }
    for (const std::int64_t kv_heads : {1, 2, 3, 6}) {
      CompareWithTwin({6, kv_heads, 16, 67, type}, 0, 67);
    }
    CompareWithTwin({40, 1, 16, 3, type}, 0, 3);
  }
}

TEST(Attention, EqualsTheTwinAtPageAndSegmentEnds) {
  for (const std::int64_t first : {0, 62, 63, 64, 510, 512, 1022}) {
    CompareWithTwin({3, 1, 16, first + 4, KvType::kF32}, first, 4);
  }
}

TEST(Attention, EqualsTheTwinForEveryWindow) {
  for (const KvType type : kTypes) {
    for (const std::int64_t window : {1, 2, 15, 16, 17, 63, 64, 65, 100, 139, 140, 500}) {
      CompareWithTwin({4, 2, 24, 140, type, window}, 0, 140);
    }
  }
  for (const std::int64_t window : {1, 70, 511, 512, 513, 1030, 1040}) {
    for (const std::int64_t first : {510, 1020, 1030}) {
      CompareWithTwin({3, 1, 16, first + 6, KvType::kF32, window}, first, 6);
    }
  }
}

TEST(Attention, EqualsTheTwinWithSoftcap) {
  for (const float cap : {0.5f, 2.0f, 50.0f}) {
    CompareWithTwin({4, 2, 24, 140, KvType::kF32, 0, cap}, 0, 140);
    CompareWithTwin({4, 2, 32, 540, KvType::kF16, 33, cap}, 500, 40);
  }
}

TEST(Attention, AWindowThatReachesTheBeginningChangesNoBit) {
  for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
    Shape s = {4, 2, 32, 600, KvType::kF32};
    ThreadPool pool(1);
    std::vector<float> want(20 * 128), got(20 * 128);
    Attend(kernel, Cache(kernel, s).Rows(580, 20, want.data()), pool);
    s.window = 600;
    Attend(kernel, Cache(kernel, s).Rows(580, 20, got.data()), pool);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << kernel.name;
  }
}

TEST(Attention, ReadsNoPageBeforeTheWindow) {
  for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
    const Cache cache(kernel, {4, 2, 32, 1200, KvType::kF32, 130});
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      std::vector<float> want(8 * 128), got(8 * 128);
      AttentionArgs args = cache.Rows(1190, 8, want.data());
      Attend(kernel, args, pool);
      // The first row sees 1061 and later: pages 0 to 15 are not there.
      std::vector<const void*> k(args.k_pages, args.k_pages + 19),
          v(args.v_pages, args.v_pages + 19);
      std::fill(k.begin(), k.begin() + 16, nullptr);
      std::fill(v.begin(), v.begin() + 16, nullptr);
      args.k_pages = k.data();
      args.v_pages = v.data();
      args.out = got.data();
      Attend(kernel, args, pool);
      EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << kernel.name;
    }
  }
}

class AttentionSplits : public testing::TestWithParam<std::int64_t> {};  // window

TEST_P(AttentionSplits, DoesNotDependOnThreadsOrOnTheSplitIntoCalls) {
  for (const KvType type : kTypes) {
    const Shape s = {6, 2, 32, 1100, type, GetParam(), GetParam() > 0 ? 3.0f : 0.0f};
    for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
      const Cache cache(kernel, s);
      const std::int64_t row = s.heads * s.head_dim, first = 1000, m = s.positions - first;
      std::vector<float> want(static_cast<std::size_t>(m * row));
      ThreadPool pool1(1);
      Attend(kernel, cache.Rows(first, m, want.data()), pool1);
      for (const int threads : {1, 2, 5}) {
        ThreadPool pool(threads);
        for (const std::int64_t chunk : {1, 7, 64}) {
          // One row at a time only for the last ones: it is the slow case.
          const std::int64_t begin = chunk == 1 ? 90 : 0;
          std::vector<float> got = want;
          std::fill(got.begin() + begin * row, got.end(), -1.0f);
          for (std::int64_t i = begin; i < m; i += chunk) {
            Attend(kernel, cache.Rows(first + i, std::min(chunk, m - i), got.data() + i * row),
                   pool);
          }
          EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
              << kernel.name << " threads " << threads << " chunk " << chunk;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, AttentionSplits, testing::Values(0, 90, 530));

TEST(Attention, OnePositionReturnsItsValue) {
  ThreadPool pool(1);
  for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
    const Cache cache(kernel, {2, 1, 20, 1, KvType::kF32});
    std::vector<float> out(40);
    Attend(kernel, cache.Rows(0, 1, out.data()), pool);
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(out[i], cache.v_rows[i % 20]) << kernel.name;
  }
}

TEST(Attention, ReadsNothingBehindTheLastPosition) {
  // The cache memory behind the last position is NaN, so any use of it would show.
  ThreadPool pool(1);
  for (const KvType type : kTypes) {
    for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
      const Cache cache(kernel, {2, 2, 24, 66, type});
      std::vector<float> out(66 * 48);
      Attend(kernel, cache.Rows(0, 66, out.data()), pool);
      for (const float x : out) ASSERT_TRUE(std::isfinite(x)) << kernel.name;
    }
  }
}

// Queries of one sign and keys that are all of the largest code, with either sign: a sum that does
// not fit would turn the order of the scores.
TEST(Attention, Int8ScoresOfWideHeadsDoNotOverflow) {
  ThreadPool pool(1);
  for (const std::int64_t dim : {128, 516, 517, 520, 1040, 2048}) {
    for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
      Cache cache(kernel, {2, 1, dim, 20, KvType::kInt8});
      std::fill(cache.q.begin(), cache.q.end(), 4.0f);
      for (std::int64_t i = 0; i < 20 * dim; ++i) {
        cache.k_rows[static_cast<std::size_t>(i)] = i / dim % 3 == 0 ? 1.0f : -1.0f;
      }
      cache.Store(kernel);
      std::vector<float> got(static_cast<std::size_t>(2 * dim)), want = got;
      AttentionArgs args = cache.Rows(19, 1, got.data());
      args.scale = 1.0f / static_cast<float>(dim);  // scores of 4 and -4
      Attend(kernel, args, pool);
      args.out = want.data();
      AttentionReference(args);
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], kernel.int8_tolerance) << kernel.name << " dim " << dim;
      }
    }
  }
}

TEST(Attention, WhatIsNotFiniteShowsInTheRowsThatSeeIt) {
  ThreadPool pool(1);
  for (const KvType type : kTypes) {
    for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
      for (const bool in_keys : {false, true}) {
        Cache cache(kernel, {4, 1, 24, 90, type});
        (in_keys ? cache.k_rows : cache.v_rows)[70 * 24 + 3] = std::nanf("");
        cache.Store(kernel);
        std::vector<float> out(90 * 96);
        Attend(kernel, cache.Rows(0, 90, out.data()), pool);
        for (std::size_t i = 0; i < out.size(); ++i) {
          // A value is one column; its int8 scale is all of them.
          const bool seen = i / 96 >= 70 && (in_keys || type == KvType::kInt8 || i % 24 == 3);
          ASSERT_EQ(std::isnan(out[i]), seen)
              << kernel.name << " " << KvTypeName(type) << " keys " << in_keys << " at " << i;
        }
      }
    }
  }
}

TEST(Attention, GroupsOfEverySizeEqualTheTwin) {
  for (const KvType type : kTypes) {
    for (std::int64_t group = 1; group <= 9; ++group) {
      CompareWithTwin({group, 1, 32, 150, type}, 149, 1);
      CompareWithTwin({2 * group, 2, 48, 150, type}, 120, 30);
    }
    CompareWithTwin({70, 1, 16, 90, type}, 80, 10);
  }
}

TEST(Attention, CallsInOneRunEqualCallsAlone) {
  for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
    for (const KvType type : kTypes) {
      const Cache shorter(kernel, {6, 2, 32, 100, type});
      const Cache longer(kernel, {6, 2, 32, 1300, type});
      const Cache windowed(kernel, {8, 1, 16, 700, type, 90, 2.0f});
      std::vector<float> want(60 * 192 + 192 + 5 * 128);
      float* const out[] = {want.data(), want.data() + 60 * 192, want.data() + 61 * 192};
      std::vector<AttentionArgs> calls = {shorter.Rows(40, 60, out[0]),
                                          longer.Rows(1299, 1, out[1]), AttentionArgs(),
                                          windowed.Rows(690, 5, out[2])};
      ThreadPool one(1);
      for (const AttentionArgs& call : calls) Attend(kernel, call, one);
      AttentionScratch scratch;  // what one call leaves in it is nothing to the next
      for (const int threads : {1, 2, 3}) {
        std::vector<float> got(want.size(), -1.0f);
        std::vector<AttentionArgs> moved = calls;
        for (AttentionArgs& call : moved) {
          if (call.out != nullptr) call.out = got.data() + (call.out - want.data());
        }
        ThreadPool pool(threads);
        attention::AttentionWith(kernel, moved, pool, scratch);
        EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
            << kernel.name << " threads " << threads;
      }
    }
  }
}

TEST(StoreKv, GivesTheSameBytesOnEveryTargetAndForEverySplit) {
  const std::int64_t heads = 2, positions = 150;
  for (const KvType type : kTypes) {
    for (const KvPart part : {KvPart::kKeys, KvPart::kValues}) {
      for (const std::int64_t dim : {1, 7, 16, 24, 64}) {
        const std::vector<float> rows = RandomFloats(positions * heads * dim, 9);
        const std::uint64_t bytes = KvPageBytes(type, heads, dim);
        std::vector<std::vector<std::byte>> want;
        for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
          for (const std::int64_t chunk : {1, 13, 48, 150}) {
            std::vector<std::vector<std::byte>> got(3, std::vector<std::byte>(bytes));
            std::vector<void*> pages;
            for (auto& page : got) pages.push_back(page.data());
            for (std::int64_t i = 0; i < positions; i += chunk) {
              attention::StoreKvWith(kernel, type, part, rows.data() + i * heads * dim,
                                     std::min(chunk, positions - i), i, heads, dim, pages.data());
            }
            if (want.empty()) want = got;
            EXPECT_EQ(got, want) << kernel.name << " dim " << dim << " chunk " << chunk;
          }
        }
      }
    }
  }
}

// A page of one position and one head of 20 values, and its scale and codes.
struct Int8Page {
  explicit Int8Page(const attention::Kernel& kernel, const std::vector<float>& row)
      : bytes(KvPageBytes(KvType::kInt8, 1, 20)) {
    void* page = bytes.data();
    attention::StoreKvWith(kernel, KvType::kInt8, KvPart::kValues, row.data(), 1, 0, 1, 20, &page);
    std::memcpy(&scale, bytes.data() + attention::Int8CodeBytes(20), sizeof(scale));
  }
  int code(std::size_t j) const { return static_cast<std::int8_t>(bytes[j]); }
  std::vector<std::byte> bytes;
  float scale = 0;
};

TEST(StoreKv, Int8RoundsToTheNearestCodeOfTheLargestValue) {
  for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
    std::vector<float> row(20, 0.0f);
    row[0] = -2.54f;
    row[3] = 1.0f;
    row[19] = 0.011f;
    const Int8Page page(kernel, row);
    EXPECT_FLOAT_EQ(page.scale, 0.02f);
    EXPECT_EQ(page.code(0), -127);
    EXPECT_EQ(page.code(1), 0);
    EXPECT_EQ(page.code(3), 50);
    EXPECT_EQ(page.code(19), 1);
  }
}

TEST(StoreKv, Int8KeepsZerosAndSaysWhatIsNotFinite) {
  for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
    EXPECT_EQ(Int8Page(kernel, std::vector<float>(20, 0.0f)).scale, 0.0f);
    EXPECT_EQ(Int8Page(kernel, std::vector<float>(20, 1e-38f)).code(3), 0);
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      for (const std::size_t at : {0U, 15U, 16U, 19U}) {
        std::vector<float> row(20, 1.0f);
        row[at] = bad;
        EXPECT_TRUE(std::isnan(Int8Page(kernel, row).scale)) << kernel.name << " at " << at;
      }
    }
  }
}

}  // namespace
}  // namespace hone::kernels
