// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Attention's memory: what it touches, how much it asks for, and any number of threads that share
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/attention.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/attention/attention_test_util.h"
#include "kernels/test_memory.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

constexpr int kThreads[] = {1, 2, 3, 16, 64};

TEST(Attention, TakesRowsAtAnyAddressAndTouchesNothingElse) {
  ThreadPool pool(1);
  for (const KvType type : kTypes) {
    for (const std::int64_t dim : {1, 5, 16, 24, 33, 64, 128}) {
      for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
        const Cache cache(kernel, {6, 2, dim, 70, type}, true);
        for (const std::int64_t m : {1, 7}) {
          const std::int64_t size = m * 6 * dim;
          std::vector<float> want(static_cast<std::size_t>(size));
          AttentionArgs args = cache.Rows(70 - m, m, want.data());
          const float* q = args.q;
          Attend(kernel, args, pool);
          for (const Placement& at : kPlacements) {
            const PlacedRows<float> placed(q, size, at), out(nullptr, size, at);
            args.q = placed.data();
            args.out = out.data();
            Attend(kernel, args, pool);
            ASSERT_EQ(std::memcmp(out.data(), want.data(), want.size() * sizeof(float)), 0)
                << kernel.name << " dim " << dim << " m " << m << at.Text();
            ASSERT_TRUE(placed.Intact() && out.Intact())
                << kernel.name << " dim " << dim << " m " << m << at.Text();
          }
        }
      }
    }
  }
}

TEST(StoreKv, TakesRowsAtAnyAddressAndTouchesNothingElse) {
  for (const KvType type : kTypes) {
    for (const KvPart part : {KvPart::kKeys, KvPart::kValues}) {
      for (const std::int64_t dim : {1, 5, 16, 31, 64}) {
        const std::int64_t heads = 2, positions = 64;
        const auto bytes = static_cast<std::int64_t>(KvPageBytes(type, heads, dim));
        const std::vector<float> rows = RandomFloats(positions * heads * dim, 9);
        for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
          std::vector<std::byte> want(static_cast<std::size_t>(bytes));
          void* page = want.data();
          attention::StoreKvWith(kernel, type, part, rows.data(), positions, 0, heads, dim, &page);
          for (const Placement& at : kPlacements) {
            const PlacedRows<float> placed(rows.data(), positions * heads * dim, at);
            // Pages are aligned.
            const PlacedRows<std::byte> out(nullptr, bytes, {at.place});
            page = out.data();
            std::memset(page, 0, want.size());
            attention::StoreKvWith(kernel, type, part, placed.data(), positions, 0, heads, dim,
                                   &page);
            ASSERT_EQ(std::memcmp(page, want.data(), want.size()), 0)
                << kernel.name << " dim " << dim << at.Text();
            ASSERT_TRUE(placed.Intact() && out.Intact())
                << kernel.name << " dim " << dim << at.Text();
          }
        }
      }
    }
  }
}

struct Step {
  Shape shape;
  std::int64_t m;
};

// One row and one head, less work than threads; decode over several segments; a prefill that is
// split and one that is not; windows.
constexpr Step kSteps[] = {
    {{1, 1, 16, 1, KvType::kF32}, 1},        {{2, 1, 20, 70, KvType::kF16}, 1},
    {{16, 2, 32, 1700, KvType::kInt8}, 1},   {{16, 2, 32, 1537, KvType::kF32}, 1},
    {{8, 2, 16, 1100, KvType::kF16}, 75},    {{8, 2, 24, 1100, KvType::kInt8, 600, 2.0f}, 40},
    {{4, 4, 16, 530, KvType::kF32, 9}, 530}, {{70, 1, 16, 520, KvType::kInt8}, 5}};

TEST(Attention, AnyNumberOfThreadsGivesTheSameBits) {
  for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
    for (const Step& step : kSteps) {
      const Shape& s = step.shape;
      const Cache cache(kernel, s);
      std::vector<float> want(static_cast<std::size_t>(step.m * s.heads * s.head_dim));
      ThreadPool one(1);
      Attend(kernel, cache.Rows(s.positions - step.m, step.m, want.data()), one);
      for (const int threads : kThreads) {
        ThreadPool pool(threads);
        const PlacedRows<float> out(nullptr, static_cast<std::int64_t>(want.size()), Placement());
        Attend(kernel, cache.Rows(s.positions - step.m, step.m, out.data()), pool);
        ASSERT_EQ(std::memcmp(out.data(), want.data(), want.size() * sizeof(float)), 0)
            << kernel.name << " positions " << s.positions << " m " << step.m << " threads "
            << threads;
        ASSERT_TRUE(out.Intact());
      }
    }
  }
}

