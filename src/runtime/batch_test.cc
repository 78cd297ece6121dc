// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Steps of several sequences: the same bits as alone, and all or nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/engine.h"
#include "runtime/forward.h"
#include "runtime/tiny_model.h"

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kVocab = 97;

Ids MakeIds(std::size_t count, std::size_t salt) {
  Ids ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * 31 + i * i * (7 + salt) + 5 * salt) % kVocab));
  }
  return ids;
}

std::unique_ptr<Engine> MakeEngine(const EngineOptions& options,
                                   model::DecoderModel model = MakeTinyModel()) {
  auto engine = Engine::FromModel(std::move(model), {}, options, "tiny");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

std::unique_ptr<Sequence> NewSequence(Engine& engine) {
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok()) << sequence.message();
  return *std::move(sequence);
}

std::vector<float> Solo(Engine& engine, const Ids& ids) {
  const auto sequence = NewSequence(engine);
  std::vector<float> logits;
  const Status status = engine.Run(Step{{{sequence.get(), ids, true}}}, &logits);
  EXPECT_TRUE(status.ok()) << status.message();
  return logits;
}

// All logits of several sequences that advance together by `piece` tokens each.
std::vector<std::vector<float>> Together(Engine& engine, const std::vector<Ids>& prompts,
                                         std::size_t piece) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (std::size_t i = 0; i < prompts.size(); ++i) sequences.push_back(NewSequence(engine));
  std::vector<std::vector<float>> all(prompts.size());
  while (true) {
    Step step;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto at = static_cast<std::size_t>(sequences[i]->size());
      const auto part = std::span(prompts[i]).subspan(at, std::min(piece, prompts[i].size() - at));
      if (part.empty()) continue;
      step.parts.push_back({sequences[i].get(), part, true});
      who.push_back(i);
    }
    if (who.empty()) return all;
    std::vector<float> logits;
    const Status status = engine.Run(step, &logits);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return all;
    auto from = logits.begin();
    for (std::size_t j = 0; j < who.size(); ++j) {
      const auto count = static_cast<std::ptrdiff_t>(step.parts[j].tokens.size()) * kVocab;
      all[who[j]].insert(all[who[j]].end(), from, from + count);
      from += count;
    }
    EXPECT_EQ(from, logits.end());
  }
}

void ExpectBitsAsAlone(ComputeChoice compute, const TinyModelOptions& tiny) {
  const std::vector<Ids> prompts = {MakeIds(150, 1), MakeIds(3, 2), MakeIds(200, 3),
                                    MakeIds(64, 4)};
  for (const auto kv : {KvChoice::kF32, KvChoice::kF16, KvChoice::kInt8}) {
    const auto alone =
        MakeEngine({.num_threads = 1, .compute = compute, .kv = kv}, MakeTinyModel(tiny));
    std::vector<std::vector<float>> want;
    for (const Ids& ids : prompts) want.push_back(Solo(*alone, ids));
    ASSERT_TRUE(
        std::all_of(want[2].begin(), want[2].end(), [](float v) { return std::isfinite(v); }));
    for (const int threads : {1, 2, 3}) {
      const auto engine =
          MakeEngine({.num_threads = threads, .compute = compute, .kv = kv}, MakeTinyModel(tiny));
      for (const std::size_t piece : {1, 7, 64, 512}) {
        EXPECT_EQ(Together(*engine, prompts, piece), want) << threads << " threads, " << piece;
      }
    }
  }
}

TEST(Batch, PartsHaveTheBitsThatTheyHaveAlone) {
  ExpectBitsAsAlone(ComputeChoice::kF32, {});
  ExpectBitsAsAlone(ComputeChoice::kQ8, {});
}

TEST(Batch, PartsHaveTheBitsThatTheyHaveAloneWithInt4Weights) {
  ExpectBitsAsAlone(ComputeChoice::kQ8, {.int4 = true});
}

