// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <thread>

#include "runtime/sampler.h"
#include "runtime/tiny_model.h"

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

Ids MakeIds(std::size_t count, std::size_t salt) {
  Ids ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * 31 + i * i * (7 + salt) + 5 * salt) % 97));
  }
  return ids;
}

std::unique_ptr<Engine> MakeEngine(int threads = 2, std::int64_t max_positions = 700) {
  auto engine = Engine::FromModel(MakeTinyModel({.max_positions = max_positions}), {},
                                  {.num_threads = threads, .compute = ComputeChoice::kQ8}, "tiny");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

SamplerOptions Hot(std::uint64_t seed) {
  return {.temperature = 1.5F, .top_p = 0.95F, .repetition_penalty = 1.1F, .seed = seed};
}

// Somebody who asks for tokens.
// Declare it before the batcher, which ends what is left.
struct Client {
  Client(Engine& engine, Ids ids, std::int64_t tokens, std::uint64_t seed)
      : prompt(std::move(ids)), limit(tokens), sampler(Hot(seed), {}) {
    auto made = engine.NewSequence();
    EXPECT_TRUE(made.ok()) << made.message();
    sequence = *std::move(made);
  }

  BatchRequest Request() {
    return {.sequence = sequence.get(),
            .prompt = prompt,
            .choose = [this](std::span<const float> logits,
                             std::span<const std::int32_t> history) -> std::optional<std::int32_t> {
              got.push_back(sampler.Sample(logits, history));
              if (static_cast<std::int64_t>(got.size()) == limit) return std::nullopt;
              return got.back();
            },
            .done =
                [this](const Result<FinishReason>& end) {
                  ++ends;
                  code = end.code();
                  message = end.message();
                  if (end.ok()) finish = FinishReasonName(*end);
                }};
  }

  Ids prompt;
  std::int64_t limit;
  Sampler sampler;
  std::unique_ptr<Sequence> sequence;
  Ids got;
  int ends = 0;
  Code code = Code::kInternal;
  std::string message, finish;
};

// The same tokens without a batcher.
Ids Alone(Engine& engine, const Ids& prompt, std::int64_t tokens, std::uint64_t seed) {
  Client client(engine, prompt, tokens, seed);
  std::vector<float> logits;
  Ids next = prompt;
  while (true) {
    const Status status = engine.Run(Step{{{client.sequence.get(), next}}}, &logits);
    EXPECT_TRUE(status.ok()) << status.message();
    const auto id = client.Request().choose(logits, client.sequence->tokens());
    if (!id || !status.ok()) return client.got;
    next = {*id};
  }
}

Batcher::RequestId Submit(Batcher& batcher, Client& client) {
  auto id = batcher.Submit(client.Request());
  EXPECT_TRUE(id.ok()) << id.message();
  return id.ok() ? *id : 0;
}

void RunAll(Batcher& batcher) {
  for (int i = 0; i < 5000 && batcher.Step(); ++i) {
  }
  EXPECT_FALSE(batcher.Step());
}

TEST(Batcher, GivesEveryRequestTheTokensThatItGetsAlone) {
  const auto engine = MakeEngine();
  // Steps of any length: chunks of every size.
  double now = 0;
  int call = 0;
  const auto clock = [&] { return now += 0.001 * (1 + call++ % 7); };
  const std::size_t lengths[] = {5, 300, 64, 1, 130, 401, 17};
  std::deque<Client> clients;
  Batcher batcher(*engine, {.max_active = 4, .clock = clock});
  for (std::size_t i = 0; i < std::size(lengths); ++i) {
    clients.emplace_back(*engine, MakeIds(lengths[i], i), 20 + static_cast<std::int64_t>(i), i);
  }
  for (Client& client : clients) {
    Submit(batcher, client);
    for (int i = 0; i < 3; ++i) batcher.Step();
  }
  RunAll(batcher);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    Client& client = clients[i];
    EXPECT_EQ(client.ends, 1);
    EXPECT_EQ(client.finish, "stop") << client.message;
    EXPECT_EQ(client.got, Alone(*engine, client.prompt, client.limit, i)) << i;
    // The last token is not fed back.
    EXPECT_EQ(client.sequence->size(),
              static_cast<std::int64_t>(client.prompt.size()) + client.limit - 1);
  }
}