TEST(Attention, ManySequencesGiveTheSameBitsForAnyNumberOfThreads) {
  for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
    std::vector<Cache> caches;
    for (const std::int64_t positions : {1, 64, 513, 900, 1300}) {
      caches.emplace_back(kernel, Shape{8, 2, 32, positions, KvType::kInt8});
    }
    const std::int64_t row = 8 * 32, rows = static_cast<std::int64_t>(caches.size());
    std::vector<float> want(static_cast<std::size_t>(rows * row));
    ThreadPool one(1);
    for (std::int64_t i = 0; i < rows; ++i) {
      const Cache& cache = caches[static_cast<std::size_t>(i)];
      Attend(kernel, cache.Rows(cache.shape.positions - 1, 1, want.data() + i * row), one);
    }
    for (const int threads : kThreads) {
      ThreadPool pool(threads);
      std::vector<float> got(want.size());
      std::vector<AttentionArgs> calls;
      for (std::int64_t i = 0; i < rows; ++i) {
        const Cache& cache = caches[static_cast<std::size_t>(i)];
        calls.push_back(cache.Rows(cache.shape.positions - 1, 1, got.data() + i * row));
      }
      AttentionScratch scratch;
      attention::AttentionWith(kernel, calls, pool, scratch);
      ASSERT_EQ(got, want) << kernel.name << " threads " << threads;
    }
  }
}

AttentionArgs SizesOnly(std::int64_t m, std::int64_t first_position) {
  AttentionArgs args;
  args.m = m;
  args.first_position = first_position;
  args.heads = 16;
  args.kv_heads = 2;
  args.head_dim = 128;
  return args;
}

// The results of the segments of a unit of `queries`, each of 128 values, a largest score and a
// sum, and the total.
std::int64_t KeptFloats(std::int64_t units, std::int64_t segments, std::int64_t queries) {
  return units * (segments + 1) * queries * 130;
}

TEST(AttentionWork, GrowsWithTasksAndNotWithThreadsThatHaveNone) {
  const AttentionArgs decode = SizesOnly(1, 16383);  // 2 units of 32 segments
  const std::int64_t one = attention::WorkFloats({&decode, 1}, 1);
  const std::int64_t kept = KeptFloats(2, 32, 8);
  for (const int threads : {2, 3, 16, 64}) {
    EXPECT_EQ(attention::WorkFloats({&decode, 1}, threads), threads * one + kept) << threads;
  }
  EXPECT_EQ(attention::WorkFloats({&decode, 1}, 1000), 64 * one + kept);
  // Two units of one segment keep two threads busy.
  const AttentionArgs shallow = SizesOnly(1, 100);
  const std::int64_t two = attention::WorkFloats({&shallow, 1}, 2);
  EXPECT_EQ(attention::WorkFloats({&shallow, 1}, 64), two);
  const AttentionArgs nothing = SizesOnly(0, 100);
  EXPECT_EQ(attention::WorkFloats({&nothing, 1}, 64), 0);
}

TEST(AttentionWork, StaysSmallBehindDeepContextsForAnyNumberOfThreads) {
  for (const int threads : kThreads) {
    for (const std::int64_t depth : {0, 16384, 131072, 1048576}) {
      for (const std::int64_t m : {1, 8, 100, 500, 512}) {
        const AttentionArgs call = SizesOnly(m, depth);
        // A worker's scratch is that of one unit of at most 64 queries.
        const AttentionArgs unit = SizesOnly(std::min<std::int64_t>(m, 8), 0);
        const std::int64_t scratch = attention::WorkFloats({&unit, 1}, 1);
        EXPECT_LE(attention::WorkFloats({&call, 1}, threads),
                  threads * scratch + attention::kMostKeptFloats)
            << "threads " << threads << " depth " << depth << " m " << m;
      }
    }
    const std::vector<AttentionArgs> many(200, SizesOnly(1, 131071));
    EXPECT_LE(attention::WorkFloats(many, threads),
              threads * attention::WorkFloats({many.data(), 1}, 1) + attention::kMostKeptFloats);
  }
  // Decode of one sequence is always shared.
  const AttentionArgs deepest = SizesOnly(1, 1048575);
  EXPECT_GT(attention::WorkFloats({&deepest, 1}, 2), KeptFloats(2, 2048, 8));
}

}  // namespace
}  // namespace hone::kernels
