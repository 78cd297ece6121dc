// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The runtime against the reference on random models: right numbers, and the same bits for every
// way of splitting the work.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "compare.h"
#include "model/reference_forward.h"
#include "random_model.h"
#include "runtime/engine.h"

namespace hone::testing {
namespace {

using runtime::ComputeChoice;
using runtime::Engine;
using runtime::KvChoice;

constexpr std::int64_t kLongest = 130;  // two pages of the cache and a piece
constexpr std::uint64_t kSeed = 7;

struct Mode {
  const char* name;
  ComputeChoice compute;
  KvChoice kv;
};
constexpr Mode kModes[] = {{"f32_kv32", ComputeChoice::kF32, KvChoice::kF32},
                           {"f32_kv16", ComputeChoice::kF32, KvChoice::kF16},
                           {"q8_kv32", ComputeChoice::kQ8, KvChoice::kF32},
                           {"q8_kv16", ComputeChoice::kQ8, KvChoice::kF16}};

void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

std::unique_ptr<Engine> MakeEngine(const ModelShape& shape, int threads, Mode mode) {
  runtime::EngineOptions options;
  options.num_threads = threads;
  options.compute = mode.compute;
  options.kv = mode.kv;
  auto engine = Engine::FromModel(MakeModel(shape, kSeed), {}, options, shape.name);
  EXPECT_TRUE(engine.ok()) << engine.message();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// Logits of all ids, run in parts of the given sizes over and over; 0: all at once.
std::vector<float> RunParts(Engine& engine, std::span<const std::int32_t> ids,
                            const std::vector<std::size_t>& sizes) {
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok()) << sequence.message();
  if (!sequence.ok()) return {};
  std::vector<float> all;
  for (std::size_t at = 0, part = 0; at < ids.size(); ++part) {
    const std::size_t size = sizes[part % sizes.size()];
    const std::size_t count = size == 0 ? ids.size() : std::min(size, ids.size() - at);
    std::vector<float> logits;
    const Status status = engine.Run({{{sequence->get(), ids.subspan(at, count), true}}}, &logits);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return {};
    all.insert(all.end(), logits.begin(), logits.end());
    at += count;
  }
  return all;
}

class EngineOnShape : public ::testing::TestWithParam<ModelShape> {
 protected:
  const ModelShape& shape() const { return GetParam(); }
  std::vector<std::int32_t> Ids(std::int64_t count = kLongest) const {
    return MakeIds(count, shape().vocab, kSeed);
  }
};

TEST_P(EngineOnShape, Float32AgreesWithTheReferenceForEveryPromptLength) {
  const auto ids = Ids();
  auto expected = model::ReferenceLogits(MakeModel(shape(), kSeed), ids);
  ASSERT_TRUE(expected.ok()) << expected.message();
  const auto engine = MakeEngine(shape(), 2, kModes[0]);
  ASSERT_NE(engine, nullptr);
  for (const std::int64_t length : {1, 2, 63, 64, 65, 130}) {
    SCOPED_TRACE(length);
    const auto count = static_cast<std::size_t>(length);
    const auto values = std::span(*expected).first(count * static_cast<std::size_t>(shape().vocab));
    const auto found = RunParts(*engine, std::span(ids).first(count), {0});
    const Distance d = Compare(found, values);
    EXPECT_LT(d.nmse, 1e-11);
  }
}

TEST_P(EngineOnShape, HalfPrecisionCacheStaysNearTheReference) {
  const auto ids = Ids();
  auto expected = model::ReferenceLogits(MakeModel(shape(), kSeed), ids);
  ASSERT_TRUE(expected.ok()) << expected.message();
  const auto engine = MakeEngine(shape(), 1, kModes[1]);
  ASSERT_NE(engine, nullptr);
  const Distance d = Compare(RunParts(*engine, ids, {0}), *expected);
  EXPECT_GT(d.nmse, 0);
}

TEST_P(EngineOnShape, EightBitActivationsOnFloatWeightsStayNearTheReference) {
  const auto ids = Ids();
  auto expected = model::ReferenceLogits(MakeModel(shape(), kSeed), ids);
  ASSERT_TRUE(expected.ok()) << expected.message();
  const auto engine = MakeEngine(shape(), 1, kModes[2]);
  ASSERT_NE(engine, nullptr);
}

class EngineInMode : public ::testing::TestWithParam<std::tuple<ModelShape, Mode>> {};

TEST_P(EngineInMode, ChunksAndThreadsDoNotChangeABit) {
  using Splits = std::vector<std::vector<std::size_t>>;
  const auto& [shape, mode] = GetParam();
  const auto ids = MakeIds(kLongest, shape.vocab, kSeed);
  std::vector<float> expected;
  for (const int threads : {1, 2, 3}) {
    SCOPED_TRACE(threads);
    const auto engine = MakeEngine(shape, threads, mode);
    ASSERT_NE(engine, nullptr);
    if (expected.empty()) expected = RunParts(*engine, ids, {0});
    const Splits few = {{0}, {1}, {3, 17, 1, 44}};
    const Splits many = {{1}, {3, 17, 1, 44}, {63, 1, 2}, {64}, {65, 64, 1}, {129, 1}};
    for (const auto& sizes : threads == 1 ? many : few) {
      SCOPED_TRACE(sizes[0]);
      EXPECT_TRUE(SameBits(RunParts(*engine, ids, sizes), expected));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Random, EngineInMode,
                         ::testing::Combine(::testing::ValuesIn(Shapes()),
                                            ::testing::ValuesIn(kModes)),
                         [](const auto& param) {
                           return std::get<0>(param.param).name + "_" +
                                  std::get<1>(param.param).name;
                         });

TEST_P(EngineOnShape, TheLastRowAloneIsTheLastOfAllRows) {
  const auto ids = Ids(65);
  const auto engine = MakeEngine(shape(), 2, kModes[2]);
  ASSERT_NE(engine, nullptr);
  const auto all = RunParts(*engine, ids, {0});
  auto sequence = engine->NewSequence();
  ASSERT_TRUE(sequence.ok());
  std::vector<float> last;
  ASSERT_TRUE(engine->Run({{{sequence->get(), ids, false}}}, &last).ok());
  EXPECT_TRUE(SameBits(last, std::span(all).last(static_cast<std::size_t>(shape().vocab))));
}

TEST_P(EngineOnShape, ATruncatedSequenceGoesOnAsIfTheRestHadNeverBeen) {
  const auto ids = Ids();
  for (const Mode mode : {kModes[0], kModes[3]}) {
    const auto engine = MakeEngine(shape(), 2, mode);
    ASSERT_NE(engine, nullptr);
    const auto vocab = static_cast<std::size_t>(shape().vocab);
    const auto expected = RunParts(*engine, ids, {0});
    auto sequence = engine->NewSequence();
    ASSERT_TRUE(sequence.ok());
    for (const std::size_t keep : {0u, 1u, 63u, 64u, 65u, 129u}) {
      SCOPED_TRACE(keep);
      // Fill with other tokens first, so that rows left behind would show.
      (*sequence)->Truncate(0);
      ASSERT_TRUE(
          engine->Run({{{sequence->get(), MakeIds(kLongest, shape().vocab, 99)}}}, nullptr).ok());
      (*sequence)->Truncate(0);
      if (keep > 0) {
        ASSERT_TRUE(engine->Run({{{sequence->get(), std::span(ids).first(keep)}}}, nullptr).ok());
        ASSERT_TRUE(
            engine
                ->Run({{{sequence->get(),
                         MakeIds(kLongest - static_cast<std::int64_t>(keep), shape().vocab, 5)}}},
                      nullptr)
                .ok());
        (*sequence)->Truncate(static_cast<std::int64_t>(keep));
      }
      std::vector<float> rest;
      ASSERT_TRUE(
          engine->Run({{{sequence->get(), std::span(ids).subspan(keep), true}}}, &rest).ok());
      EXPECT_TRUE(SameBits(rest, std::span(expected).subspan(keep * vocab)));
    }
  }
}

TEST_P(EngineOnShape, ACancelledStepLeavesTheSequenceAsItWas) {
  const auto ids = Ids();
  const auto engine = MakeEngine(shape(), 2, kModes[0]);
  ASSERT_NE(engine, nullptr);
  const auto expected = RunParts(*engine, ids, {0});
  auto sequence = engine->NewSequence();
  ASSERT_TRUE(sequence.ok());
  ASSERT_TRUE(engine->Run({{{sequence->get(), std::span(ids).first(60)}}}, nullptr).ok());
  const std::atomic<bool> cancel{true};
  std::vector<float> logits;
  EXPECT_EQ(engine->Run({{{sequence->get(), std::span(ids).subspan(60)}}}, &logits, &cancel).code(),
            Code::kCancelled);
  EXPECT_EQ((*sequence)->size(), 60);
  ASSERT_TRUE(engine->Run({{{sequence->get(), std::span(ids).subspan(60), true}}}, &logits).ok());
  EXPECT_TRUE(
      SameBits(logits, std::span(expected).subspan(60 * static_cast<std::size_t>(shape().vocab))));
}

TEST_P(EngineOnShape, TheContextIsFullAtItsLastPositionAndNotBefore) {
  const auto engine = MakeEngine(shape(), 1, kModes[0]);
  ASSERT_NE(engine, nullptr);
  auto sequence = engine->NewSequence();
  ASSERT_TRUE(sequence.ok());
  const auto ids = Ids(shape().max_positions);
  ASSERT_TRUE(engine->Run({{{sequence->get(), ids}}}, nullptr).ok());
  const Status full = engine->Run({{{sequence->get(), std::span(ids).first(1)}}}, nullptr);
  EXPECT_EQ(full.code(), Code::kInvalidArgument);
  EXPECT_NE(full.message().find(std::to_string(shape().max_positions)), std::string::npos);
  EXPECT_EQ((*sequence)->size(), shape().max_positions);
}

INSTANTIATE_TEST_SUITE_P(Random, EngineOnShape, ::testing::ValuesIn(Shapes()),
                         [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace hone::testing
