// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/model_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "chat/model_host_test_util.h"

namespace hone::chat {
namespace {

using Sink = std::shared_ptr<RecordingJob>;

// Stop tokens of the test's tokenizer: an answer that must be long does without them.
const std::map<std::int32_t, double> kNoStop = {
    {1, -100}, {3, -100}, {642, -100}, {643, -100}, {644, -100}};

Job MakeJob(Ids ids, std::int64_t tokens, const Sink& sink,
            const runtime::SamplerOptions& sampler = {}) {
  Job job;
  job.prompts.push_back(IdsPrompt(std::move(ids)));
  job.answer.sampler = sampler;
  job.answer.max_tokens = tokens;
  job.random_seed = false;
  job.sink = sink;
  return job;
}

JobId MustSubmit(ModelHost& host, Job job) {
  const Submission submission = host.Submit(std::move(job));
  EXPECT_TRUE(submission.ok()) << submission.error.message;
  return submission.id;
}

void ExpectAnswer(RecordingJob& sink, const runtime::Generation& want, std::int64_t choice = 0) {
  const RecordingJob::Choice& got = sink.choice(choice);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.ends, 1);
  EXPECT_EQ(got.reason == AnswerEndReason::kLength, want.finish == runtime::FinishReason::kLength);
}

// Two characters inside the text.
std::string PlainPart(const std::string& text) {
  for (std::size_t i = 4; i + 2 < text.size(); ++i) {
    if ((text[i] & 0x80) == 0 && (text[i + 1] & 0x80) == 0) return text.substr(i, 2);
  }
  return "";
}

TEST(ModelHost, EightJobsAtOnceGetTheAnswersThatTheyGetAlone) {
  const auto twin = MakeTestEngine();
  ModelHost host(MakeTestEngine(), {.max_parallel = 3});
  const std::size_t lengths[] = {5, 300, 64, 1, 130, 401, 17, 65};
  std::vector<Sink> sinks;
  for (std::size_t i = 0; i < std::size(lengths); ++i) {
    sinks.push_back(std::make_shared<RecordingJob>());
    const auto sampler = i % 2 == 0 ? runtime::SamplerOptions{} : HotSampler(i);
    MustSubmit(host, MakeJob(MakeTestIds(lengths[i], i), 20 + static_cast<std::int64_t>(i),
                             sinks[i], sampler));
  }
  std::int64_t generated = 0;
  for (std::size_t i = 0; i < std::size(lengths); ++i) {
    sinks[i]->WaitEnd();
    EXPECT_EQ(sinks[i]->code(), Code::kOk) << sinks[i]->message();
    const auto sampler = i % 2 == 0 ? runtime::SamplerOptions{} : HotSampler(i);
    const auto want =
        Alone(*twin, MakeTestIds(lengths[i], i), sampler, 20 + static_cast<std::int64_t>(i));
    ExpectAnswer(*sinks[i], want);
    const JobUsage& usage = sinks[i]->usage();
    EXPECT_EQ(usage.prompt_tokens, static_cast<std::int64_t>(lengths[i]));
    EXPECT_EQ(usage.completion_tokens, static_cast<std::int64_t>(want.ids.size()));
    EXPECT_EQ(usage.reasoning_tokens, 0);
    EXPECT_LE(*usage.begin_seconds, *usage.first_token_seconds);
    EXPECT_LE(*usage.first_token_seconds, usage.total_seconds);
    generated += usage.completion_tokens;
  }
  ASSERT_TRUE(host.WaitIdle(std::chrono::minutes(1)));
  const HostStats stats = host.stats();
  EXPECT_EQ(stats.done, 8);
  EXPECT_EQ(stats.completion_tokens, generated);
  EXPECT_EQ(stats.prompt_tokens, stats.prefill_rows + stats.cached_tokens);
  EXPECT_GT(stats.prefill_seconds, 0);
  EXPECT_GT(stats.decode_rows, 0);
  EXPECT_EQ(stats.waiting_jobs + stats.running_jobs + stats.active_sequences, 0);
}

// Prompts whose answers repeat themselves and the prompt: guesses come true.
Ids LoopIds(std::size_t count, std::size_t salt) {
  Ids ids = MakeTestIds(6, salt);
  while (ids.size() < count) ids.push_back(ids[ids.size() - 6]);
  return ids;
}

TEST(ModelHost, GuessesChangeNoAnswer) {
  const auto twin = MakeTestEngine();
  const auto sampler_of = [](std::size_t i) {
    runtime::SamplerOptions sampler;
    if (i % 2 == 1) sampler = HotSampler(i);
    if (i % 4 == 1) sampler.temperature = 0.2F;
    if (i % 4 >= 2) sampler.repetition_penalty = 1.2F;
    if (i % 4 == 3) sampler.presence_penalty = 0.5F;
    return sampler;
  };
  const auto tokens_of = [](std::size_t i) { return 30 + 20 * static_cast<std::int64_t>(i); };
  std::vector<runtime::Generation> wants;
  for (std::size_t i = 0; i < 8; ++i) {
    runtime::GenerateOptions options;
    options.sampler = sampler_of(i);
    options.max_tokens = tokens_of(i);
    options.speculation = runtime::Speculation::kOff;
    const auto sequence = *twin->NewSequence();
    auto want = runtime::Generate(*twin, *sequence, LoopIds(20 + 30 * i, i), options);
    ASSERT_TRUE(want.ok()) << want.message();
    wants.push_back(*std::move(want));
  }
  for (const std::int64_t parallel : {1, 2, 8}) {
    ModelHost host(MakeTestEngine(),
                   {.max_parallel = parallel, .speculation = runtime::Speculation::kOn});
    std::vector<Sink> sinks;
    for (std::size_t i = 0; i < 8; ++i) {
      sinks.push_back(std::make_shared<RecordingJob>());
      Job job = MakeJob(LoopIds(20 + 30 * i, i), tokens_of(i), sinks[i], sampler_of(i));
      job.answer.logprobs = i % 3 == 0;
      job.prompts[0].plan.prediction = i % 2 == 0 ? "" : wants[i].text + "<s> and no more";
      MustSubmit(host, std::move(job));
    }
    for (std::size_t i = 0; i < 8; ++i) {
      sinks[i]->WaitEnd();
      ASSERT_EQ(sinks[i]->code(), Code::kOk) << sinks[i]->message();
      ExpectAnswer(*sinks[i], wants[i]);
      EXPECT_EQ(sinks[i]->usage().completion_tokens,
                static_cast<std::int64_t>(wants[i].ids.size()));
    }
    if (parallel > 1) continue;
    EXPECT_GT(host.stats().drafted_tokens, 0);
    EXPECT_GT(host.stats().accepted_tokens, 0);
  }
}

// The same job with and without a prediction: events, scores, reasons.
TEST(ModelHost, AGoodPredictionSavesRunsAndChangesNothingElse) {
  const Ids ids = MakeTestIds(40, 3);
  const auto run = [&](const std::string& prediction, runtime::Speculation mode, bool stop,
                       HostStats* stats) {
    ModelHost host(MakeTestEngine(), {.speculation = mode});
    const auto sink = std::make_shared<RecordingJob>();
    Job job = MakeJob(ids, 60, sink, HotSampler(5));
    job.answer.logit_bias = kNoStop;
    job.answer.logprobs = true;
    job.answer.top_logprobs = 2;
    if (stop) job.answer.stop = {"never this", prediction.substr(prediction.size() - 9)};
    job.prompts[0].plan.prediction = prediction;
    MustSubmit(host, std::move(job));
    sink->WaitEnd();
    EXPECT_EQ(sink->code(), Code::kOk) << sink->message();
    EXPECT_TRUE(host.WaitIdle(std::chrono::minutes(1)));
    *stats = host.stats();
    return sink;
  };
  const auto compare = [](RecordingJob& got, RecordingJob& want) {
    EXPECT_EQ(got.choice(0).text, want.choice(0).text);
    EXPECT_EQ(got.choice(0).reason, want.choice(0).reason);
    EXPECT_EQ(got.choice(0).events, want.choice(0).events);
    EXPECT_EQ(got.usage().completion_tokens, want.usage().completion_tokens);
    const auto &tokens = got.choice(0).tokens, &others = want.choice(0).tokens;
    ASSERT_EQ(tokens.size(), others.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(tokens[i].id, others[i].id);
      EXPECT_EQ(tokens[i].logprob, others[i].logprob);
    }
  };
  HostStats plain, good, bad;
  const Sink want = run("", runtime::Speculation::kOff, false, &plain);
  ASSERT_EQ(want->usage().completion_tokens, 60);
  EXPECT_EQ(plain.model_runs, 60);
  EXPECT_EQ(plain.drafted_tokens, 0);
  const std::string answer = want->choice(0).text;
  compare(*run(answer, runtime::Speculation::kOn, false, &good), *want);
  EXPECT_LT(good.model_runs, 60);
  EXPECT_EQ(good.model_runs + good.accepted_tokens, 60);
  compare(*run("nothing like it " + answer.substr(answer.size() / 2), runtime::Speculation::kOn,
               false, &bad),
          *want);
  compare(*run(answer, runtime::Speculation::kAuto, false, &bad), *want);
  compare(*run(std::string("\xff\xfe no text"), runtime::Speculation::kOn, false, &bad), *want);

  // It ends inside the draft.
  const std::string part = answer.substr(0, answer.size() / 2);
  const Sink stopped = run(part, runtime::Speculation::kOff, true, &plain);
  EXPECT_EQ(stopped->choice(0).reason, AnswerEndReason::kStop);
  compare(*run(part, runtime::Speculation::kOn, true, &good), *stopped);
}

TEST(ModelHost, CancelWhileItWaitsReadsOrAnswersLeavesTheOthersAlone) {
  const auto twin = MakeTestEngine();
  ModelHost host(
      MakeTestEngine(),
      {.max_parallel = 3, .progress_seconds = 0, .chunks = {.min_rows = 4, .max_rows = 4}});
  const auto runs = std::make_shared<RecordingJob>(), answers = std::make_shared<RecordingJob>(),
             reads = std::make_shared<RecordingJob>(), waits = std::make_shared<RecordingJob>();
  Gate begun, in_answer, in_prompt;
  std::atomic<int> answer_events{0};
  answers->on_answer = [&](std::int64_t, const AnswerEvent&) {
    answer_events = answers->events(0);
    if (begun.is_open() && answer_events >= 3) in_answer.Pass();
    return true;
  };
  reads->on_progress = [&](std::int64_t done) {
    begun.Pass();
    if (done > 30) in_prompt.Pass();
    return true;
  };
  MustSubmit(host, MakeJob(MakeTestIds(20, 1), 400, runs, HotSampler(1)));
  Job endless = MakeJob(MakeTestIds(8, 2), 600, answers, HotSampler(7));
  endless.answer.logit_bias = kNoStop;
  const JobId answering = MustSubmit(host, std::move(endless));
  const JobId reading = MustSubmit(host, MakeJob(MakeTestIds(690, 3), 5, reads));
  const JobId waiting = MustSubmit(host, MakeJob(MakeTestIds(5, 4), 5, waits));

  begun.WaitReached();
  host.Cancel(waiting);
  begun.Open();
  // The one that is reached first is cancelled first.
  std::thread other([&] {
    in_prompt.WaitReached();
    host.Cancel(reading);
    in_prompt.Open();
  });
  in_answer.WaitReached();
  host.Cancel(answering);
  host.Cancel(answering);
  in_answer.Open();
  other.join();
  waits->WaitEnd();
  EXPECT_EQ(waits->code(), Code::kCancelled);
  EXPECT_EQ(waits->events(0), 0);
  EXPECT_FALSE(waits->usage().begin_seconds.has_value());
  EXPECT_EQ(waits->usage().prompt_tokens, 0);
  reads->WaitEnd();
  EXPECT_EQ(reads->code(), Code::kCancelled);
  EXPECT_EQ(reads->events(0), 0);
  EXPECT_LT(reads->progress().back().first, 50);
  answers->WaitEnd();
  EXPECT_EQ(answers->code(), Code::kCancelled);
  EXPECT_EQ(answers->events(0), answer_events);
  EXPECT_EQ(answers->choice(0).ends, 0);

  runs->WaitEnd();
  ExpectAnswer(*runs, Alone(*twin, MakeTestIds(20, 1), HotSampler(1), 400));
  host.Cancel(answering);
  host.Cancel(12345);
  ASSERT_TRUE(host.WaitIdle(std::chrono::minutes(1)));
  EXPECT_EQ(host.stats().cancelled, 3);
  EXPECT_EQ(host.stats().done, 1);
}

TEST(ModelHost, TheQueueIsBounded) {
  ModelHost host(MakeTestEngine(), {.max_parallel = 1, .max_queue = 2});
  Gate gate;
  const auto first = std::make_shared<RecordingJob>();
  first->on_answer = [&](std::int64_t, const AnswerEvent&) {
    gate.Pass();
    return true;
  };
  MustSubmit(host, MakeJob(MakeTestIds(5, 1), 3, first));
  gate.WaitReached();
  std::vector<Sink> sinks;
  for (int i = 0; i < 3; ++i) sinks.push_back(std::make_shared<RecordingJob>());
  EXPECT_TRUE(host.Check().ok());
  for (int i = 0; i < 2; ++i)
    MustSubmit(host, MakeJob(MakeTestIds(5, 1), 3, sinks[static_cast<std::size_t>(i)]));
  EXPECT_EQ(host.Check().refusal, Refusal::kQueueFull);
  const Submission refused = host.Submit(MakeJob(MakeTestIds(5, 1), 3, sinks[2]));
  EXPECT_EQ(refused.refusal, Refusal::kQueueFull);
  EXPECT_EQ(refused.waiting, 2);
  EXPECT_EQ(host.stats().waiting_jobs, 2);
  EXPECT_EQ(host.stats().running_jobs, 1);
  gate.Open();
  for (int i = 0; i < 2; ++i) sinks[static_cast<std::size_t>(i)]->WaitEnd();
  ASSERT_TRUE(host.WaitIdle(std::chrono::minutes(1)));
  EXPECT_FALSE(sinks[2]->over());
  EXPECT_EQ(host.stats().refused, 1);
  EXPECT_EQ(host.stats().done, 3);
  MustSubmit(host, MakeJob(MakeTestIds(5, 1), 3, sinks[2]));
  sinks[2]->WaitEnd();
}

TEST(ModelHost, ChoicesShareThePromptAndHaveTheirOwnSeeds) {
  const auto twin = MakeTestEngine();
  for (const std::uint64_t prefix_bytes : {std::uint64_t{64} << 20, std::uint64_t{0}}) {
    ModelHost host(MakeTestEngine(700, prefix_bytes), {.max_parallel = 4});
    const auto sink = std::make_shared<RecordingJob>();
    Job job = MakeJob(MakeTestIds(200, 1), 12, sink, HotSampler(40));
    job.n = 3;
    job.prompts.push_back(IdsPrompt(MakeTestIds(150, 2)));
    MustSubmit(host, std::move(job));
    sink->WaitEnd();
    ASSERT_EQ(sink->code(), Code::kOk) << sink->message();
    std::int64_t generated = 0;
    for (std::int64_t i = 0; i < 6; ++i) {
      const Ids ids = i < 3 ? MakeTestIds(200, 1) : MakeTestIds(150, 2);
      const auto want = Alone(*twin, ids, HotSampler(40 + static_cast<std::uint64_t>(i % 3)), 12);
      ExpectAnswer(*sink, want, i);
      generated += static_cast<std::int64_t>(want.ids.size());
    }
    EXPECT_EQ(sink->usage().prompt_tokens, 350);
    EXPECT_EQ(sink->usage().cached_tokens, 0);
    EXPECT_EQ(sink->usage().completion_tokens, generated);
    // The others of a prompt compute only what is no full page: 200 = 3 * 64 + 8.
    const std::int64_t rest = prefix_bytes > 0 ? 2 * 8 + 2 * 22 : 2 * 350;
    EXPECT_EQ(host.stats().prefill_rows, 350 + rest);
  }
}

TEST(ModelHost, GreedyChoicesAreEqual) {
  ModelHost host(MakeTestEngine(), {});
  const auto sink = std::make_shared<RecordingJob>();
  Job job = MakeJob(MakeTestIds(30, 1), 12, sink);
  job.n = 3;
  MustSubmit(host, std::move(job));
  sink->WaitEnd();
  EXPECT_EQ(sink->choice(0).text, sink->choice(1).text);
  EXPECT_EQ(sink->choice(0).text, sink->choice(2).text);
  EXPECT_EQ(sink->choice(2).ends, 1);
}

TEST(ModelHost, WithoutASeedAnswersDiffer) {
  ModelHost host(MakeTestEngine(), {});
  std::string texts[2];
  for (std::string& text : texts) {
    const auto sink = std::make_shared<RecordingJob>();
    Job job = MakeJob(MakeTestIds(30, 1), 30, sink, {.temperature = 2});
    job.random_seed = true;
    job.answer.logit_bias = kNoStop;
    MustSubmit(host, std::move(job));
    sink->WaitEnd();
    text = sink->choice(0).text;
  }
  EXPECT_NE(texts[0], texts[1]);
}

TEST(ModelHost, TheNextTurnComputesOnlyTheDifference) {
  const auto twin = MakeTestEngine();
  ModelHost host(MakeTestEngine(), {});
  Ids ids = MakeTestIds(150, 1);
  const auto first = std::make_shared<RecordingJob>();
  MustSubmit(host, MakeJob(ids, 5, first));
  first->WaitEnd();
  EXPECT_EQ(first->usage().cached_tokens, 0);
  const Ids more = MakeTestIds(40, 9);
  ids.insert(ids.end(), more.begin(), more.end());
  const auto second = std::make_shared<RecordingJob>();
  MustSubmit(host, MakeJob(ids, 5, second));
  second->WaitEnd();
  EXPECT_EQ(second->usage().prompt_tokens, 190);
  EXPECT_EQ(second->usage().cached_tokens, 128);
  EXPECT_EQ(host.stats().prefill_rows, 150 + 190 - 128);
  EXPECT_EQ(host.stats().cached_tokens, 128);
  ExpectAnswer(*second, Alone(*twin, ids, {}, 5));
}

TEST(ModelHost, WhatComesAtTheSameTimeComputesItsCommonBeginningOnce) {
  const auto twin = MakeTestEngine();
  ModelHost host(MakeTestEngine(), {.max_parallel = 6, .chunks = {.max_rows = 32}});
  Gate gate;
  const auto first = std::make_shared<RecordingJob>();
  first->on_answer = [&](std::int64_t, const AnswerEvent&) {
    gate.Pass();
    return true;
  };
  MustSubmit(host, MakeJob(MakeTestIds(5, 1), 3, first));
  gate.WaitReached();
  std::vector<Ids> prompts;
  std::vector<Sink> sinks;
  for (std::size_t i = 0; i < 5; ++i) {
    // The last has the same beginning, but much more behind it.
    Ids ids = MakeTestIds(256, 2);
    const Ids own = MakeTestIds(i == 4 ? 300 : 10, 20 + i);
    ids.insert(ids.end(), own.begin(), own.end());
    prompts.push_back(ids);
    sinks.push_back(std::make_shared<RecordingJob>());
    MustSubmit(host, MakeJob(ids, 5, sinks[i]));
  }
  gate.Open();
  for (std::size_t i = 0; i < 5; ++i) {
    sinks[i]->WaitEnd();
    ExpectAnswer(*sinks[i], Alone(*twin, prompts[i], {}, 5));
    EXPECT_TRUE(i == 4 || sinks[i]->usage().cached_tokens == (i == 0 ? 0 : 256)) << i;
  }
  first->WaitEnd();
  const std::int64_t last_rows = 556 - sinks[4]->usage().cached_tokens;
  EXPECT_EQ(host.stats().prefill_rows, 5 + 266 + 3 * 10 + last_rows);
}

TEST(ModelHost, EndsByStopStringLimitAndFullContext) {
  const auto twin = MakeTestEngine(60, 0);
  ModelHost host(MakeTestEngine(60), {});
  const Ids ids = MakeTestIds(20, 1);
  const auto whole = Alone(*twin, ids, HotSampler(3), 30);
  ASSERT_GT(whole.text.size(), 8U);
  const std::string stop = PlainPart(whole.text);
  ASSERT_NE(stop, "");
  const auto stopped = std::make_shared<RecordingJob>(), full = std::make_shared<RecordingJob>(),
             nothing = std::make_shared<RecordingJob>();
  Job job = MakeJob(ids, 30, stopped, HotSampler(3));
  job.answer.stop = {stop};
  MustSubmit(host, std::move(job));
  stopped->WaitEnd();
  ExpectAnswer(*stopped, Alone(*twin, ids, HotSampler(3), 30, {stop}));
  EXPECT_EQ(stopped->choice(0).reason, AnswerEndReason::kStop);

  Job endless = MakeJob(MakeTestIds(50, 2), 0, full);
  endless.answer.max_tokens.reset();
  endless.answer.logit_bias = kNoStop;
  MustSubmit(host, std::move(endless));
  full->WaitEnd();
  EXPECT_EQ(full->choice(0).reason, AnswerEndReason::kLength);
  EXPECT_EQ(full->usage().completion_tokens, 11);  // of the positions 50 to 60

  ASSERT_TRUE(host.WaitIdle(std::chrono::minutes(1)));
  const std::int64_t rows = host.stats().prefill_rows;
  MustSubmit(host, MakeJob(MakeTestIds(30, 7), 0, nothing));
  nothing->WaitEnd();
  EXPECT_EQ(nothing->choice(0).reason, AnswerEndReason::kLength);
  EXPECT_EQ(nothing->choice(0).text, "");
  EXPECT_EQ(nothing->usage().prompt_tokens, 30);
  EXPECT_EQ(nothing->usage().completion_tokens, 0);
  EXPECT_FALSE(nothing->usage().first_token_seconds.has_value());
  EXPECT_EQ(host.stats().prefill_rows, rows) << "nothing is computed for nobody";
}

TEST(ModelHost, ManyPromptsOfOneJobHoldUpNobody) {
  ModelHost host(MakeTestEngine(), {.max_parallel = 1});
  const auto big = std::make_shared<RecordingJob>();
  std::vector<int> order;  // of the thread of the host
  Gate gate;
  big->on_answer = [&](std::int64_t choice, const AnswerEvent& event) {
    if (choice == 0) gate.Pass();
    if (std::holds_alternative<AnswerEnd>(event)) order.push_back(0);
    return true;
  };
  Job job = MakeJob(MakeTestIds(9, 0), 4, big);
  for (std::size_t i = 1; i < 20; ++i) job.prompts.push_back(IdsPrompt(MakeTestIds(9, i)));
  MustSubmit(host, std::move(job));
  gate.WaitReached();
  std::vector<Sink> small;
  for (int i = 1; i <= 2; ++i) {
    small.push_back(std::make_shared<RecordingJob>());
    small.back()->on_answer = [&order, i](std::int64_t, const AnswerEvent& event) {
      if (std::holds_alternative<AnswerEnd>(event)) order.push_back(i);
      return true;
    };
    Job two = MakeJob(MakeTestIds(9, 50), 4, small.back());
    two.prompts.push_back(IdsPrompt(MakeTestIds(9, 60)));
    MustSubmit(host, std::move(two));
  }
  gate.Open();
  big->WaitEnd();
  for (const Sink& sink : small) sink->WaitEnd();
  ASSERT_EQ(order.size(), 24U);
  order.resize(9);
  // In turn, once all three are there; the big one had begun.
  EXPECT_EQ(order, (std::vector<int>{0, 0, 1, 2, 0, 1, 2, 0, 0}));
}

TEST(ModelHost, DrainFinishesWhatWasTakenAndStopCancelsIt) {
  ModelHost host(MakeTestEngine(), {.max_parallel = 1});
  const auto runs = std::make_shared<RecordingJob>(), waits = std::make_shared<RecordingJob>(),
             late = std::make_shared<RecordingJob>();
  MustSubmit(host, MakeJob(MakeTestIds(20, 1), 30, runs));
  MustSubmit(host, MakeJob(MakeTestIds(20, 2), 30, waits));
  host.Drain();
  EXPECT_EQ(host.Submit(MakeJob(MakeTestIds(20, 3), 30, late)).refusal, Refusal::kDraining);
  EXPECT_EQ(host.Check().refusal, Refusal::kDraining);
  ASSERT_TRUE(host.WaitIdle(std::chrono::minutes(5)));
  EXPECT_EQ(runs->code(), Code::kOk);
  EXPECT_EQ(waits->code(), Code::kOk);
  EXPECT_EQ(waits->choice(0).ends, 1);
  EXPECT_FALSE(late->over());
  EXPECT_TRUE(host.stats().draining);

  ModelHost other(MakeTestEngine(), {.max_parallel = 1});
  const auto long_one = std::make_shared<RecordingJob>(), queued = std::make_shared<RecordingJob>();
  Gate gate;
  long_one->on_answer = [&](std::int64_t, const AnswerEvent&) {
    gate.Pass();
    return true;
  };
  Job job = MakeJob(MakeTestIds(20, 1), 600, long_one, HotSampler(7));
  job.answer.logit_bias = kNoStop;
  MustSubmit(other, std::move(job));
  MustSubmit(other, MakeJob(MakeTestIds(20, 2), 30, queued));
  gate.WaitReached();
  std::thread opens([&] {
    while (!other.stats().draining) std::this_thread::yield();
    gate.Open();
  });
  other.Stop();
  opens.join();
  EXPECT_TRUE(long_one->over() && queued->over());
  EXPECT_EQ(long_one->code(), Code::kCancelled);
  EXPECT_EQ(queued->code(), Code::kCancelled);
  EXPECT_EQ(queued->events(0), 0);
  EXPECT_EQ(other.Submit(MakeJob(MakeTestIds(20, 3), 30, late)).refusal, Refusal::kDraining);
  other.Stop();
}

TEST(ModelHost, ASinkThatNobodyReadsCancelsItsJob) {
  const auto twin = MakeTestEngine();
  ModelHost host(MakeTestEngine(), {});
  const auto gone = std::make_shared<RecordingJob>(), stays = std::make_shared<RecordingJob>();
  gone->on_answer = [](std::int64_t, const AnswerEvent&) { return false; };
  Job job = MakeJob(MakeTestIds(20, 1), 600, gone, HotSampler(7));
  job.answer.logit_bias = kNoStop;
  job.n = 2;
  MustSubmit(host, std::move(job));
  MustSubmit(host, MakeJob(MakeTestIds(20, 2), 40, stays, HotSampler(5)));
  gone->WaitEnd();
  EXPECT_EQ(gone->code(), Code::kCancelled);
  EXPECT_EQ(gone->events(0) + gone->events(1), 1);
  stays->WaitEnd();
  ExpectAnswer(*stays, Alone(*twin, MakeTestIds(20, 2), HotSampler(5), 40));
}

TEST(ModelHost, ProgressThatNobodyReadsCancelsToo) {
  ModelHost host(MakeTestEngine(), {.progress_seconds = 0, .chunks = {.max_rows = 8}});
  const auto sink = std::make_shared<RecordingJob>();
  sink->on_progress = [](std::int64_t) { return false; };
  MustSubmit(host, MakeJob(MakeTestIds(600, 1), 5, sink));
  sink->WaitEnd();
  EXPECT_EQ(sink->code(), Code::kCancelled);
  EXPECT_EQ(sink->progress().size(), 1U);
}

TEST(ModelHost, ProgressGoesUpAndComesNowAndThen) {
  std::atomic<int> ticks{0};
  ModelHost host(MakeTestEngine(), {.progress_seconds = 0.5,
                                    .chunks = {.max_rows = 8},
                                    .clock = [&] { return 0.01 * ++ticks; }});
  const auto sink = std::make_shared<RecordingJob>();
  MustSubmit(host, MakeJob(MakeTestIds(600, 1), 5, sink));
  sink->WaitEnd();
  const auto& progress = sink->progress();
  ASSERT_GE(progress.size(), 2U);
  EXPECT_LE(progress.size(), 15U);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_GT(progress.back().first, progress.front().first);
  for (const auto& [done, total] : progress) EXPECT_EQ(total, 600);
}

TEST(ModelHost, ASinkMaySubmitAndCancel) {
  ModelHost host(MakeTestEngine(), {});
  const auto first = std::make_shared<RecordingJob>(), second = std::make_shared<RecordingJob>();
  std::atomic<JobId> id{0};
  Gate known;
  first->on_answer = [&](std::int64_t, const AnswerEvent&) {
    known.Pass();
    if (first->events(0) == 1) MustSubmit(host, MakeJob(MakeTestIds(9, 1), 3, second));
    if (first->events(0) == 2) host.Cancel(id);
    host.stats();
    return true;
  };
  Job job = MakeJob(MakeTestIds(9, 0), 600, first, HotSampler(7));
  job.answer.logit_bias = kNoStop;
  id = MustSubmit(host, std::move(job));
  known.Open();
  first->WaitEnd();
  EXPECT_EQ(first->code(), Code::kCancelled);
  EXPECT_EQ(first->events(0), 2);
  second->WaitEnd();
  EXPECT_EQ(second->code(), Code::kOk);
}

TEST(ModelHost, RefusesWhatCannotRun) {
  ModelHost host(MakeTestEngine(60), {});
  const auto sink = std::make_shared<RecordingJob>();
  EXPECT_EQ(host.Submit(MakeJob({}, 5, sink)).error.part, RequestPart::kPrompt);
  EXPECT_EQ(host.Submit(MakeJob({kTestVocab}, 5, sink)).error.part, RequestPart::kPrompt);
  const Submission too_long = host.Submit(MakeJob(MakeTestIds(61, 1), 5, sink));
  EXPECT_EQ(too_long.error.kind, RequestError::Kind::kContext);
  EXPECT_EQ(too_long.error.n_prompt, 61);
  EXPECT_EQ(too_long.error.n_ctx, 60);
  Job biased = MakeJob({5}, 5, sink);
  biased.answer.logit_bias = {{kTestVocab, 1.0}};
  EXPECT_EQ(host.Submit(std::move(biased)).error.part, RequestPart::kLogitBias);
  Job infinite = MakeJob({5}, 5, sink);
  infinite.answer.logit_bias = {{1, INFINITY}};
  EXPECT_EQ(host.Submit(std::move(infinite)).error.part, RequestPart::kLogitBias);
  Job stops = MakeJob({5}, 5, sink);
  stops.answer.stop = {"a", ""};
  EXPECT_EQ(host.Submit(std::move(stops)).error.part, RequestPart::kStop);
  Job empty;
  empty.sink = sink;
  EXPECT_EQ(host.Submit(std::move(empty)).refusal, Refusal::kRequest);
  Job none = MakeJob({5}, 5, sink);
  none.n = 0;
  EXPECT_EQ(host.Submit(std::move(none)).refusal, Refusal::kRequest);
  EXPECT_EQ(host.Submit(MakeJob({5}, 5, nullptr)).refusal, Refusal::kRequest);
  EXPECT_FALSE(sink->over());
}

// A grammar over another vocabulary is an error that only shows when a token is chosen.
TEST(ModelHost, AnErrorOfOneJobEndsThatJobAlone) {
  const auto twin = MakeTestEngine();
  auto text = runtime::LoadText(HONE_SHARED_DATA "/golden/families/llama-gqa8/hf", nullptr);
  ASSERT_TRUE(text.ok());
  auto other = runtime::Engine::FromModel(runtime::MakeTinyModel({.vocab = 650}), *std::move(text),
                                          {.num_threads = 1}, "other");
  ASSERT_TRUE(other.ok());
  auto vocabulary = runtime::MakeVocabulary(**other);
  ASSERT_TRUE(vocabulary.ok());
  auto matcher = bridge::TokenMatcher::Compile(*vocabulary, {bridge::GrammarKind::kRegex, "a+"});
  ASSERT_TRUE(matcher.ok()) << matcher.message();
  ModelHost host(MakeTestEngine(), {});
  const auto good = std::make_shared<RecordingJob>(), bad = std::make_shared<RecordingJob>();
  MustSubmit(host, MakeJob(MakeTestIds(20, 1), 40, good, HotSampler(2)));
  Job job = MakeJob(MakeTestIds(20, 2), 40, bad);
  job.n = 2;
  job.prompts[0].plan.matcher = std::make_shared<bridge::TokenMatcher>(*std::move(matcher));
  MustSubmit(host, std::move(job));
  bad->WaitEnd();
  EXPECT_NE(bad->code(), Code::kOk);
  EXPECT_NE(bad->code(), Code::kCancelled);
  EXPECT_NE(bad->message().find("vocabulary"), std::string::npos) << bad->message();
  EXPECT_EQ(bad->choice(0).ends, 0);
  good->WaitEnd();
  ExpectAnswer(*good, Alone(*twin, MakeTestIds(20, 1), HotSampler(2), 40));
  ASSERT_TRUE(host.WaitIdle(std::chrono::minutes(1)));
  EXPECT_EQ(host.stats().failed, 1);
}

bool NoMemory() { throw std::bad_alloc(); }

// A sink that gets no memory in one of its events.
struct Shortage {
  const char* name;
  void (*set)(RecordingJob& sink);
  bool echo = false, logprobs = false;
  std::int64_t tokens = 40;
  int events = 0;  // of the job
};
const Shortage kShortages[] = {
    {.name = "the first piece of an answer",
     .set =
         [](RecordingJob& sink) { sink.on_answer = [](auto, const auto&) { return NoMemory(); }; },
     .events = 1},
    {.name = "the end of an answer",
     .set =
         [](RecordingJob& sink) {
           sink.on_answer = [](auto, const AnswerEvent& event) {
             return !std::holds_alternative<AnswerEnd>(event) || NoMemory();
           };
         },
     .tokens = 1,
     .events = 2},
    {.name = "the end of an answer without tokens",
     .set =
         [](RecordingJob& sink) { sink.on_answer = [](auto, const auto&) { return NoMemory(); }; },
     .tokens = 0,
     .events = 1},
    {.name = "an echo", .set = [](RecordingJob& sink) { sink.on_echo = NoMemory; }, .echo = true},
    {.name = "an echo with scores",
     .set = [](RecordingJob& sink) { sink.on_echo = NoMemory; },
     .echo = true,
     .logprobs = true},
    {.name = "progress",
     .set = [](RecordingJob& sink) { sink.on_progress = [](auto) { return NoMemory(); }; }},
};

TEST(ModelHost, AJobThatGetsNoMemoryEndsAlone) {
  const auto twin = MakeTestEngine();
  const auto want = Alone(*twin, MakeTestIds(20, 1), HotSampler(2), 60);
  const auto later = Alone(*twin, MakeTestIds(300, 2), {}, 5);
  ModelHost host(MakeTestEngine(),
                 {.max_parallel = 3, .progress_seconds = 0, .chunks = {.max_rows = 8}});
  std::int64_t failed = 0;
  for (const Shortage& shortage : kShortages) {
    SCOPED_TRACE(shortage.name);
    const auto good = std::make_shared<RecordingJob>(), bad = std::make_shared<RecordingJob>(),
               next = std::make_shared<RecordingJob>();
    Gate both;
    good->on_answer = [&](std::int64_t, const AnswerEvent&) {
      both.Pass();
      return true;
    };
    MustSubmit(host, MakeJob(MakeTestIds(20, 1), 60, good, HotSampler(2)));
    shortage.set(*bad);
    // Another prompt each time: nothing of it is in the cache.
    const auto salt = static_cast<std::size_t>(10 + failed);
    Job job = MakeJob(MakeTestIds(300, salt), shortage.tokens, bad);
    job.n = 2;
    job.echo = shortage.echo;
    job.answer.logprobs = shortage.logprobs;
    job.answer.logit_bias = kNoStop;
    MustSubmit(host, std::move(job));
    both.Open();
    bad->WaitEnd();
    EXPECT_EQ(bad->code(), Code::kOutOfMemory) << bad->message();
    EXPECT_EQ(bad->events(0) + bad->events(1), shortage.events);
    good->WaitEnd();
    EXPECT_EQ(good->code(), Code::kOk) << good->message();
    ExpectAnswer(*good, want);
    MustSubmit(host, MakeJob(MakeTestIds(300, 2), 5, next));
    next->WaitEnd();
    ExpectAnswer(*next, later);
    ASSERT_TRUE(host.WaitIdle(std::chrono::minutes(1)));
    EXPECT_EQ(host.stats().failed, ++failed);
    EXPECT_EQ(host.stats().done, 2 * failed);
    EXPECT_EQ(host.stats().active_sequences + host.stats().waiting_jobs, 0);
  }
}

TEST(ModelHost, ASinkWithoutMemoryForItsEndIsLetGo) {
  ModelHost host(MakeTestEngine(), {});
  auto sink = std::make_shared<RecordingJob>();
  sink->on_end = [] { NoMemory(); };
  MustSubmit(host, MakeJob(MakeTestIds(20, 1), 5, sink));
  ASSERT_TRUE(host.WaitIdle(std::chrono::minutes(1)));
  EXPECT_EQ(sink->code(), Code::kOk);
  EXPECT_EQ(sink.use_count(), 1);
  const auto next = std::make_shared<RecordingJob>();
  MustSubmit(host, MakeJob(MakeTestIds(20, 1), 5, next));
  next->WaitEnd();
  EXPECT_EQ(next->code(), Code::kOk);
}

TEST(ModelHost, TheFamilyOfToolsIsTheOneOfTheFileUnlessAnotherIsAskedFor) {
  const auto engine = [] {
    runtime::TextSetup text;
    text.tool_family = "mistral";
    auto made = runtime::Engine::FromModel(runtime::MakeTinyModel(), std::move(text),
                                           {.num_threads = 1}, "tiny");
    EXPECT_TRUE(made.ok()) << made.message();
    return *std::move(made);
  };
  const ModelHost host(engine(), {});
  ASSERT_NE(host.model().family(), nullptr);
  EXPECT_EQ(host.model().family()->name, "mistral");
  const ModelHost other(engine(), {.tool_family = "hermes"});
  ASSERT_NE(other.model().family(), nullptr);
  EXPECT_EQ(other.model().family()->name, "hermes");
}

TEST(ModelHost, ManyThreadsSubmitAndCancel) {
  const auto twin = MakeTestEngine();
  std::vector<runtime::Generation> wants;
  for (std::size_t i = 0; i < 4; ++i) wants.push_back(Alone(*twin, MakeTestIds(70, i), {}, 6));
  ModelHost host(MakeTestEngine(), {.max_parallel = 3, .max_queue = 1000});
  std::vector<Sink> sinks(60);
  for (Sink& sink : sinks) sink = std::make_shared<RecordingJob>();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < sinks.size(); i += 3) {
        Job job = MakeJob(MakeTestIds(70, i % 4), 6, sinks[i]);
        job.n = 1 + static_cast<std::int64_t>(i % 3);
        const JobId id = MustSubmit(host, std::move(job));
        if (i % 5 == 0) host.Cancel(id);
        host.stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    sinks[i]->WaitEnd();
    if (i % 5 == 0) continue;  // it may have been too late
    EXPECT_EQ(sinks[i]->code(), Code::kOk) << sinks[i]->message();
    for (std::int64_t c = 0; c <= static_cast<std::int64_t>(i % 3); ++c) {
      ExpectAnswer(*sinks[i], wants[i % 4], c);
    }
  }
}

}  // namespace
}  // namespace hone::chat
