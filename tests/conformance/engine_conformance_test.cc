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
#include "q8_twin.h"
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

std::vector<ModelShape> AllShapes() {
  std::vector<ModelShape> all = Shapes();
  all.insert(all.end(), FeatureShapes().begin(), FeatureShapes().end());
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
    EXPECT_LT(d.max_abs, 5e-4);
  }
}

TEST_P(EngineOnShape, HalfPrecisionCacheStaysNearTheReference) {
  const auto ids = Ids();
  auto expected = model::ReferenceLogits(MakeModel(shape(), kSeed), ids);
  ASSERT_TRUE(expected.ok()) << expected.message();
  const auto engine = MakeEngine(shape(), 1, kModes[1]);
  ASSERT_NE(engine, nullptr);
  const Distance d = Compare(RunParts(*engine, ids, {0}), *expected);
  RecordProperty("nmse", std::to_string(d.nmse * 1e9));
  EXPECT_GT(d.nmse, 0);
  EXPECT_LT(d.nmse, 1e-5);
}

TEST_P(EngineOnShape, EightBitActivationsOnFloatWeightsStayNearTheReference) {
  const auto ids = Ids();
  auto expected = model::ReferenceLogits(MakeModel(shape(), kSeed), ids);
  ASSERT_TRUE(expected.ok()) << expected.message();
  const auto engine = MakeEngine(shape(), 1, kModes[2]);
  ASSERT_NE(engine, nullptr);
  const Distance d = Compare(RunParts(*engine, ids, {0}), *expected);
  RecordProperty("nmse", std::to_string(d.nmse * 1e9));
  EXPECT_GT(d.nmse, 1e-9);
  EXPECT_LT(d.nmse, 1e-2);
}

// Where a value lies on the border between two codes, the two may round it to either side, and
// every row after that differs: short prompts, of which most rows must be free of it.
TEST_P(EngineOnShape, EightBitActivationsOnInt8WeightsAgreeWithTheTwin) {
  constexpr std::int64_t kPrompts = 12, kTokens = 6;
  runtime::EngineOptions options;
  options.num_threads = 1;
  options.compute = ComputeChoice::kQ8;
  options.kv = KvChoice::kF32;
  auto engine = Engine::FromModel(MakeInt8Model(shape(), kSeed), {}, options, shape().name);
  ASSERT_TRUE(engine.ok()) << engine.message();
  const auto vocab = static_cast<std::size_t>(shape().vocab);
  int equal = 0;
  for (std::int64_t prompt = 0; prompt < kPrompts; ++prompt) {
    const auto ids = MakeIds(kTokens, shape().vocab, static_cast<std::uint64_t>(prompt));
    const auto found = RunParts(**engine, ids, {0});
    const auto expected = Q8TwinLogits((*engine)->model(), ids);
    EXPECT_LT(Compare(found, expected).nmse, 1e-2) << prompt;
    for (std::size_t at = 0; at < expected.size(); at += vocab) {
      const Distance row =
          Compare(std::span(found).subspan(at, vocab), std::span(expected).subspan(at, vocab));
      if (row.nmse < 1e-9) ++equal;
    }
  }
  EXPECT_GE(equal, kPrompts * kTokens * 3 / 4);
}

using Splits = std::vector<std::vector<std::size_t>>;

// The same bits with one to three threads, and for every way of cutting the ids into steps.
void ExpectSameBits(const ModelShape& shape, Mode mode, const Splits& one_thread,
                    const Splits& more_threads) {
  const auto ids = MakeIds(kLongest, shape.vocab, kSeed);
  std::vector<float> expected;
  for (const int threads : {1, 2, 3}) {
    SCOPED_TRACE(threads);
    const auto engine = MakeEngine(shape, threads, mode);
    ASSERT_NE(engine, nullptr);
    if (expected.empty()) expected = RunParts(*engine, ids, {0});
    for (const auto& sizes : threads == 1 ? one_thread : more_threads) {
      SCOPED_TRACE(sizes[0]);
      EXPECT_TRUE(SameBits(RunParts(*engine, ids, sizes), expected));
    }
  }
}

class EngineInMode : public ::testing::TestWithParam<std::tuple<ModelShape, Mode>> {};

TEST_P(EngineInMode, ChunksAndThreadsDoNotChangeABit) {
  const auto& [shape, mode] = GetParam();
  ExpectSameBits(shape, mode, {{1}, {3, 17, 1, 44}, {63, 1, 2}, {64}, {65, 64, 1}, {129, 1}},
                 {{0}, {1}, {3, 17, 1, 44}});
}

// Features do not care how rows are prepared: two modes are enough for them.
constexpr Mode kFeatureModes[] = {kModes[0], kModes[3]};

class EngineWithFeatures : public EngineInMode {};

TEST_P(EngineWithFeatures, ChunksAndThreadsDoNotChangeABit) {
  const auto& [shape, mode] = GetParam();
  ExpectSameBits(shape, mode, {{1}, {65, 64, 1}}, {{0}, {3, 17, 1, 44}});
}

std::string ModeName(const ::testing::TestParamInfo<std::tuple<ModelShape, Mode>>& param) {
  return std::get<0>(param.param).name + "_" + std::get<1>(param.param).name;
}

INSTANTIATE_TEST_SUITE_P(Random, EngineWithFeatures,
                         ::testing::Combine(::testing::ValuesIn(FeatureShapes()),
                                            ::testing::ValuesIn(kFeatureModes)),
                         ModeName);
INSTANTIATE_TEST_SUITE_P(Random, EngineInMode,
                         ::testing::Combine(::testing::ValuesIn(Shapes()),
                                            ::testing::ValuesIn(kModes)),
                         ModeName);

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

// Frequencies that change at 100 positions.
model::DecoderModel MakeByLengthModel(model::RopeByLength::Kind kind) {
  ModelShape shape = Shapes()[0];
  shape.max_positions = 400;
  model::DecoderModel m = MakeModel(shape, kSeed);
  model::RopeTable& rope = m.spec.ropes[0];
  model::RopeByLength by_length;
  by_length.kind = kind;
  by_length.original_positions = 100;
  by_length.theta = shape.rope.theta;
  by_length.factor = 4;
  if (kind == model::RopeByLength::Kind::kLongRope) {
    for (const float f : rope.inv_freq) by_length.long_inv_freq.push_back(f * 0.3F);
  }
  rope.by_length = by_length;
  return m;
}

TEST(EngineRopeByLength, FollowsTheLengthAfterTheStepInAllOfItsChunks) {
  using Kind = model::RopeByLength::Kind;
  for (const Kind kind : {Kind::kLongRope, Kind::kDynamicNtk}) {
    const auto ids = MakeIds(300, Shapes()[0].vocab, kSeed);
    auto made = Engine::FromModel(MakeByLengthModel(kind), {}, {.num_threads = 1}, "by length");
    ASSERT_TRUE(made.ok()) << made.message();
    Engine& engine = **made;
    for (const std::size_t length : {100u, 101u, 300u}) {
      SCOPED_TRACE(length);
      const auto part = std::span(ids).first(length);
      auto expected = model::ReferenceLogits(engine.model(), part);
      ASSERT_TRUE(expected.ok()) << expected.message();
      const auto found = RunParts(engine, part, {0});
      EXPECT_LT(Compare(found, *expected).nmse, 1e-11);
      // Below the limit steps may be split; above it the first ones have other frequencies.
      EXPECT_EQ(SameBits(RunParts(engine, part, {60}), found), length <= 100);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Random, EngineOnShape, ::testing::ValuesIn(AllShapes()),
                         [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace hone::testing
