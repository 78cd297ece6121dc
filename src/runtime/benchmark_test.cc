// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/benchmark.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "runtime/tiny_model.h"

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kFamily = HONE_SHARED_DATA "/golden/families/llama-gqa8/hf";

std::unique_ptr<Engine> TinyEngine(model::DecoderModel model = MakeTinyModel()) {
  auto engine = Engine::FromModel(std::move(model), {}, {.num_threads = 1}, "tiny");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

TEST(Summarize, GivesMedianBordersAndSpread) {
  const Summary odd = Summarize(std::vector<double>{9, 10, 14});
  EXPECT_DOUBLE_EQ(odd.median, 10);
  EXPECT_DOUBLE_EQ(odd.min, 9);
  EXPECT_DOUBLE_EQ(odd.max, 14);
  EXPECT_DOUBLE_EQ(odd.mean, 11);
  EXPECT_DOUBLE_EQ(odd.stddev * odd.stddev, 7);  // (4 + 1 + 9) / 2
  EXPECT_DOUBLE_EQ(odd.spread_percent, 50);
  const Summary even = Summarize(std::vector<double>{4, 1, 2, 3});
  EXPECT_DOUBLE_EQ(even.median, 2.5);
  EXPECT_DOUBLE_EQ(even.spread_percent, 120);
}

TEST(Summarize, OfOneValueHasNoSpread) {
  const Summary one = Summarize(std::vector<double>{5});
  EXPECT_DOUBLE_EQ(one.median, 5);
  EXPECT_DOUBLE_EQ(one.stddev, 0);
  EXPECT_DOUBLE_EQ(one.spread_percent, 0);
  EXPECT_DOUBLE_EQ(Summarize({}).median, 0);
}

TEST(JudgeAnswer, TakesAnAnswerAndRefusesWhatIsNone) {
  EXPECT_TRUE(JudgeAnswer("Paris.", Ids{1, 2}).passed);
  EXPECT_TRUE(JudgeAnswer("no no no", Ids{1, 1, 1}).passed);
  EXPECT_EQ(JudgeAnswer(" \n", Ids{1}).flags, std::vector<std::string>{"empty"});
  EXPECT_EQ(JudgeAnswer("\xff", Ids{1}).flags, std::vector<std::string>{"not_utf8"});
  EXPECT_EQ(JudgeAnswer("aaaaaa", Ids(6, 4)).flags, std::vector<std::string>{"repeats"});
  Ids turns;
  for (int i = 0; i < 12; ++i) turns.push_back(i % 2);
  EXPECT_FALSE(JudgeAnswer("abababababab", turns).passed);
  turns.back() = 7;
  EXPECT_TRUE(JudgeAnswer("abababababa!", turns).passed);
}

TEST(RunGate, RefusesAModelWithoutATokenizer) {
  const auto engine = TinyEngine();
  auto gate = RunGate(*engine, nullptr);
  ASSERT_TRUE(gate.ok()) << gate.message();
  EXPECT_FALSE(gate->passed);
  EXPECT_EQ(gate->flags, std::vector<std::string>{"no_tokenizer"});
}

// The answer of this family is text, but its weights are random.
TEST(RunGate, AsksThroughTheModelsOwnTemplateAndRefusesRandomWeights) {
  auto engine = Engine::Open(kFamily, {.num_threads = 1});
  ASSERT_TRUE(engine.ok()) << engine.message();
  auto gate = RunGate(**engine, nullptr);
  ASSERT_TRUE(gate.ok()) << gate.message();
  EXPECT_NE(gate->prompt.find("<|im_start|>user\nWhat is the capital of France?"),
            std::string::npos)
      << gate->prompt;
  EXPECT_FALSE(gate->passed);
  EXPECT_EQ(gate->flags, std::vector<std::string>{"unlikely"});
  EXPECT_TRUE(JudgeAnswer(gate->answer, {}).passed) << gate->answer;
  EXPECT_DOUBLE_EQ(gate->nll_limit, NllLimit(704));
  ASSERT_TRUE(gate->nll.has_value());
  EXPECT_GT(*gate->nll, 0.9 * std::log(704.0));
  EXPECT_NE(gate->reason.find("mean NLL"), std::string::npos) << gate->reason;
  EXPECT_NE(gate->reason.find("expected less than 3.93"), std::string::npos) << gate->reason;
}

TEST(MeanNll, IsThatOfTheEnginesLogits) {
  const auto engine = TinyEngine();
  const auto vocab = static_cast<std::size_t>(engine->spec().vocab);
  const Ids ids = {3, 1, 4, 1, 5, 9, 2, 6};
  double want = 0;
  for (std::size_t i = 2; i < ids.size(); ++i) {
    auto sequence = engine->NewSequence();
    ASSERT_TRUE(sequence.ok()) << sequence.message();
    std::vector<float> logits;
    const Status status =
        engine->Run(Step{{{sequence->get(), std::span(ids).first(i)}}}, &logits, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(logits.size(), vocab);
    double sum = 0;
    for (const float value : logits) sum += std::exp(static_cast<double>(value));
    want -= std::log(std::exp(static_cast<double>(logits[static_cast<std::size_t>(ids[i])])) / sum);
  }
  const auto nll = MeanNll(*engine, ids, 2, nullptr);
  ASSERT_TRUE(nll.ok()) << nll.message();
  EXPECT_NEAR(*nll, want / 6, 1e-6);
  EXPECT_GT(*nll, 0);
}

TEST(MeanNll, RefusesWhatLeavesNoToken) {
  const auto engine = TinyEngine();
  EXPECT_EQ(MeanNll(*engine, Ids{1, 2}, 2, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(MeanNll(*engine, Ids{1}, 0, nullptr).code(), Code::kInvalidArgument);
  EXPECT_TRUE(MeanNll(*engine, Ids{1, 2}, 0, nullptr).ok());
}

TEST(RunGate, RefusesLogitsThatAreNotFinite) {
  auto model = LoadModel(kFamily, nullptr);
  auto text = LoadText(kFamily, nullptr);
  ASSERT_TRUE(model.ok() && text.ok());
  auto norm = std::make_shared<std::vector<float>>(model::ReadAll(model->final_norm));
  (*norm)[0] = std::numeric_limits<float>::infinity();
  model->final_norm.view.type = {codec::Coding::kF32, 0};
  model->final_norm.view.codes = std::as_bytes(std::span<const float>(*norm));
  model->keep_alive.push_back(norm);
  auto engine =
      Engine::FromModel(*std::move(model), *std::move(text), {.num_threads = 1}, "damaged");
  ASSERT_TRUE(engine.ok()) << engine.message();
  auto gate = RunGate(**engine, nullptr);
  ASSERT_TRUE(gate.ok()) << gate.message();
  EXPECT_EQ(gate->flags, std::vector<std::string>{"not_finite"});
}

TEST(RunBenchmark, CountsRunsAndTokensAndReportsWarmUpsApart) {
  const auto engine = TinyEngine();
  std::vector<int> numbers;
  BenchmarkOptions options;
  options.runs = 3;
  options.warmup = 2;
  options.watch_machine = false;
  options.on_run = [&](const BenchmarkTest&, int run, const BenchmarkSample&) {
    numbers.push_back(run);
  };
  for (const BenchmarkTest& test : {BenchmarkTest{BenchmarkKind::kPrefill, 20, 0, 1},
                                    BenchmarkTest{BenchmarkKind::kPrefill, 20, 70, 1},
                                    BenchmarkTest{BenchmarkKind::kDecode, 5, 0, 1},
                                    BenchmarkTest{BenchmarkKind::kDecode, 5, 66, 3}}) {
    numbers.clear();
    auto result = RunBenchmark(*engine, test, options);
    ASSERT_TRUE(result.ok()) << result.message();
    EXPECT_EQ(numbers, (std::vector<int>{-1, 0, 1, 2, 3}));
    ASSERT_EQ(result->samples.size(), 3U);
    EXPECT_EQ(result->total_tokens(), test.tokens * test.batch);
    for (const BenchmarkSample& sample : result->samples) {
      EXPECT_GT(sample.seconds, 0);
      EXPECT_FALSE(sample.busy_before.has_value());
      if (test.kind == BenchmarkKind::kPrefill) {
        EXPECT_GE(sample.first_token_seconds, sample.seconds);
      }
    }
    for (const double speed : result->TokensPerSecond()) EXPECT_GT(speed, 0);
  }
}

TEST(RunBenchmark, RefusesWhatDoesNotFitInTheContext) {
  const auto engine = TinyEngine(MakeTinyModel({.max_positions = 30}));
  const auto result = RunBenchmark(*engine, {BenchmarkKind::kDecode, 20, 11, 1}, {});
  EXPECT_EQ(result.code(), Code::kInvalidArgument);
  EXPECT_NE(result.message().find("30"), std::string::npos) << result.message();
}

TEST(RunBenchmark, StopsWhenCancelled) {
  const auto engine = TinyEngine();
  std::atomic<bool> cancel{false};
  int runs = 0;
  BenchmarkOptions options;
  options.runs = 100;
  options.watch_machine = false;
  options.cancel = &cancel;
  options.on_run = [&](const BenchmarkTest&, int, const BenchmarkSample&) { cancel = ++runs == 2; };
  const auto result = RunBenchmark(*engine, {BenchmarkKind::kPrefill, 8, 0, 1}, options);
  EXPECT_EQ(result.code(), Code::kCancelled);
  EXPECT_EQ(runs, 2);
}

TEST(IsBusy, LooksBeforeAndDuringTheRun) {
  BenchmarkSample sample;
  EXPECT_FALSE(IsBusy(sample));  // nothing is known
  sample.busy_before = 0.05;
  sample.busy_during = 0.05;
  EXPECT_FALSE(IsBusy(sample));
  sample.busy_during = 0.5;
  EXPECT_TRUE(IsBusy(sample));
  sample.busy_during = 0.0;
  sample.busy_before = 0.2;
  EXPECT_TRUE(IsBusy(sample));
}

}  // namespace
}  // namespace hone::runtime
