// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/prompt_scorer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "chat/model_host_test_util.h"

namespace hone::chat {
namespace {

// The log-probabilities of every token of the vocabulary behind each token, one row at a time.
std::vector<std::vector<double>> SlowScores(runtime::Engine& engine, const Ids& ids) {
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok()) << sequence.message();
  std::vector<std::vector<double>> scores;
  std::vector<float> logits;
  for (const std::int32_t id : ids) {
    const Status status =
        engine.Run(runtime::Step{{{sequence->get(), std::span(&id, 1)}}}, &logits);
    EXPECT_TRUE(status.ok()) << status.message();
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    std::vector<double>& row = scores.emplace_back();
    for (const float logit : logits) row.push_back(static_cast<double>(logit) - std::log(sum));
  }
  return scores;
}

// Of the test's tokenizer. More logits only pad the vocabulary.
constexpr std::size_t kNumTokens = 645;

void ExpectScores(const std::vector<TokenScore>& got, const Ids& ids,
                  const std::vector<std::vector<double>>& slow, std::size_t top) {
  ASSERT_EQ(got.size(), ids.size());
  EXPECT_FALSE(got[0].logprob.has_value());
  EXPECT_TRUE(got[0].top.empty());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(got[i].id, ids[i]);
    if (i == 0) continue;
    const std::vector<double>& row = slow[i - 1];
    ASSERT_TRUE(got[i].logprob.has_value());
    EXPECT_NEAR(*got[i].logprob, row[static_cast<std::size_t>(ids[i])], 1e-9) << i;
    std::vector<std::size_t> order(kNumTokens);
    for (std::size_t t = 0; t < order.size(); ++t) order[t] = t;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
    ASSERT_EQ(got[i].top.size(), top);
    for (std::size_t t = 0; t < top; ++t) {
      EXPECT_EQ(got[i].top[t].id, static_cast<std::int32_t>(order[t])) << i;
      EXPECT_NEAR(got[i].top[t].logprob, row[order[t]], 1e-9) << i;
    }
  }
}

TEST(PromptScorer, EqualsOneRowAtATimeHoweverThePromptIsSplit) {
  const auto engine = MakeTestEngine();
  const ChatModel model(*engine);
  for (const std::size_t length : {1U, 2U, 40U, 131U}) {
    const Ids ids = MakeTestIds(length, length);
    const auto slow = SlowScores(*engine, ids);
    for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{7}, std::int64_t{64}}) {
      PromptScorer scorer(model, ids, 3);
      auto sequence = engine->NewSequence();
      ASSERT_TRUE(sequence.ok());
      while (!scorer.done()) {
        const Status status = scorer.Advance(*engine, **sequence, rows);
        ASSERT_TRUE(status.ok()) << status.message();
      }
      EXPECT_EQ((*sequence)->size(), static_cast<std::int64_t>(length) - 1);
      ExpectScores(scorer.tokens(), ids, slow, 3);
    }
  }
}

TEST(PromptScorer, TokensHaveTheirBytes) {
  const auto engine = MakeTestEngine();
  const ChatModel model(*engine);
  const Ids ids = {0, 276, 700};
  PromptScorer scorer(model, ids, 0);
  auto sequence = engine->NewSequence();
  ASSERT_TRUE(sequence.ok());
  ASSERT_TRUE(scorer.Advance(*engine, **sequence, 64).ok());
  EXPECT_TRUE(scorer.done());
  EXPECT_EQ(scorer.tokens()[1].bytes, *engine->text().tokenizer->TokenBytes(276));
  EXPECT_EQ(scorer.tokens()[2].bytes, "");  // it only pads the vocabulary
  EXPECT_TRUE(scorer.tokens()[2].top.empty());
}

TEST(PromptScorer, ACancelledPieceChangesNothing) {
  const auto engine = MakeTestEngine();
  const ChatModel model(*engine);
  const Ids ids = MakeTestIds(40, 1);
  PromptScorer scorer(model, ids, 1);
  auto sequence = engine->NewSequence();
  ASSERT_TRUE(sequence.ok());
  ASSERT_TRUE(scorer.Advance(*engine, **sequence, 10).ok());
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(scorer.Advance(*engine, **sequence, 10, &cancel).code(), Code::kCancelled);
  EXPECT_EQ((*sequence)->size(), 10);
  ASSERT_TRUE(scorer.Advance(*engine, **sequence, 64).ok());
  ExpectScores(scorer.tokens(), ids, SlowScores(*engine, ids), 1);
}

TEST(PromptScorer, LogitsOfOnePieceStaySmall) {
  EXPECT_EQ(PromptScorer::RowsAtOnce(704), 64);
  EXPECT_EQ(PromptScorer::RowsAtOnce(262144), 16);
  EXPECT_EQ(PromptScorer::RowsAtOnce(std::int64_t{1} << 40), 1);
}

