// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "runtime/batcher.h"
#include "runtime/engine.h"
#include "runtime/tiny_model.h"

namespace hone::runtime {
namespace {

constexpr std::uint64_t kBytes = 256;  // of a block

std::vector<std::int32_t> Tokens(std::size_t count, std::int32_t first = 0) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<std::shared_ptr<KvBlock>> Blocks(KvPool& pool, std::size_t count) {
  std::vector<std::shared_ptr<KvBlock>> blocks(count);
  for (auto& block : blocks) block = pool.New();
  return blocks;
}

TEST(PrefixCache, FindsTheLongestKnownBeginning) {
  const auto pool = KvPool::Make(kBytes);
  PrefixCache cache(100 * kBytes, kBytes);
  const auto tokens = Tokens(200);
  const auto blocks = Blocks(*pool, 4);
  cache.Offer(tokens, blocks);
  EXPECT_EQ(cache.stats().blocks, 3u);  // the fourth is not full
  EXPECT_EQ(cache.stats().bytes, 3 * kBytes);
  auto found = cache.Find(tokens);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(std::equal(found.begin(), found.end(), blocks.begin()));
  EXPECT_EQ(cache.Find(std::span(tokens).first(191)).size(), 2u);
  EXPECT_EQ(cache.Find(std::span(tokens).first(63)).size(), 0u);
  auto other = tokens;
  other[100] = 7;
  EXPECT_EQ(cache.Find(other).size(), 1u);
  EXPECT_EQ(cache.Find(tokens, 191).size(), 3u);
  EXPECT_EQ(cache.Find(tokens, 192).size(), 0u);
  EXPECT_EQ(cache.stats().lookups, 6u);
  EXPECT_EQ(cache.stats().hits, 4u);
  EXPECT_EQ(cache.stats().reused_tokens, 64u * (3 + 2 + 1 + 3));
}

TEST(PrefixCache, ASecondConversationAddsOnlyWhatIsNew) {
  const auto pool = KvPool::Make(kBytes);
  PrefixCache cache(100 * kBytes, kBytes);
  const auto first = Tokens(192);
  auto second = first;
  second[130] = 9;
  const auto blocks = Blocks(*pool, 3), others = Blocks(*pool, 3);
  cache.Offer(first, blocks);
  cache.Offer(second, others);
  EXPECT_EQ(cache.stats().blocks, 4u);
  const auto found = cache.Find(second);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], blocks[0]);
  EXPECT_EQ(found[1], blocks[1]);
  EXPECT_EQ(found[2], others[2]);
}

// Every block has the same hash: only the comparison of tokens and parents tells them apart.
TEST(PrefixCache, EqualHashesAloneReuseNothing) {
  const auto pool = KvPool::Make(kBytes);
  PrefixCache cache(100 * kBytes, kBytes, [](std::uint64_t, auto) { return std::uint64_t{1}; });
  const auto a = Tokens(128), b = Tokens(128, 1000);
  const auto a_blocks = Blocks(*pool, 2), b_blocks = Blocks(*pool, 2);
  cache.Offer(a, a_blocks);
  EXPECT_EQ(cache.Find(b).size(), 0u);
  cache.Offer(b, b_blocks);
  EXPECT_EQ(cache.Find(a), a_blocks);
  EXPECT_EQ(cache.Find(b), b_blocks);
  auto last_differs = a;
  last_differs[63] = -1;
  EXPECT_EQ(cache.Find(last_differs).size(), 0u);
  // The second block of a behind the first of b: its tokens are known, but not there.
  std::vector<std::int32_t> mixed(b.begin(), b.begin() + 64);
  mixed.insert(mixed.end(), a.begin() + 64, a.end());
  EXPECT_EQ(cache.Find(mixed).size(), 1u);
  // The second block of a at the start.
  EXPECT_EQ(cache.Find(std::span(a).subspan(64)).size(), 0u);
}

TEST(PrefixCache, DropsTheLeastRecentlyUsedLeaves) {
  const auto pool = KvPool::Make(kBytes);
  PrefixCache cache(4 * kBytes, kBytes);
  const auto a = Tokens(128), b = Tokens(128, 1000), c = Tokens(64, 2000);
  cache.Offer(a, Blocks(*pool, 2));
  cache.Offer(b, Blocks(*pool, 2));
  EXPECT_EQ(cache.Find(a).size(), 2u);  // now b is older
  cache.Offer(c, Blocks(*pool, 1));
  EXPECT_EQ(cache.stats().blocks, 4u);
  EXPECT_EQ(cache.stats().evicted_blocks, 1u);
  EXPECT_EQ(pool->bytes_in_use(), 4 * kBytes);
  EXPECT_EQ(cache.Find(b).size(), 1u);  // its leaf went, not its root
  EXPECT_EQ(cache.Find(a).size(), 2u);
  EXPECT_EQ(cache.Find(c).size(), 1u);
}