TEST(Batcher, EveryStepDecodesATokenOfEveryoneWhoRunsWhileAPromptIsRead) {
  const auto engine = MakeEngine();
  Client a(*engine, MakeIds(4, 1), 500, 1), b(*engine, MakeIds(9, 2), 500, 2);
  Batcher batcher(*engine);
  Submit(batcher, a);
  Submit(batcher, b);
  batcher.Step();
  ASSERT_EQ(a.got.size(), 1U);
  ASSERT_EQ(b.got.size(), 1U);
  Client c(*engine, MakeIds(600, 3), 2, 3);
  Submit(batcher, c);
  for (std::size_t step = 2; c.got.empty() && step < 400; ++step) {
    ASSERT_TRUE(batcher.Step());
    ASSERT_EQ(a.got.size(), step);
    ASSERT_EQ(b.got.size(), step);
  }
  EXPECT_EQ(c.got.size(), 1U);
}

TEST(Batcher, PromptsShareStepsSoThatAShortOneDoesNotWaitForALongOne) {
  const auto engine = MakeEngine();
  Client first(*engine, MakeIds(690, 1), 1, 1), second(*engine, MakeIds(650, 2), 1, 2),
      third(*engine, MakeIds(20, 3), 1, 3);
  Batcher batcher(*engine);
  for (Client* client : {&first, &second, &third}) Submit(batcher, *client);
  batcher.Step();
  EXPECT_EQ(third.ends, 1);
  // 256 rows: 20 and equal shares of the rest.
  EXPECT_EQ(first.sequence->size(), 118);
  EXPECT_EQ(second.sequence->size(), 118);
  RunAll(batcher);
  EXPECT_EQ(first.ends + second.ends, 2);
}

TEST(Batcher, FewRowsGoRoundAmongThePrompts) {
  const auto engine = MakeEngine();
  std::deque<Client> clients;
  Batcher batcher(*engine, {.chunks = {.min_rows = 8, .max_rows = 8}});
  for (std::size_t i = 0; i < 5; ++i) clients.emplace_back(*engine, MakeIds(100, i), 1, i);
  for (Client& client : clients) Submit(batcher, client);
  for (int i = 0; i < 10; ++i) batcher.Step();
  for (const Client& client : clients) EXPECT_EQ(client.sequence->size(), 16);
}

TEST(Batcher, CancelEndsARequestWithinAStepAndLeavesTheOthersAlone) {
  const auto engine = MakeEngine();
  Client runs(*engine, MakeIds(20, 1), 60, 1), decodes(*engine, MakeIds(8, 2), 400, 2),
      reads(*engine, MakeIds(600, 3), 5, 3), waits(*engine, MakeIds(5, 4), 5, 4);
  Batcher batcher(*engine, {.max_active = 3, .chunks = {.max_rows = 64}});
  Submit(batcher, runs);
  const auto decoding = Submit(batcher, decodes);
  const auto reading = Submit(batcher, reads);
  const auto waiting = Submit(batcher, waits);
  for (int i = 0; i < 3; ++i) batcher.Step();
  const Batcher::Load load = batcher.load();
  EXPECT_EQ(load.waiting, 1);
  EXPECT_EQ(load.prefilling, 1);
  EXPECT_EQ(load.decoding, 2);
  struct {
    Client* client;
    Batcher::RequestId id;
  } cases[] = {{&waits, waiting}, {&reads, reading}, {&decodes, decoding}};
  for (auto& c : cases) {
    batcher.Cancel(c.id);
    batcher.Cancel(c.id);
    const std::size_t before = runs.got.size();
    EXPECT_TRUE(batcher.Step());
    EXPECT_EQ(c.client->ends, 1);
    EXPECT_EQ(c.client->finish, "cancelled");
    EXPECT_EQ(runs.got.size(), before + 1);
  }
  EXPECT_TRUE(waits.got.empty());
  EXPECT_LT(reads.sequence->size(), 600);
  EXPECT_EQ(decodes.sequence->size(), 8 + static_cast<std::int64_t>(decodes.got.size()) - 1);
  batcher.Cancel(12345);
  // A sequence whose request was cancelled can go on.
  Client again(*engine, MakeIds(5, 4), 5, 4);
  again.sequence = std::move(waits.sequence);
  Submit(batcher, again);
  RunAll(batcher);
  EXPECT_EQ(again.got, Alone(*engine, again.prompt, 5, 4));
  EXPECT_EQ(runs.got, Alone(*engine, runs.prompt, 60, 1));
  EXPECT_EQ(decodes.ends + reads.ends + waits.ends, 3);
}