// Decoding beside a prompt: rows of one position, of many, and of none asked for.
TEST(Batch, GivesTheRowsAskedForInPartOrder) {
  const auto engine = MakeEngine({.num_threads = 2, .compute = ComputeChoice::kQ8});
  const Ids a = MakeIds(70, 1), b = MakeIds(200, 2), c = MakeIds(300, 3);
  const auto want_a = Solo(*engine, a), want_b = Solo(*engine, b), want_c = Solo(*engine, c);
  const auto sa = NewSequence(*engine), sb = NewSequence(*engine), sc = NewSequence(*engine);
  std::vector<float> logits;
  ASSERT_TRUE(engine->Run(Step{{{sa.get(), std::span(a).first(69)}}}, nullptr).ok());
  // 1 + 120 + 290 rows: a chunk ends within a part.
  const Step step{{{sa.get(), std::span(a).subspan(69)},
                   {.sequence = sb.get(), .tokens = std::span(b).first(120), .more = 80},
                   {sc.get(), std::span(c).first(290), true}}};
  ASSERT_TRUE(engine->Run(step, &logits).ok());
  std::vector<float> want(want_a.end() - kVocab, want_a.end());
  want.insert(want.end(), want_c.begin(), want_c.begin() + 290 * kVocab);
  EXPECT_EQ(logits, want);
  EXPECT_EQ(sa->size(), 70);
  EXPECT_EQ(sb->size(), 120);
  EXPECT_EQ(sc->size(), 290);
  const Step rest{{{sc.get(), std::span(c).subspan(290)}, {sb.get(), std::span(b).subspan(120)}}};
  ASSERT_TRUE(engine->Run(rest, &logits).ok());
  want.assign(want_c.end() - kVocab, want_c.end());
  want.insert(want.end(), want_b.end() - kVocab, want_b.end());
  EXPECT_EQ(logits, want);
}

TEST(Batch, RopesFollowTheWholePromptHoweverItIsSplit) {
  model::DecoderModel model = MakeTinyModel();
  model::RopeTable& table = model.spec.ropes[0];
  table.by_length = model::RopeByLength{};
  table.by_length->original_positions = 40;
  table.by_length->long_inv_freq = table.inv_freq;
  for (float& f : table.by_length->long_inv_freq) f *= 0.5F;
  const auto engine = MakeEngine({.num_threads = 2}, std::move(model));
  const Ids ids = MakeIds(100, 1), other = MakeIds(30, 2);
  const auto want = Solo(*engine, ids), want_other = Solo(*engine, other);
  const auto sequence = NewSequence(*engine), beside = NewSequence(*engine);
  std::vector<float> logits;
  for (std::size_t at = 0; at < 100; at += 20) {
    Step step{{{.sequence = sequence.get(),
                .tokens = std::span(ids).subspan(at, 20),
                .more = static_cast<std::int64_t>(80 - at)}}};
    if (at == 40) step.parts.push_back({beside.get(), other});
    ASSERT_TRUE(engine->Run(step, &logits).ok());
    if (at == 40) {
      EXPECT_EQ(logits, std::vector<float>(want_other.end() - kVocab, want_other.end()));
    }
  }
  EXPECT_EQ(logits, std::vector<float>(want.end() - kVocab, want.end()));
}

class Refusals : public testing::Test {
 protected:
  void SetUp() override {
    for (auto* s : {&a_, &b_}) *s = NewSequence(*engine_);
    ASSERT_TRUE(engine_
                    ->Run(Step{{{a_.get(), std::span(ids_).first(10)},
                                {b_.get(), std::span(ids_).first(60)}}},
                          nullptr)
                    .ok());
  }

