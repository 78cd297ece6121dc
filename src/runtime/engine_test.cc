// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/reference_forward.h"
#include "runtime/engine_words.h"
#include "runtime/forward.h"
#include "runtime/tiny_model.h"

namespace hone::runtime {
namespace {

std::vector<std::int32_t> Ids(std::size_t count, std::int32_t vocab = 97) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(
        static_cast<std::int32_t>((i * 31 + i * i * 7 + 5) % static_cast<std::size_t>(vocab)));
  }
  return ids;
}

std::unique_ptr<Engine> MakeEngine(const EngineOptions& options,
                                   const TinyModelOptions& tiny = {}) {
  auto engine = Engine::FromModel(MakeTinyModel(tiny), {}, options, "tiny");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

std::unique_ptr<Sequence> NewSequence(Engine& engine) {
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok()) << sequence.message();
  return *std::move(sequence);
}

// Logits of all ids, fed in pieces of the given size.
std::vector<float> AllLogits(Engine& engine, const std::vector<std::int32_t>& ids,
                             std::size_t piece) {
  const auto sequence = NewSequence(engine);
  std::vector<float> all;
  for (std::size_t i = 0; i < ids.size(); i += piece) {
    const auto part = std::span(ids).subspan(i, std::min(piece, ids.size() - i));
    std::vector<float> logits;
    const Status status = engine.Run(Step{{{sequence.get(), part, true}}}, &logits);
    EXPECT_TRUE(status.ok()) << status.message();
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

TEST(Engine, AgreesWithTheReference) {
  const auto ids = Ids(90);
  for (const bool biases : {false, true}) {
    const TinyModelOptions tiny{.biases = biases};
    auto want = model::ReferenceLogits(MakeTinyModel(tiny), ids);
    ASSERT_TRUE(want.ok()) << want.message();
    const auto engine = MakeEngine({.num_threads = 2}, tiny);
    EXPECT_EQ(engine->compute(), kernels::Compute::kF32);
    EXPECT_EQ(engine->kv_type(), kernels::KvType::kF32);
    const auto got = AllLogits(*engine, ids, ids.size());
    ASSERT_EQ(got.size(), want->size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], (*want)[i], 2e-4) << i;
  }
}

// Also across the chunk size and page borders.
TEST(Engine, ResultsDoNotDependOnSplitsOrThreads) {
  const auto ids = Ids(static_cast<std::size_t>(Forward::kChunkRows) + 70);
  // Float weights as they are and rounded to int8, and int4 weights in blocks.
  for (const auto& [compute, int4] : {std::pair{ComputeChoice::kF32, false},
                                      {ComputeChoice::kQ8, false},
                                      {ComputeChoice::kQ8, true}}) {
    for (const auto kv : {KvChoice::kF32, KvChoice::kF16, KvChoice::kInt8}) {
      const TinyModelOptions tiny{.int4 = int4};
      const auto one = MakeEngine({.num_threads = 1, .compute = compute, .kv = kv}, tiny);
      const auto two = MakeEngine({.num_threads = 2, .compute = compute, .kv = kv}, tiny);
      const auto three = MakeEngine({.num_threads = 3, .compute = compute, .kv = kv}, tiny);
      const auto want = AllLogits(*one, ids, ids.size());
      ASSERT_TRUE(std::all_of(want.begin(), want.end(), [](float v) { return std::isfinite(v); }));
      EXPECT_EQ(AllLogits(*one, ids, 1), want) << int4;
      EXPECT_EQ(AllLogits(*two, ids, 64), want) << int4;
      EXPECT_EQ(AllLogits(*three, ids, 7), want) << int4;
      EXPECT_EQ(AllLogits(*three, ids, 512), want) << int4;
      EXPECT_EQ(AllLogits(*three, ids, ids.size()), want) << int4;
    }
  }
}

// Int4 weights are multiplied as they are; their activations are rounded to 8 bits.
TEST(Engine, AgreesWithTheReferenceForInt4Weights) {
  const auto ids = Ids(90);
  const TinyModelOptions tiny{.int4 = true};
  model::DecoderModel m = MakeTinyModel(tiny);
  const codec::WeightType int4{codec::Coding::kInt4, 32};
  EXPECT_EQ(model::GetWeight(m, model::Role::kDown, 2).view.type, int4);
  EXPECT_EQ(model::GetWeight(m, model::Role::kHead, 0).view.type, int4);
  auto want = model::ReferenceLogits(m, ids);
  ASSERT_TRUE(want.ok()) << want.message();
  const auto f32 = MakeEngine({.num_threads = 2, .compute = ComputeChoice::kF32}, tiny);
  const auto q8 = MakeEngine({.num_threads = 2, .compute = ComputeChoice::kQ8}, tiny);
  EXPECT_EQ(q8->compute(), kernels::Compute::kQ8);
  const auto exact = AllLogits(*f32, ids, ids.size()), rounded = AllLogits(*q8, ids, ids.size());
  double error = 0, total = 0;
  for (std::size_t i = 0; i < want->size(); ++i) {
    ASSERT_NEAR(exact[i], (*want)[i], 2e-4) << i;
    error += std::pow(rounded[i] - (*want)[i], 2);
    total += std::pow((*want)[i], 2);
  }
  EXPECT_LT(std::sqrt(error / total), 0.05);
}

TEST(Engine, GivesTheLastRowOrNoneWhenOnlyThatIsAsked) {
  const auto engine = MakeEngine({.num_threads = 1});
  const auto ids = Ids(static_cast<std::size_t>(Forward::kChunkRows) + 3);
  const auto all = AllLogits(*engine, ids, ids.size());
  const auto sequence = NewSequence(*engine);
  std::vector<float> last;
  ASSERT_TRUE(engine->Run(Step{{{sequence.get(), ids, false}}}, &last).ok());
  EXPECT_EQ(last, std::vector<float>(all.end() - 97, all.end()));
  sequence->Truncate(10);
  EXPECT_EQ(sequence->size(), 10);
  ASSERT_TRUE(
      engine->Run(Step{{{sequence.get(), std::span(ids).subspan(10, 5), false}}}, nullptr).ok());
  ASSERT_TRUE(engine->Run(Step{{{sequence.get(), std::span(ids).subspan(15), false}}}, &last).ok());
  EXPECT_EQ(last, std::vector<float>(all.end() - 97, all.end()));
}

TEST(Engine, CancelLeavesTheSequenceAsItWas) {
  const auto engine = MakeEngine({.num_threads = 1});
  const auto ids = Ids(80);
  const auto sequence = NewSequence(*engine);
  std::vector<float> logits;
  ASSERT_TRUE(engine->Run(Step{{{sequence.get(), std::span(ids).first(60), false}}}, &logits).ok());
  const std::atomic<bool> cancel{true};
  const Status status =
      engine->Run(Step{{{sequence.get(), std::span(ids).subspan(60), false}}}, &logits, &cancel);
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_EQ(sequence->size(), 60);
  std::vector<float> again;
  ASSERT_TRUE(
      engine->Run(Step{{{sequence.get(), std::span(ids).subspan(60), false}}}, &again).ok());
  const auto all = AllLogits(*engine, ids, ids.size());
  EXPECT_EQ(again, std::vector<float>(all.end() - 97, all.end()));
}

TEST(Engine, RefusesWrongIdsAndFullContextsWithBothNumbers) {
  const auto engine = MakeEngine({.num_threads = 1}, {.max_positions = 20});
  const auto sequence = NewSequence(*engine);
  std::vector<float> logits;
  const std::vector<std::int32_t> outside = {3, 97};
  const Status id = engine->Run(Step{{{sequence.get(), outside, false}}}, &logits);
  EXPECT_EQ(id.code(), Code::kInvalidArgument);
  EXPECT_NE(id.message().find("97"), std::string::npos) << id.message();
  const auto ids = Ids(15);
  ASSERT_TRUE(engine->Run(Step{{{sequence.get(), ids, false}}}, &logits).ok());
  const Status full =
      engine->Run(Step{{{sequence.get(), std::span(ids).first(6), false}}}, &logits);
  EXPECT_EQ(full.code(), Code::kInvalidArgument);
  EXPECT_NE(full.message().find("21"), std::string::npos) << full.message();
  EXPECT_NE(full.message().find("20"), std::string::npos) << full.message();
  EXPECT_EQ(sequence->size(), 15);
  EXPECT_TRUE(engine->Run(Step{{{sequence.get(), std::span(ids).first(5), false}}}, &logits).ok());
  EXPECT_EQ(engine->Run(Step{{{sequence.get(), {}, false}}}, &logits).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(engine->Run(Step{}, &logits).code(), Code::kInvalidArgument);
  const auto other = MakeEngine({.num_threads = 1});
  EXPECT_EQ(other->Run(Step{{{sequence.get(), ids, false}}}, &logits).code(),
            Code::kInvalidArgument);
}

TEST(Engine, HoldsNoMoreThanTheContextAskedFor) {
  const auto engine = MakeEngine({.num_threads = 1, .context = 10}, {.max_positions = 30});
  EXPECT_EQ(engine->spec().max_positions, 10);
  const auto sequence = NewSequence(*engine);
  const std::vector<std::int32_t> ids(11, 1);
  const Status status = engine->Run(Step{{{sequence.get(), ids}}}, nullptr);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("11 tokens do not fit: the context holds 10"), std::string::npos)
      << status.message();
  EXPECT_TRUE(engine->Run(Step{{{sequence.get(), std::span(ids).first(10)}}}, nullptr).ok());
  EXPECT_EQ(MakeEngine({.num_threads = 1}, {.max_positions = 30})->spec().max_positions, 30);
  EXPECT_EQ(
      MakeEngine({.num_threads = 1, .context = 30}, {.max_positions = 30})->spec().max_positions,
      30);
}

TEST(Engine, RefusesALargerContextThanTheModels) {
  for (const std::int64_t context : {31, -1}) {
    const auto engine = Engine::FromModel(MakeTinyModel({.max_positions = 30}), {},
                                          {.num_threads = 1, .context = context}, "tiny");
    ASSERT_EQ(engine.code(), Code::kInvalidArgument);
    EXPECT_EQ(engine.message(), StrCat("tiny: the context asked for is ", context,
                                       ", expected at most the model's 30, or 0 for that one"));
  }
}

TEST(Engine, RefusesALayerWhoseNormsAreNotThoseOfTheModel) {
  for (const bool post_norm : {false, true}) {
    model::DecoderModel m = MakeTinyModel();
    m.spec.post_norm = post_norm;
    if (!post_norm) m.layers[1].ffn_norm = {};
    const auto engine = Engine::FromModel(std::move(m), {}, {.num_threads = 1}, "tiny");
    EXPECT_EQ(engine.code(), Code::kInternal);
  }
}

TEST(Engine, SaysHowItComputesInTheWordsOfTheOptions) {
  const EngineWords plain = WordsOf(*MakeEngine({.num_threads = 1}));
  EXPECT_EQ(plain.engine, "kernels");
  EXPECT_EQ(plain.compute, "f32");
  EXPECT_EQ(plain.kv, "f32");
  const auto small = MakeEngine(
      {.num_threads = 1, .compute = ComputeChoice::kQ8, .kv = KvChoice::kInt8}, {.int4 = true});
  EXPECT_EQ(WordsOf(*small).engine, "kernels");
  EXPECT_EQ(WordsOf(*small).compute, "q8");
  EXPECT_EQ(WordsOf(*small).kv, "int8");
}

TEST(Engine, NamesAPathThatIsNotThere) {
  const auto engine = Engine::Open("/nonexistent/m.litertlm", {});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.code(), Code::kNotFound);
  EXPECT_NE(engine.message().find("/nonexistent/m.litertlm"), std::string::npos);
}

}  // namespace
}  // namespace hone::runtime