TEST(Batcher, CancelStopsAStepOfOneRequestAlone) {
  const auto engine = MakeEngine();
  Client client(*engine, MakeIds(5, 1), 50, 1);
  Batcher batcher(*engine);
  BatchRequest request = client.Request();
  Batcher::RequestId id = 0;
  request.choose = [&, choose = request.choose](auto logits, auto history) {
    if (client.got.size() == 3) batcher.Cancel(id);  // from a callback
    return choose(logits, history);
  };
  auto submitted = batcher.Submit(std::move(request));
  ASSERT_TRUE(submitted.ok());
  id = *submitted;
  RunAll(batcher);
  EXPECT_EQ(client.got.size(), 4U);
  EXPECT_EQ(client.finish, "cancelled");
}

TEST(Batcher, ARequestThatCannotGoOnEndsAlone) {
  const auto engine = MakeEngine(2, 60);
  Client good(*engine, MakeIds(20, 1), 30, 1), full(*engine, MakeIds(50, 2), 30, 2),
      outside(*engine, {3, 97}, 5, 3), too_long(*engine, MakeIds(61, 4), 5, 4);
  Batcher batcher(*engine);
  for (Client* client : {&good, &full, &outside, &too_long}) Submit(batcher, *client);
  RunAll(batcher);
  EXPECT_EQ(good.finish, "stop") << good.message;
  EXPECT_EQ(good.got, Alone(*engine, good.prompt, 30, 1));
  EXPECT_EQ(full.finish, "length") << full.message;
  EXPECT_EQ(full.got.size(), 11U);  // of the positions 50 to 60
  EXPECT_EQ(full.sequence->size(), 60);
  EXPECT_EQ(outside.code, Code::kInvalidArgument);
  EXPECT_NE(outside.message.find("97"), std::string::npos) << outside.message;
  EXPECT_EQ(too_long.code, Code::kInvalidArgument);
  EXPECT_NE(too_long.message.find("61"), std::string::npos) << too_long.message;
  for (Client* client : {&good, &full, &outside, &too_long}) EXPECT_EQ(client->ends, 1);
}

// One who cannot be in the next step must not cost everyone else a step of their own.
TEST(Batcher, AFullContextOrABadChoiceLeavesOneEngineRunAStep) {
  const auto engine = MakeEngine(2, 60);
  std::deque<Client> others;
  Batcher batcher(*engine);
  for (std::size_t i = 0; i < 4; ++i) others.emplace_back(*engine, MakeIds(5, i), 40, i);
  Client full(*engine, MakeIds(50, 7), 100, 7), wrong(*engine, MakeIds(5, 8), 100, 8);
  for (Client& client : others) Submit(batcher, client);
  Submit(batcher, full);
  BatchRequest request = wrong.Request();
  request.choose = [&, choose = request.choose](auto logits, auto history) {
    return wrong.got.size() == 15 ? std::optional<std::int32_t>(97) : choose(logits, history);
  };
  ASSERT_TRUE(batcher.Submit(std::move(request)).ok());
  std::int64_t steps = 0;
  while (batcher.Step()) {
    ++steps;
    ASSERT_EQ(batcher.engine_runs(), steps);
  }
  EXPECT_EQ(full.finish, "length") << full.message;
  EXPECT_EQ(wrong.code, Code::kInvalidArgument);
  EXPECT_NE(wrong.message.find("97 is outside"), std::string::npos) << wrong.message;
  EXPECT_EQ(wrong.got.size(), 15U);
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(others[i].finish, "stop") << others[i].message;
    EXPECT_EQ(others[i].got, Alone(*engine, others[i].prompt, 40, i)) << i;
  }
  EXPECT_EQ(full.ends + wrong.ends, 2);
}

TEST(Batcher, SettingsBelowOneStillServeEveryone) {
  const auto engine = MakeEngine(1);
  for (const std::int64_t low : {std::int64_t{0}, std::int64_t{-7}}) {
    Client a(*engine, MakeIds(5, 1), 3, 1), b(*engine, MakeIds(4, 2), 3, 2);
    Batcher batcher(*engine, {.max_active = low, .chunks = {.min_rows = low, .max_rows = low}});
    Submit(batcher, a);
    Submit(batcher, b);
    RunAll(batcher);
    EXPECT_EQ(a.finish + b.finish, "stopstop");
  }
}