TEST(PrefixCache, ALongSequenceKeepsItsBeginning) {
  const auto pool = KvPool::Make(kBytes);
  PrefixCache cache(3 * kBytes + 1, kBytes);
  cache.Offer(Tokens(64, 5000), Blocks(*pool, 1));
  const auto tokens = Tokens(640);
  cache.Offer(tokens, Blocks(*pool, 10));
  EXPECT_EQ(cache.stats().blocks, 3u);
  EXPECT_EQ(cache.Find(tokens).size(), 3u);
  EXPECT_EQ(pool->bytes_in_use(), 3 * kBytes);
}

TEST(PrefixCache, WithoutRoomHoldsNothing) {
  const auto pool = KvPool::Make(kBytes);
  PrefixCache cache(kBytes - 1, kBytes);
  cache.Offer(Tokens(64), Blocks(*pool, 1));
  EXPECT_EQ(cache.stats().blocks, 0u);
  EXPECT_EQ(cache.Find(Tokens(64)).size(), 0u);
}

// The engine.

std::vector<std::int32_t> Ids(std::size_t count, std::uint32_t seed) {
  std::vector<std::int32_t> ids(count);
  for (auto& id : ids) {
    seed = seed * 1664525U + 1013904223U;
    id = static_cast<std::int32_t>(seed >> 8) % 97;
  }
  return ids;
}