  // The step is refused, and both sequences go on as if it had not been.
  void ExpectNothingHappened(const Step& step, Code code, const std::vector<std::string>& words,
                             const std::atomic<bool>* cancel = nullptr) {
    std::vector<float> logits;
    const Status status = engine_->Run(step, &logits, cancel);
    EXPECT_EQ(status.code(), code) << status.message();
    for (const std::string& word : words) {
      EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
    }
    EXPECT_EQ(a_->size(), 10);
    EXPECT_EQ(b_->size(), 60);
    const Status next = engine_->Run(Step{{{a_.get(), std::span(ids_).subspan(10, 3)},
                                           {b_.get(), std::span(ids_).subspan(60, 5)}}},
                                     &logits);
    ASSERT_TRUE(next.ok()) << next.message();
    const auto all = Solo(*engine_, Ids(ids_.begin(), ids_.begin() + 65));
    std::vector<float> want(all.begin() + 12 * kVocab, all.begin() + 13 * kVocab);
    want.insert(want.end(), all.end() - kVocab, all.end());
    EXPECT_EQ(logits, want);
    a_->Truncate(10);
    b_->Truncate(60);
  }

  std::unique_ptr<Engine> engine_ =
      MakeEngine({.num_threads = 2}, MakeTinyModel({.max_positions = 80}));
  Ids ids_ = MakeIds(200, 1);
  std::unique_ptr<Sequence> a_, b_;
};

TEST_F(Refusals, OfOnePartLeaveAllSequencesAsTheyWere) {
  const auto good = std::span(ids_).subspan(10, 8);
  const auto other_engine = MakeEngine({.num_threads = 1});
  const auto foreign = NewSequence(*other_engine);
  const Ids outside = {1, 97};
  ExpectNothingHappened(Step{{{a_.get(), good}, {foreign.get(), good}}}, Code::kInvalidArgument,
                        {"part 1", "another engine"});
  ExpectNothingHappened(Step{{{a_.get(), good}, {nullptr, good}}}, Code::kInvalidArgument,
                        {"part 1"});
  ExpectNothingHappened(Step{{{a_.get(), good}, {b_.get(), good}, {a_.get(), good}}},
                        Code::kInvalidArgument, {"part 2", "already"});
  ExpectNothingHappened(Step{{{a_.get(), good}, {b_.get(), {}}}}, Code::kInvalidArgument,
                        {"part 1"});
  ExpectNothingHappened(Step{{{a_.get(), good}, {b_.get(), outside}}}, Code::kInvalidArgument,
                        {"part 1", "97"});
  ExpectNothingHappened(Step{{{a_.get(), good}, {b_.get(), std::span(ids_).first(21)}}},
                        Code::kInvalidArgument, {"part 1", "81", "80", "60"});
}

TEST_F(Refusals, CancelLeavesAllSequencesAsTheyWere) {
  const std::atomic<bool> cancel{true};
  ExpectNothingHappened(
      Step{{{a_.get(), std::span(ids_).first(70)}, {b_.get(), std::span(ids_).first(20)}}},
      Code::kCancelled, {}, &cancel);
}

TEST(Batch, ALargeStepOfManySequencesIsCutIntoChunks) {
  const auto engine = MakeEngine({.num_threads = 2, .compute = ComputeChoice::kQ8});
  const Ids ids = MakeIds(5, 1);
  const auto want = Solo(*engine, ids);
  std::vector<std::unique_ptr<Sequence>> sequences;
  Step step;
  for (int i = 0; i < 150; ++i) {
    sequences.push_back(NewSequence(*engine));
    step.parts.push_back({sequences.back().get(), ids});
  }
  ASSERT_GT(step.parts.size() * ids.size(), 2 * static_cast<std::size_t>(Forward::kChunkRows));
  std::vector<float> logits;
  ASSERT_TRUE(engine->Run(step, &logits).ok());
  ASSERT_EQ(logits.size(), 150U * kVocab);
  for (std::size_t i = 0; i < 150; ++i) {
    ASSERT_TRUE(std::equal(want.end() - kVocab, want.end(),
                           logits.begin() + static_cast<std::ptrdiff_t>(i) * kVocab))
        << i;
  }
}

}  // namespace
}  // namespace hone::runtime