// A clock whose ticks are longer than the steps.
TEST(Batcher, APromptGoesOnWhereTheClockStandsStill) {
  const auto engine = MakeEngine(1);
  Client decodes(*engine, MakeIds(4, 1), 600, 1), reads(*engine, MakeIds(100, 2), 1, 2);
  Batcher batcher(*engine, {.clock = [] { return 5.0; }});
  Submit(batcher, decodes);
  batcher.Step();
  Submit(batcher, reads);
  for (int i = 0; i < 200 && reads.ends == 0; ++i) batcher.Step();
  EXPECT_EQ(reads.finish, "stop");
  EXPECT_EQ(decodes.ends, 0);
}

TEST(Batcher, RefusesWhatIsIncompleteOrTaken) {
  const auto engine = MakeEngine(1);
  Client client(*engine, MakeIds(5, 1), 5, 1);
  Batcher batcher(*engine);
  BatchRequest request = client.Request();
  request.prompt.clear();
  EXPECT_EQ(batcher.Submit(request).code(), Code::kInvalidArgument);
  request = client.Request();
  request.sequence = nullptr;
  EXPECT_EQ(batcher.Submit(request).code(), Code::kInvalidArgument);
  request = client.Request();
  request.choose = nullptr;
  EXPECT_EQ(batcher.Submit(request).code(), Code::kInvalidArgument);
  Submit(batcher, client);
  EXPECT_EQ(batcher.Submit(client.Request()).code(), Code::kInvalidArgument);
  RunAll(batcher);
  client.got.clear();
  Submit(batcher, client);  // ended: it may come again
  RunAll(batcher);
  EXPECT_EQ(client.ends, 2);
}

TEST(Batcher, EndsWhatIsLeftWhenItGoes) {
  const auto engine = MakeEngine(1);
  Client runs(*engine, MakeIds(5, 1), 50, 1), waits(*engine, MakeIds(5, 2), 50, 2),
      new_one(*engine, MakeIds(5, 3), 50, 3);
  {
    Batcher batcher(*engine, {.max_active = 1});
    Submit(batcher, runs);
    Submit(batcher, waits);
    batcher.Step();
    Submit(batcher, new_one);
  }
  for (Client* client : {&runs, &waits, &new_one}) {
    EXPECT_EQ(client->ends, 1);
    EXPECT_EQ(client->finish, "cancelled");
  }
}

TEST(Batcher, TakesRequestsAndCancelsFromOtherThreads) {
  const auto engine = MakeEngine();
  std::deque<Client> clients;
  for (std::size_t i = 0; i < 24; ++i) {
    clients.emplace_back(*engine, MakeIds(10 + 13 * i, i), i % 3 == 0 ? 400 : 6, i);
  }
  std::array<std::atomic<bool>, 24> told{};
  Batcher batcher(*engine, {.max_active = 6});
  std::atomic<int> threads_left{3};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < clients.size(); i += 3) {
        BatchRequest request = clients[i].Request();
        // Does not end by itself while this thread waits for its turn.
        request.choose = [&, i, choose = request.choose](auto logits, auto history) {
          if (i % 3 == 0 && clients[i].got.size() == 5) told[i].wait(false);
          return choose(logits, history);
        };
        const auto id = batcher.Submit(std::move(request));
        EXPECT_TRUE(id.ok()) << id.message();
        std::this_thread::yield();
        if (i % 3 == 0) batcher.Cancel(id.ok() ? *id : 0);
        told[i] = true;
        told[i].notify_all();
        batcher.load();
      }
      --threads_left;
    });
  }
  while (batcher.Step() || threads_left.load() > 0) {
    batcher.Wait(std::chrono::milliseconds(1));
  }
  for (std::thread& thread : threads) thread.join();
  RunAll(batcher);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(clients[i].ends, 1);
    if (i % 3 == 0) {
      EXPECT_EQ(clients[i].finish, "cancelled");
    } else {
      EXPECT_EQ(clients[i].got, Alone(*engine, clients[i].prompt, 6, i)) << i;
    }
  }
}

// A client whose request guesses tokens.
struct Guesser {
  // known: text that the answer may repeat.
  Guesser(Client& asks, const Ids& known, Speculation mode = Speculation::kOn)
      : client(asks), speculator(mode, 1000) {
    for (const std::int32_t id : known) speculator.Append(id);
  }
  BatchRequest Request() {
    BatchRequest request = client.Request();
    request.speculator = &speculator;
    return request;
  }