std::unique_ptr<Engine> MakeEngine(const EngineOptions& options,
                                   model::DecoderModel model = MakeTinyModel()) {
  auto engine = Engine::FromModel(std::move(model), {}, options, "tiny");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

std::vector<float> Feed(Engine& engine, Sequence& sequence, std::span<const std::int32_t> ids) {
  std::vector<float> logits;
  const Status status = engine.Run(Step{{{&sequence, ids, false}}}, &logits);
  EXPECT_TRUE(status.ok()) << status.message();
  return logits;
}

TEST(ReusePrefix, GivesTheBitsOfComputingAnew) {
  const auto shared = Ids(150, 1);
  auto first = shared, second = shared;
  const auto more = Ids(90, 2);
  const auto tail = Ids(20, 3);
  first.insert(first.end(), more.begin(), more.end());
  second.insert(second.end(), tail.begin(), tail.end());
  for (const auto kv : {KvChoice::kF32, KvChoice::kF16, KvChoice::kInt8}) {
    for (const int threads : {1, 2, 3}) {
      const EngineOptions plain{.num_threads = threads, .compute = ComputeChoice::kQ8, .kv = kv};
      EngineOptions with = plain;
      with.prefix_cache_bytes = 1 << 24;
      const auto anew = MakeEngine(plain);
      const auto engine = MakeEngine(with);
      const auto a = *engine->NewSequence();
      const auto b = *engine->NewSequence();
      EXPECT_EQ(engine->ReusePrefix(*a, first), 0);
      Feed(*engine, *a, first);
      const std::int64_t reused = engine->ReusePrefix(*b, second);
      EXPECT_EQ(reused, 128);
      EXPECT_EQ(b->size(), 128);
      const auto got = Feed(*engine, *b, std::span(second).subspan(128));
      const auto want_sequence = *anew->NewSequence();
      EXPECT_EQ(got, Feed(*anew, *want_sequence, second));
      EXPECT_EQ(std::vector<std::int32_t>(b->tokens().begin(), b->tokens().end()), second);
      // The first conversation goes on as if nothing had happened, also after a cut.
      a->Truncate(100);
      const auto other = Ids(60, 4);
      const auto cut = Feed(*engine, *a, other);
      auto cut_ids = std::vector<std::int32_t>(first.begin(), first.begin() + 100);
      cut_ids.insert(cut_ids.end(), other.begin(), other.end());
      const auto want_cut = *anew->NewSequence();
      EXPECT_EQ(cut, Feed(*anew, *want_cut, cut_ids));
      EXPECT_EQ(Feed(*engine, *b, tail), Feed(*anew, *want_sequence, tail));
    }
  }
}

TEST(ReusePrefix, LeavesOneTokenToRunAndKeepsWhatIsLonger) {
  const auto engine = MakeEngine({.num_threads = 1, .prefix_cache_bytes = 1 << 24});
  const auto ids = Ids(128, 1);
  const auto a = *engine->NewSequence();
  Feed(*engine, *a, ids);
  const auto b = *engine->NewSequence();
  EXPECT_EQ(engine->ReusePrefix(*b, ids), 64);
  b->Truncate(0);
  Feed(*engine, *b, std::span(ids).first(100));
  EXPECT_EQ(engine->ReusePrefix(*b, std::span(ids).first(120)), 0);
  EXPECT_EQ(b->size(), 100);
  EXPECT_EQ(engine->prefix_cache_stats().blocks, 2u);
}

// A draft is often taken back; what is decoded token by token is kept.
TEST(ReusePrefix, KnowsDecodedTokensButNoDrafts) {
  const auto engine = MakeEngine({.num_threads = 1, .prefix_cache_bytes = 1 << 24});
  const auto ids = Ids(130, 1);
  const auto a = *engine->NewSequence();
  Feed(*engine, *a, std::span(ids).first(60));
  std::vector<float> logits;
  ASSERT_TRUE(engine->Run(Step{{{a.get(), std::span(ids).subspan(60, 8), true}}}, &logits).ok());
  EXPECT_EQ(engine->prefix_cache_stats().blocks, 0u);
  for (std::size_t i = 68; i < ids.size(); ++i) Feed(*engine, *a, std::span(ids).subspan(i, 1));
  EXPECT_EQ(engine->prefix_cache_stats().blocks, 2u);
}

TEST(ReusePrefix, TheBatcherUsesItAndGivesTheSameTokens) {
  const auto ids = Ids(200, 1);
  const auto run = [&](Engine& engine) {
    Batcher batcher(engine, {});
    std::vector<std::vector<std::int32_t>> answers;
    for (const std::size_t count : {std::size_t{200}, std::size_t{150}, std::size_t{199}}) {
      const auto sequence = *engine.NewSequence();
      std::vector<std::int32_t>& answer = answers.emplace_back();
      EXPECT_TRUE(batcher
                      .Submit({.sequence = sequence.get(),
                               .prompt = {ids.begin(), ids.begin() + static_cast<long>(count)},
                               .choose = [&answer](std::span<const float> logits,
                                                   auto) -> std::optional<std::int32_t> {
                                 if (answer.size() == 5) return std::nullopt;
                                 const auto best = std::max_element(logits.begin(), logits.end());
                                 answer.push_back(static_cast<std::int32_t>(best - logits.begin()));
                                 return answer.back();
                               },
                               .done =
                                   [](const Result<FinishReason>& end) {
                                     EXPECT_TRUE(end.ok()) << end.message();
                                   }})
                      .ok());
      while (batcher.Step()) {
      }
    }
    return answers;
  };
  const auto plain = MakeEngine({.num_threads = 2});
  const auto engine = MakeEngine({.num_threads = 2, .prefix_cache_bytes = 1 << 24});
  EXPECT_EQ(run(*engine), run(*plain));
  EXPECT_EQ(engine->prefix_cache_stats().reused_tokens, 128u + 192u);
}

// However many steps a prompt waits for its rows.
TEST(ReusePrefix, TheBatcherAsksOnceForARequest) {
  const auto engine = MakeEngine({.num_threads = 1, .prefix_cache_bytes = 1 << 24});
  Batcher batcher(*engine, {.chunks = {.min_rows = 8, .max_rows = 8}});
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (std::uint32_t i = 0; i < 4; ++i) {
    sequences.push_back(*engine->NewSequence());
    ASSERT_TRUE(
        batcher
            .Submit(
                {.sequence = sequences.back().get(),
                 .prompt = Ids(40, i),
                 .choose = [](auto, auto) -> std::optional<std::int32_t> { return std::nullopt; },
                 .done = [](const auto& end) { EXPECT_TRUE(end.ok()) << end.message(); }})
            .ok());
  }
  while (batcher.Step()) {
  }
  EXPECT_EQ(engine->prefix_cache_stats().lookups, 4u);
}

TEST(ReusePrefix, SaysNothingWhereKeysDependOnTheLengthOrTheCacheIsOff) {
  const auto ids = Ids(128, 1);
  auto model = MakeTinyModel();
  model.spec.ropes[0].by_length =
      model::RopeByLength{model::RopeByLength::Kind::kDynamicNtk, 64, {}, 10000.0, 2.0};
  const auto by_length =
      MakeEngine({.num_threads = 1, .prefix_cache_bytes = 1 << 24}, std::move(model));
  const auto off = MakeEngine({.num_threads = 1});
  for (Engine* engine : {by_length.get(), off.get()}) {
    const auto a = *engine->NewSequence();
    Feed(*engine, *a, ids);
    const auto b = *engine->NewSequence();
    EXPECT_EQ(engine->ReusePrefix(*b, ids), 0);
    EXPECT_EQ(engine->prefix_cache_stats().blocks, 0u);
  }
}

}  // namespace
}  // namespace hone::runtime
