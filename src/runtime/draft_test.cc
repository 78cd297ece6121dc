// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/draft.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <utility>

#include "runtime/decode_loop.h"
#include "runtime/tiny_model.h"

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

Ids Copy(std::span<const std::int32_t> ids) { return {ids.begin(), ids.end()}; }

DraftIndex IndexOf(const Ids& text) {
  DraftIndex index(1000);
  for (const std::int32_t id : text) index.Append(id);
  return index;
}

TEST(DraftIndex, ProposesWhatFollowedTheLongestMatch) {
  // "1 2 3 4" was followed by 50, and more lately "3 4" by 60.
  DraftIndex index = IndexOf({1, 2, 3, 4, 50, 51, 9, 3, 4, 60, 61, 1, 2, 3, 4});
  Draft draft = index.Propose(3);
  EXPECT_EQ(draft.matched, 4);
  EXPECT_EQ(Copy(draft.tokens), (Ids{50, 51, 9}));
  index = IndexOf({1, 2, 3, 4, 50, 51, 9, 3, 4, 60, 61, 7, 3, 4});
  draft = index.Propose(2);
  EXPECT_EQ(draft.matched, 2);
  EXPECT_EQ(Copy(draft.tokens), (Ids{60, 61}));
}

TEST(DraftIndex, ProposesNothingWithoutAMatch) {
  EXPECT_TRUE(IndexOf({}).Propose(7).tokens.empty());
  EXPECT_TRUE(IndexOf({1, 1}).Propose(7).tokens.empty());
  EXPECT_TRUE(IndexOf({1, 2, 3, 4, 5, 2}).Propose(7).tokens.empty());
  EXPECT_TRUE(IndexOf({1, 2, 3, 1, 2}).Propose(0).tokens.empty());
}

TEST(DraftIndex, GoesOnAroundALoop) {
  DraftIndex index = IndexOf({9, 5, 6, 5, 6});
  const Draft draft = index.Propose(100);
  EXPECT_EQ(draft.matched, 2);
  EXPECT_EQ(Copy(draft.tokens), (Ids{5, 6, 5, 6, 5, 6, 5}));
}

TEST(DraftIndex, AgreesWithASearchThroughTheText) {
  std::mt19937 random(3);
  Ids text;
  DraftIndex index(500);
  int found = 0;
  for (int i = 0; i < 500; ++i) {
    text.push_back(static_cast<std::int32_t>(random() % 6));
    index.Append(text.back());
    const Draft draft = index.Propose(1);
    for (int gram = DraftIndex::kMaxGram; gram >= draft.matched && gram > 1; --gram) {
      std::ptrdiff_t at = static_cast<std::ptrdiff_t>(text.size()) - 1;
      const auto same = [&] {
        return std::equal(text.end() - gram, text.end(), text.begin() + at - gram);
      };
      while (at >= gram && !same()) --at;
      // Two n-grams may share a table entry, so a match may be missed, never invented.
      if (gram == draft.matched) {
        ASSERT_GE(at, gram);
        EXPECT_EQ(draft.tokens[0], text[static_cast<std::size_t>(at)]);
        ++found;
      }
    }
  }
  EXPECT_GT(found, 400);
}

TEST(DraftPacer, VerifiesWhileItPaysAndPausesElse) {
  DraftPacer pacer;
  EXPECT_EQ(pacer.Choose(4, 7), 0);  // costs are not known
  for (int i = 0; i < 4; ++i) pacer.CountStep(1, 0.010);
  EXPECT_GT(pacer.Choose(4, 7), 0);
  for (int i = 0; i < 60; ++i) pacer.CountOutcome(4, 7, 7);
  EXPECT_EQ(pacer.Choose(4, 7), 7);
  EXPECT_EQ(pacer.Choose(4, 6), 3);
  EXPECT_EQ(pacer.Choose(4, 2), 1);
  // Rows that cost as much as plain steps gain nothing.
  for (int i = 0; i < 40; ++i) {
    for (const int rows : {2, 4, 8}) pacer.CountStep(rows, 0.010 * rows);
  }
  pacer.CountStep(1, 0.010);
  EXPECT_EQ(pacer.Choose(4, 7), 0);
}

TEST(DraftPacer, PausesWhereGuessesAreWrong) {
  DraftPacer pacer;
  for (int i = 0; i < 4; ++i) pacer.CountStep(1, 0.010);
  for (int i = 0; i < 60; ++i) pacer.CountOutcome(2, 7, 0);
  for (int i = 0; i < 60; ++i) pacer.CountOutcome(3, 7, 7);
  EXPECT_EQ(pacer.Choose(2, 7), 0);
  EXPECT_EQ(pacer.Choose(3, 7), 7);
}

TEST(Speculator, LearnsFromGuessesThatItOnlyWatches) {
  Speculator speculator(Speculation::kAuto, 1000);
  int proposed = 0;
  for (int i = 0; i < 200; ++i) {
    speculator.Append(i % 3);
    const int count = static_cast<int>(speculator.Propose(100).size());
    if (count > 0) ++proposed;
    speculator.CountStep(count == 0 ? 0.010 : 0.011);
    speculator.CountAccepted(count);  // the text repeats, so the guess came true
    for (int j = 0; j < count; ++j) speculator.Append(++i % 3);
  }
  EXPECT_GT(proposed, 10);
}

