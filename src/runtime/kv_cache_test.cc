// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace hone::runtime {
namespace {

constexpr std::int64_t kLayers = 2, kHeads = 2, kHeadDim = 16;
constexpr auto kF32 = kernels::KvType::kF32;

std::shared_ptr<KvPool> MakePool(std::uint64_t max_blocks = 0) {
  const std::uint64_t bytes = KvCache::BlockBytes(kF32, kLayers, kHeads, kHeadDim);
  return KvPool::Make(bytes, max_blocks * bytes);
}

KvCache MakeCache(std::shared_ptr<KvPool> pool) {
  return KvCache(kF32, kLayers, kHeads, kHeadDim, std::move(pool));
}

// Reserves and writes `value` as keys and value + 0.5 as values of positions [begin, end).
Status Write(KvCache& cache, std::int64_t begin, std::int64_t end, float value) {
  HONE_TRY(cache.Reserve(end));
  const auto count = static_cast<std::size_t>((end - begin) * kHeads * kHeadDim);
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::vector<float> keys(count, value);
    const std::vector<float> values(count, value + 0.5F);
    kernels::StoreKv(kF32, kernels::KvPart::kKeys, keys.data(), end - begin, begin, kHeads,
                     kHeadDim, cache.k_pages(layer));
    kernels::StoreKv(kF32, kernels::KvPart::kValues, values.data(), end - begin, begin, kHeads,
                     kHeadDim, cache.v_pages(layer));
  }
  return Status();
}

// All bytes of all pages, as the tables give them.
std::vector<std::byte> Contents(const KvCache& cache) {
  const std::uint64_t page = kernels::KvPageBytes(kF32, kHeads, kHeadDim);
  std::vector<std::byte> all;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    for (std::size_t i = 0; i < cache.blocks().size(); ++i) {
      for (void* const* pages : {cache.k_pages(layer), cache.v_pages(layer)}) {
        const auto* begin = static_cast<const std::byte*>(pages[i]);
        all.insert(all.end(), begin, begin + page);
      }
    }
  }
  return all;
}

TEST(KvCache, NewPagesAreZeroAlsoWhenTheirMemoryWasUsedBefore) {
  auto pool = MakePool();
  auto cache = MakeCache(pool);
  ASSERT_TRUE(Write(cache, 0, 64, 3).ok());
  const void* first = cache.k_pages(0)[0];
  cache.Shrink(0);
  ASSERT_TRUE(cache.Reserve(64).ok());
  EXPECT_EQ(cache.k_pages(0)[0], first);
  const auto all = Contents(cache);
  EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST(KvCache, PagesAreAlignedAndApart) {
  auto cache = MakeCache(MakePool());
  ASSERT_TRUE(cache.Reserve(200).ok());
  EXPECT_EQ(cache.blocks().size(), 4u);
  std::vector<std::uintptr_t> pages;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    for (std::size_t i = 0; i < 4; ++i) {
      pages.push_back(reinterpret_cast<std::uintptr_t>(cache.k_pages(layer)[i]));
      pages.push_back(reinterpret_cast<std::uintptr_t>(cache.v_pages(layer)[i]));
    }
  }
  std::sort(pages.begin(), pages.end());
  const std::uint64_t page = kernels::KvPageBytes(kF32, kHeads, kHeadDim);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    EXPECT_EQ(pages[i] % 64, 0u);
    if (i > 0) {
      EXPECT_GE(pages[i] - pages[i - 1], page);
    }
  }
}

TEST(KvCache, FullBlocksAreSharedAndNotCopied) {
  auto pool = MakePool();
  auto a = MakeCache(pool);
  ASSERT_TRUE(Write(a, 0, 130, 1).ok());
  auto b = MakeCache(pool);
  b.Attach(a.blocks().first(2), 128);
  EXPECT_EQ(b.size(), 128);
  ASSERT_TRUE(Write(b, 128, 140, 2).ok());
  EXPECT_EQ(a.k_pages(1)[1], b.k_pages(1)[1]);
  EXPECT_NE(a.k_pages(1)[2], b.k_pages(1)[2]);
  EXPECT_EQ(pool->bytes_in_use(), 4 * pool->block_bytes());
}

TEST(KvCache, APartlyFilledSharedBlockIsCopiedBeforeItIsWritten) {
  auto pool = MakePool();
  auto a = MakeCache(pool);
  ASSERT_TRUE(Write(a, 0, 100, 1).ok());
  const auto before = Contents(a);
  auto b = MakeCache(pool);
  b.Attach(a.blocks(), 100);
  EXPECT_EQ(a.k_pages(0)[1], b.k_pages(0)[1]);
  EXPECT_EQ(Contents(b), before);
  ASSERT_TRUE(b.Reserve(101).ok());
  EXPECT_NE(a.k_pages(0)[1], b.k_pages(0)[1]);
  EXPECT_EQ(Contents(b), before);
  ASSERT_TRUE(Write(b, 100, 110, 2).ok());
  EXPECT_EQ(Contents(a), before);
  // a is alone with its block again and writes in place.
  const void* own = a.k_pages(0)[1];
  ASSERT_TRUE(Write(a, 100, 101, 3).ok());
  EXPECT_EQ(a.k_pages(0)[1], own);
}