// As evaluation tools ask: many prompts of ids, with max_tokens 0 or 1.
TEST(ModelHostEcho, ScoresEveryPromptWhileOthersGoOn) {
  const auto twin = MakeTestEngine();
  ModelHost host(MakeTestEngine(), {.max_parallel = 3});
  const auto talks = std::make_shared<RecordingJob>();
  Job talk;
  talk.prompts = {IdsPrompt(MakeTestIds(20, 50))};
  talk.answer.sampler = HotSampler(9);
  talk.answer.max_tokens = 60;
  talk.random_seed = false;
  talk.sink = talks;
  ASSERT_TRUE(host.Submit(std::move(talk)).ok());
  const std::size_t lengths[] = {1, 2, 70, 200};
  for (const std::int64_t max_tokens : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}}) {
    const auto sink = std::make_shared<RecordingJob>();
    Job job;
    job.echo = true;
    job.n = 2;
    job.answer.logprobs = true;
    job.answer.top_logprobs = 2;
    job.answer.max_tokens = max_tokens;
    job.sink = sink;
    for (std::size_t i = 0; i < std::size(lengths); ++i) {
      job.prompts.push_back(IdsPrompt(MakeTestIds(lengths[i], i)));
    }
    const Submission submission = host.Submit(std::move(job));
    ASSERT_TRUE(submission.ok()) << submission.error.message;
    sink->WaitEnd();
    ASSERT_EQ(sink->code(), Code::kOk) << sink->message();
    for (std::size_t i = 0; i < std::size(lengths); ++i) {
      const Ids ids = MakeTestIds(lengths[i], i);
      const auto slow = SlowScores(*twin, ids);
      for (std::size_t c = 2 * i; c < 2 * i + 2; ++c) {
        const RecordingJob::Choice& choice = sink->choice(static_cast<std::int64_t>(c));
        EXPECT_EQ(choice.echoes, 1);
        ExpectScores(choice.echo, ids, slow, 2);
        if (max_tokens == 0) {
          EXPECT_EQ(choice.text, "");
          EXPECT_EQ(choice.reason, AnswerEndReason::kLength);
        } else {
          EXPECT_EQ(choice.text, Alone(*twin, ids, {}, max_tokens).text);
        }
        if (max_tokens == 1 && !choice.tokens.empty()) {
          const TokenScore& token = choice.tokens[0];
          ASSERT_TRUE(token.logprob.has_value());
          EXPECT_NEAR(*token.logprob, slow.back()[static_cast<std::size_t>(token.id)], 1e-9);
        }
      }
    }
    EXPECT_EQ(sink->usage().prompt_tokens, 273);
    EXPECT_EQ(sink->usage().cached_tokens, 0) << "every position is computed";
  }
  talks->WaitEnd();
  EXPECT_EQ(talks->choice(0).text, Alone(*twin, MakeTestIds(20, 50), HotSampler(9), 60).text);
}

TEST(ModelHostEcho, WithoutLogprobsNothingIsScored) {
  ModelHost host(MakeTestEngine(), {});
  const auto sink = std::make_shared<RecordingJob>();
  Job job;
  job.prompts = {IdsPrompt(MakeTestIds(40, 1))};
  job.echo = true;
  job.answer.max_tokens = 0;
  job.sink = sink;
  ASSERT_TRUE(host.Submit(std::move(job)).ok());
  sink->WaitEnd();
  EXPECT_EQ(sink->choice(0).echoes, 1);
  EXPECT_TRUE(sink->choice(0).echo.empty());
  EXPECT_EQ(host.stats().prefill_rows, 0);
}

TEST(ModelHostEcho, CancelEndsTheScoring) {
  ModelHost host(MakeTestEngine(), {.progress_seconds = 0});
  const auto sink = std::make_shared<RecordingJob>();
  Gate gate;
  sink->on_progress = [&](std::int64_t) {
    gate.Pass();
    return true;
  };
  Job job;
  job.prompts = {IdsPrompt(MakeTestIds(600, 1)), IdsPrompt(MakeTestIds(600, 2))};
  job.echo = true;
  job.answer.logprobs = true;
  job.answer.max_tokens = 1;
  job.sink = sink;
  const Submission submission = host.Submit(std::move(job));
  ASSERT_TRUE(submission.ok());
  gate.WaitReached();
  host.Cancel(submission.id);
  gate.Open();
  sink->WaitEnd();
  EXPECT_EQ(sink->code(), Code::kCancelled);
  EXPECT_EQ(sink->choice(0).echoes + sink->choice(1).echoes, 0);
  EXPECT_LE(host.stats().prefill_rows, 64);
}

}  // namespace
}  // namespace hone::chat