// The same answer with and without guesses.
class SpeculationTest : public ::testing::Test {
 protected:
  void Open(TextSetup text, std::int64_t max_positions) {
    auto engine = Engine::FromModel(MakeTinyModel({.max_positions = max_positions}),
                                    std::move(text), {.num_threads = 2}, "tiny");
    ASSERT_TRUE(engine.ok()) << engine.message();
    engine_ = *std::move(engine);
  }

  Generation Answer(const Ids& prompt, GenerateOptions options, Speculation speculation,
                    Ids* cached, Ids* called = nullptr) {
    auto sequence = engine_->NewSequence();
    EXPECT_TRUE(sequence.ok()) << sequence.message();
    options.speculation = speculation;
    std::atomic<bool> cancel{false};
    int count = 0;
    options.cancel = &cancel;
    options.on_token = [&](std::int32_t id) {
      if (called != nullptr) called->push_back(id);
      cancel = ++count == cancel_after_;
    };
    auto answer = Generate(*engine_, **sequence, prompt, options);
    EXPECT_TRUE(answer.ok()) << answer.message();
    *cached = Copy((*sequence)->tokens());
    return answer.ok() ? *std::move(answer) : Generation{};
  }

  // Returns the tokens that were guessed right.
  std::int64_t Compare(const Ids& prompt, const GenerateOptions& options) {
    Ids cached_off, called_off;
    const Generation off = Answer(prompt, options, Speculation::kOff, &cached_off, &called_off);
    EXPECT_EQ(off.speculation.drafted, 0);
    std::int64_t accepted = 0;
    for (const Speculation mode : {Speculation::kOn, Speculation::kAuto}) {
      Ids cached, called;
      const Generation on = Answer(prompt, options, mode, &cached, &called);
      EXPECT_EQ(on.ids, off.ids);
      EXPECT_EQ(on.finish, off.finish);
      EXPECT_EQ(on.timings.decode_tokens, off.timings.decode_tokens);
      EXPECT_EQ(cached, cached_off);
      EXPECT_EQ(called, called_off);
      EXPECT_LE(on.speculation.accepted, on.speculation.drafted);
      if (mode == Speculation::kOn) accepted = on.speculation.accepted;
    }
    return accepted;
  }

  std::unique_ptr<Engine> engine_;
  int cancel_after_ = -1;
};

const Ids kLoop = {7, 3, 9, 4, 7, 3, 9, 4, 7, 3, 9, 4, 7, 3};

TEST_F(SpeculationTest, GreedyAnswersAreEqualUpToTheEndOfTheContext) {
  std::int64_t accepted = 0;
  for (const std::int64_t context : {15, 16, 17, 20, 23, 80, 200}) {
    SCOPED_TRACE(context);
    ASSERT_NO_FATAL_FAILURE(Open({}, context));
    accepted += Compare(kLoop, {});
  }
  EXPECT_GT(accepted, 20);  // or the test compares nothing
}

TEST_F(SpeculationTest, AnswersAreEqualForEveryMaxTokens) {
  ASSERT_NO_FATAL_FAILURE(Open({}, 400));
  for (const std::int64_t max_tokens : {1, 2, 3, 5, 8, 9, 60}) {
    SCOPED_TRACE(max_tokens);
    GenerateOptions options;
    options.max_tokens = max_tokens;
    Compare(kLoop, options);
  }
}

TEST_F(SpeculationTest, SampledAndPenalizedAnswersAreEqual) {
  ASSERT_NO_FATAL_FAILURE(Open({}, 400));
  std::int64_t accepted = 0;
  for (const float temperature : {0.0F, 0.02F, 0.3F, 1.0F}) {
    for (const float penalty : {1.0F, 1.2F}) {
      for (const std::uint64_t seed : {1U, 2U}) {
        GenerateOptions options;
        options.max_tokens = 48;
        options.sampler.temperature = temperature;
        options.sampler.top_p = 0.95F;
        options.sampler.repetition_penalty = penalty;
        options.sampler.frequency_penalty = penalty - 1;
        options.sampler.seed = seed;
        accepted += Compare(kLoop, options);
      }
    }
  }
  EXPECT_GT(accepted, 20);
}

TEST_F(SpeculationTest, StopIdsEndTheAnswerInsideAStep) {
  ASSERT_NO_FATAL_FAILURE(Open({}, 400));
  Ids ignored;
  GenerateOptions options;
  options.max_tokens = 60;
  const Ids whole = Answer(kLoop, options, Speculation::kOff, &ignored).ids;
  for (const std::size_t at : {1U, 20U, 41U, 43U}) {
    TextSetup text;
    text.stop_ids = {whole[at]};
    ASSERT_NO_FATAL_FAILURE(Open(std::move(text), 400));
    Compare(kLoop, options);
    // The same token in the prompt: guesses contain it.
    Ids longer = kLoop;
    longer.insert(longer.end(), whole.begin(), whole.begin() + 50);
    longer.insert(longer.end(), kLoop.begin(), kLoop.end());
    Compare(longer, options);
  }
}

TEST_F(SpeculationTest, CancelActsAfterTheSameToken) {
  ASSERT_NO_FATAL_FAILURE(Open({}, 400));
  for (const int after : {1, 2, 17, 18, 19, 40}) {
    SCOPED_TRACE(after);
    cancel_after_ = after;
    GenerateOptions options;
    options.max_tokens = 60;
    Compare(kLoop, options);
  }
}

}  // namespace
}  // namespace hone::runtime