  Client& client;
  Speculator speculator;
};

Ids Join(const Ids& a, const Ids& b) {
  Ids all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// With every fifth token changed: guesses that begin well.
Ids SpoilSome(Ids ids) {
  for (std::size_t i = 4; i < ids.size(); i += 5) ids[i] = (ids[i] + 1) % 97;
  return ids;
}

TEST(Batcher, GuessedTokensChangeTheSpeedOnly) {
  const auto engine = MakeEngine();
  constexpr std::int64_t kTokens = 60;
  const Ids prompt = MakeIds(30, 1);
  const Ids want = Alone(*engine, prompt, kTokens, 1);
  const Ids right = Join(prompt, want);
  const Ids other = Join(prompt, Alone(*engine, prompt, kTokens, 2));
  for (const Ids& known : {Ids{}, right, SpoilSome(right), other}) {
    for (const Speculation mode : {Speculation::kOn, Speculation::kAuto, Speculation::kOff}) {
      Client client(*engine, prompt, kTokens, 1);
      Guesser guesser(client, known, mode);
      Batcher batcher(*engine);
      ASSERT_TRUE(batcher.Submit(guesser.Request()).ok());
      RunAll(batcher);
      EXPECT_EQ(client.got, want);
      EXPECT_EQ(client.ends, 1);
      EXPECT_EQ(client.finish, "stop");
      EXPECT_EQ(Ids(client.sequence->tokens().begin(), client.sequence->tokens().end()),
                Join(prompt, Ids(want.begin(), want.end() - 1)));
      const SpeculationCounts& counts = batcher.speculation();
      EXPECT_LE(counts.accepted, counts.drafted);
      // Every accepted token saves a run.
      EXPECT_EQ(batcher.engine_runs() + counts.accepted, kTokens);
      EXPECT_TRUE(mode != Speculation::kOff || counts.steps == 0);
      if (mode != Speculation::kOn || known.empty()) continue;
      EXPECT_GT(counts.drafted, 0);
      EXPECT_TRUE(known != right || batcher.engine_runs() <= 1 + 8 + 2) << batcher.engine_runs();
      if (known == SpoilSome(right)) {
        EXPECT_GT(counts.accepted, 0);
        EXPECT_LT(counts.accepted, counts.drafted);
      }
    }
  }
}

// What was cut off the sequence is not in what is computed behind it.
TEST(Batcher, ASequenceThatHadGuessesGoesOnAsOneWithout) {
  const auto engine = MakeEngine();
  const Ids prompt = MakeIds(30, 1), more = MakeIds(9, 5);
  const Ids want = Alone(*engine, prompt, 25, 1);
  const Ids computed = Join(prompt, Ids(want.begin(), want.end() - 1));
  Client client(*engine, prompt, 25, 1);
  Guesser guesser(client, SpoilSome(Join(prompt, Join(want, MakeIds(20, 8)))));
  Batcher batcher(*engine);
  ASSERT_TRUE(batcher.Submit(guesser.Request()).ok());
  RunAll(batcher);
  ASSERT_GT(batcher.speculation().drafted, batcher.speculation().accepted);
  Client next(*engine, more, 10, 3);
  next.sequence = std::move(client.sequence);
  Submit(batcher, next);
  RunAll(batcher);
  EXPECT_EQ(next.got, Alone(*engine, Join(computed, more), 10, 3));
}

TEST(Batcher, GuessesStopAtTheEndOfTheContextAndOfTheAnswer) {
  const auto engine = MakeEngine(2, 60);
  const Ids prompt = MakeIds(30, 2);
  for (const std::int64_t tokens : {1, 2, 3, 5, 9, 10, 11, 17, 29, 30, 31, 100}) {
    Client plain(*engine, prompt, tokens, 4), client(*engine, prompt, tokens, 4);
    Batcher batcher(*engine);
    Submit(batcher, plain);
    RunAll(batcher);
    // The right answer, and it goes on behind the end.
    Guesser guesser(client, Join(prompt, Join(plain.got, MakeIds(20, 3))));
    const std::int64_t before = batcher.engine_runs();
    ASSERT_TRUE(batcher.Submit(guesser.Request()).ok());
    RunAll(batcher);
    // No run failed.
    EXPECT_EQ(batcher.engine_runs() - before + batcher.speculation().accepted,
              static_cast<std::int64_t>(client.got.size()));
    EXPECT_EQ(client.got, plain.got) << tokens;
    EXPECT_EQ(client.finish, plain.finish) << client.message;
    EXPECT_EQ(client.finish, tokens <= 31 ? "stop" : "length");
    EXPECT_EQ(client.sequence->size(), plain.sequence->size()) << tokens;
    EXPECT_EQ(client.sequence->size(), std::min<std::int64_t>(30 + tokens - 1, 60));
    EXPECT_TRUE(tokens < 9 || batcher.speculation().accepted > 0) << tokens;
  }
}

TEST(Batcher, NobodyWaitsForGuessesOfOthers) {
  const auto engine = MakeEngine();
  const Ids prompt = MakeIds(30, 1);
  const Ids want = Alone(*engine, prompt, 200, 1);
  Client client(*engine, prompt, 200, 1), decodes(*engine, MakeIds(9, 2), 20, 2),
      reads(*engine, MakeIds(60, 3), 1, 3);
  Guesser guesser(client, Join(prompt, want));
  Batcher batcher(*engine, {.chunks = {.max_rows = 64}});
  ASSERT_TRUE(batcher.Submit(guesser.Request()).ok());
  Submit(batcher, decodes);
  while (decodes.ends == 0) {
    batcher.Step();
    ASSERT_EQ(batcher.speculation().drafted, 0);
  }
  ASSERT_EQ(client.got.size(), 20U);
  Submit(batcher, reads);
  while (reads.ends == 0) {
    batcher.Step();
    ASSERT_EQ(batcher.speculation().drafted, 0);
  }
  ASSERT_EQ(client.ends, 0);
  RunAll(batcher);
  EXPECT_GT(batcher.speculation().accepted, 0) << "alone it guesses";
  EXPECT_EQ(client.got, want);
  EXPECT_EQ(decodes.got, Alone(*engine, decodes.prompt, 20, 2));
}

TEST(Batcher, CancelAndBadChoicesEndARequestInsideItsGuesses) {
  const auto engine = MakeEngine();
  const Ids prompt = MakeIds(30, 1);
  const Ids want = Alone(*engine, prompt, 60, 1);
  for (std::size_t at = 1; at < 24; ++at) {
    for (const bool bad : {false, true}) {
      Client client(*engine, prompt, 60, 1);
      Guesser guesser(client, Join(prompt, want));
      Batcher batcher(*engine);
      BatchRequest request = guesser.Request();
      Batcher::RequestId id = 0;
      request.choose = [&, choose = request.choose](auto logits,
                                                    auto history) -> std::optional<std::int32_t> {
        EXPECT_EQ(history.size(), prompt.size() + client.got.size());
        const auto next = choose(logits, history);
        if (client.got.size() != at) return next;
        if (bad) return -1;
        batcher.Cancel(id);
        return next;
      };
      const auto submitted = batcher.Submit(std::move(request));
      ASSERT_TRUE(submitted.ok());
      id = *submitted;
      RunAll(batcher);
      EXPECT_EQ(client.ends, 1);
      EXPECT_EQ(client.got, Ids(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(at)));
      EXPECT_EQ(client.code, bad ? Code::kInvalidArgument : Code::kOk);
      EXPECT_EQ(client.finish, bad ? "" : "cancelled");
      EXPECT_EQ(client.sequence->size(), static_cast<std::int64_t>(30 + at - 1));
    }
  }
}

// There a token's result depends on its step.
TEST(Batcher, GuessesNothingWhereRopeFollowsTheLength) {
  auto model = MakeTinyModel();
  model::RopeTable& table = model.spec.ropes[0];
  table.by_length = model::RopeByLength{};
  table.by_length->original_positions = 40;
  table.by_length->long_inv_freq = table.inv_freq;
  auto engine = Engine::FromModel(std::move(model), {}, {.num_threads = 1}, "tiny");
  ASSERT_TRUE(engine.ok()) << engine.message();
  const Ids prompt = MakeIds(30, 1);
  const Ids want = Alone(**engine, prompt, 30, 1);
  Client client(**engine, prompt, 30, 1);
  Guesser guesser(client, Join(prompt, want));
  Batcher batcher(**engine);
  ASSERT_TRUE(batcher.Submit(guesser.Request()).ok());
  RunAll(batcher);
  EXPECT_EQ(client.got, want);
  EXPECT_EQ(batcher.speculation().steps, 0);
  EXPECT_EQ(batcher.engine_runs(), 30);
}

}  // namespace
}  // namespace hone::runtime