TEST(KvCache, TruncateAndAppendAfterSharingKeepsTheOthersPages) {
  auto pool = MakePool();
  auto a = MakeCache(pool);
  ASSERT_TRUE(Write(a, 0, 192, 1).ok());
  const auto before = Contents(a);
  auto b = MakeCache(pool);
  b.Attach(a.blocks(), 192);
  b.Shrink(70);
  EXPECT_EQ(b.blocks().size(), 2u);
  ASSERT_TRUE(Write(b, 70, 192, 9).ok());
  EXPECT_EQ(Contents(a), before);
  EXPECT_EQ(a.k_pages(0)[0], b.k_pages(0)[0]);
  // The other way round: the first owner is no better than the second.
  const auto changed = Contents(b);
  a.Shrink(30);
  ASSERT_TRUE(Write(a, 30, 64, 7).ok());
  EXPECT_EQ(Contents(b), changed);
}

TEST(KvCache, ABorderOfABlockNeedsNoCopy) {
  auto pool = MakePool();
  auto a = MakeCache(pool);
  ASSERT_TRUE(Write(a, 0, 128, 1).ok());
  auto b = MakeCache(pool);
  b.Attach(a.blocks(), 128);
  b.Shrink(64);
  ASSERT_TRUE(Write(b, 64, 65, 2).ok());
  EXPECT_EQ(pool->bytes_in_use(), 3 * pool->block_bytes());
}

TEST(KvCache, ReadOnlyMemoryIsCopiedOnlyWhenItWouldBeWritten) {
  auto pool = MakePool();
  const auto bytes = static_cast<std::size_t>(pool->block_bytes());
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes{};
  };
  auto memory = std::make_shared<std::vector<Line>>(2 * bytes / 64);
  const auto all = std::as_bytes(std::span(*memory));
  const std::vector<std::shared_ptr<KvBlock>> blocks = {
      std::make_shared<KvBlock>(all.first(bytes), memory),
      std::make_shared<KvBlock>(all.subspan(bytes), memory)};
  std::weak_ptr<std::vector<Line>> watch = memory;
  auto cache = MakeCache(pool);
  cache.Attach(blocks, 80);
  EXPECT_EQ(pool->bytes_in_use(), 0u);
  EXPECT_EQ(cache.k_pages(0)[0], all.data());
  ASSERT_TRUE(Write(cache, 80, 81, 1).ok());
  EXPECT_EQ(pool->bytes_in_use(), pool->block_bytes());
  EXPECT_EQ(cache.k_pages(0)[0], all.data());
  EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST(KvCache, OutOfMemoryLeavesAllAsItWas) {
  auto pool = MakePool(4);
  auto a = MakeCache(pool);
  ASSERT_TRUE(Write(a, 0, 100, 1).ok());
  auto b = MakeCache(pool);
  b.Attach(a.blocks(), 100);
  const auto before = Contents(b);
  // A copy and two more blocks: one too many.
  const Status status = b.Reserve(200);
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_NE(status.message().find("200 positions"), std::string_view::npos) << status.message();
  EXPECT_EQ(b.size(), 100);
  EXPECT_EQ(b.blocks().size(), 2u);
  EXPECT_EQ(Contents(b), before);
  EXPECT_EQ(a.k_pages(0)[1], b.k_pages(0)[1]);
  EXPECT_EQ(pool->bytes_in_use(), 2 * pool->block_bytes());
  EXPECT_TRUE(b.Reserve(192).ok());
}

TEST(KvPool, ABlockThatNoMemoryCanHoldIsNull) {
  const auto pool = KvPool::Make((std::uint64_t{1} << 63) + 64);
  EXPECT_EQ(pool->New(), nullptr);
  EXPECT_EQ(pool->bytes_in_use(), 0u);
}

TEST(KvPool, GivesMemoryBackAndKeepsALittle) {
  auto pool = MakePool();
  std::vector<std::shared_ptr<KvBlock>> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(pool->New());
  EXPECT_EQ(pool->bytes_in_use(), 40 * pool->block_bytes());
  EXPECT_GE(pool->bytes_held(), pool->bytes_in_use());
  blocks.clear();
  EXPECT_EQ(pool->bytes_in_use(), 0u);
  EXPECT_LE(pool->bytes_held(), 8 * pool->block_bytes());
  EXPECT_GT(pool->bytes_held(), 0u);
}

TEST(KvPool, ABlockOutlivesTheLastPointerToItsPool) {
  auto pool = MakePool();
  auto block = pool->New();
  pool.reset();
  std::memset(block->data(), 1, 64);
  block.reset();
}

}  // namespace
}  // namespace hone::runtime
