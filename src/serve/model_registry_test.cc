// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/model_registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "serve/http_client.h"
#include "serve/server_test_util.h"

namespace hone::serve {
namespace {

using std::chrono::milliseconds;

std::unique_ptr<ModelRegistry> MakeRegistry(FakeModels& models, RegistryOptions options = {}) {
  if (!options.available_memory) {
    options.available_memory = []() -> std::optional<std::uint64_t> { return std::nullopt; };
  }
  auto registry = ModelRegistry::Create(models.Factory(), std::move(options));
  EXPECT_TRUE(registry.ok()) << registry.message();
  return *std::move(registry);
}

void MustAdd(ModelRegistry& registry, ModelEntry entry) {
  const Status added = registry.Add(std::move(entry));
  EXPECT_TRUE(added.ok()) << added.message();
}

struct Asked {
  std::shared_ptr<WaitingSink> sink = std::make_shared<WaitingSink>();
  std::shared_ptr<openai::RunningRequest> running;
};
Asked Ask(ModelRegistry& registry, const std::string& model, const std::string& content = "hi") {
  Asked asked;
  auto started = registry.Start(ChatOf(model, content), asked.sink);
  EXPECT_TRUE(started.ok());
  if (started.ok()) asked.running = *std::move(started);
  return asked;
}
// The text of an answer, or the code of its error.
std::string Answered(Asked asked) {
  EXPECT_TRUE(asked.sink->WaitForEnd());
  const auto error = asked.sink->error();
  return error ? error->code : asked.sink->text();
}

ModelCondition ConditionOf(const ModelRegistry& registry, const std::string& name) {
  const auto report = registry.Report(name);
  return report ? report->condition : ModelCondition::kUnloaded;
}

// A load that waits.
std::function<Status(const ModelEntry&)> WaitFor(std::promise<void>& go) {
  return [opened = go.get_future().share()](const ModelEntry&) {
    opened.wait();
    return Status();
  };
}

TEST(ModelRegistry, LoadsAModelWhenItIsAskedForAndOnlyOnce) {
  FakeModels models;
  const auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  MustAdd(*registry, models.MakeEntry("b"));
  EXPECT_EQ(models.opened("a"), 0);
  EXPECT_EQ(Answered(Ask(*registry, "b")), "b says hello");
  EXPECT_EQ(Answered(Ask(*registry, "b")), "b says hello");
  EXPECT_EQ(Answered(Ask(*registry, "a")), "a says hello");
  EXPECT_EQ(models.opened("a"), 1);
  EXPECT_EQ(models.opened("b"), 1);
}

TEST(ModelRegistry, ListsModelsBeforeAndAfterTheyAreLoaded) {
  FakeModels models;
  const auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  auto listed = registry->Models();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].id, "a");
  EXPECT_FALSE(listed[0].loaded);
  EXPECT_EQ(listed[0].context_tokens, 0);
  EXPECT_GT(listed[0].created, 1'600'000'000);
  Answered(Ask(*registry, "a"));
  listed = registry->Models();
  EXPECT_TRUE(listed[0].loaded);
  EXPECT_EQ(listed[0].context_tokens, 64);
  EXPECT_EQ(listed[0].fingerprint, "fp_a");
}

TEST(ModelRegistry, RefusesNamesThatAreTakenOrNone) {
  FakeModels models;
  const auto registry = MakeRegistry(models);
  ModelEntry entry = models.MakeEntry("a");
  MustAdd(*registry, entry);
  EXPECT_EQ(registry->Add(entry).code(), Code::kInvalidArgument);
  for (const std::string& name :
       {std::string(), std::string("a\nb"), std::string(200, 'x'), std::string("\xff")}) {
    entry.name = name;
    EXPECT_EQ(registry->Add(entry).code(), Code::kInvalidArgument) << name;
  }
  entry.name = "gone";
  entry.path += ".gone";
  EXPECT_EQ(registry->Add(entry).code(), Code::kNotFound);
}

TEST(ModelRegistry, AnUnknownModelIsAnErrorThatListsTheNames) {
  FakeModels models;
  const auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  MustAdd(*registry, models.MakeEntry("b"));
  Asked asked = Ask(*registry, "c");
  EXPECT_TRUE(asked.sink->WaitForEnd());
  ASSERT_TRUE(asked.sink->error().has_value());
  EXPECT_EQ(asked.sink->error()->http_status, 404);
  EXPECT_NE(asked.sink->error()->message.find("a, b"), std::string::npos);
}

TEST(ModelRegistry, RequestsWaitForTheLoadAndMoreThanTheBoundAreRefused) {
  FakeModels models;
  std::promise<void> go;
  models.on_load = WaitFor(go);
  const auto registry = MakeRegistry(models, {.max_waiting = 2});
  MustAdd(*registry, models.MakeEntry("a"));
  Asked first = Ask(*registry, "a");
  Asked second = Ask(*registry, "a");
  Asked third = Ask(*registry, "a");
  EXPECT_TRUE(third.sink->over());
  ASSERT_TRUE(third.sink->error().has_value());
  EXPECT_EQ(third.sink->error()->http_status, 503);
  EXPECT_EQ(third.sink->error()->code, "loading");
  EXPECT_GT(third.sink->error()->retry_after_seconds, 0);
  EXPECT_FALSE(first.sink->over());
  EXPECT_EQ(ConditionOf(*registry, "a"), ModelCondition::kLoading);
  EXPECT_EQ(registry->Report("a")->waiting, 2);
  go.set_value();
  EXPECT_EQ(Answered(first), "a says hello");
  EXPECT_EQ(Answered(second), "a says hello");
  EXPECT_EQ(models.opened("a"), 1);
}

TEST(ModelRegistry, ARequestThatIsCancelledWhileItWaitsNeverReachesTheModel) {
  FakeModels models;
  std::promise<void> go;
  models.on_load = WaitFor(go);
  const auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  Asked gone = Ask(*registry, "a", "hold gone");
  Asked kept = Ask(*registry, "a");
  EXPECT_EQ(registry->Report("a")->waiting, 2);
  gone.running->Cancel();
  gone.running->Cancel();
  EXPECT_EQ(registry->Report("a")->waiting, 1) << "its place is free";
  EXPECT_TRUE(gone.sink->over());
  EXPECT_EQ(Answered(gone), "cancelled");
  go.set_value();
  EXPECT_EQ(Answered(kept), "a says hello");
  EXPECT_EQ(models.num_held(), 0u);
}

TEST(ModelRegistry, CancelReachesARequestThatRuns) {
  FakeModels models;
  const auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  Asked asked = Ask(*registry, "a", "hold");
  const auto held = models.WaitForHeld(0);
  asked.running->Cancel();
  EXPECT_TRUE(Eventually([&] { return held->cancelled(); }));
  EXPECT_EQ(Answered(asked), "cancelled");
  asked.running->Cancel();  // after the end: nothing
}

TEST(ModelRegistry, ALoadThatFailsIsAnErrorForAllWhoWaitAndIsNotTriedAgainAtOnce) {
  FakeModels models;
  std::atomic<int> tries{0};
  std::promise<void> go;
  models.on_load = [&tries, opened = go.get_future().share()](const ModelEntry&) {
    opened.wait();
    ++tries;
    return Status(Code::kDataLoss, "the file is damaged");
  };
  const auto registry = MakeRegistry(models, {.retry_after = std::chrono::minutes(10)});
  MustAdd(*registry, models.MakeEntry("a"));
  Asked first = Ask(*registry, "a");
  Asked second = Ask(*registry, "a");
  go.set_value();
  EXPECT_EQ(Answered(first), "model_load_failed");
  EXPECT_EQ(Answered(second), "model_load_failed");
  EXPECT_NE(first.sink->error()->message.find("the file is damaged"), std::string::npos);
  EXPECT_EQ(first.sink->error()->http_status, 500);
  EXPECT_EQ(Answered(Ask(*registry, "a")), "model_load_failed");
  EXPECT_EQ(tries, 1) << "it was tried again at once";
}

TEST(ModelRegistry, ALoadThatFailedIsTriedAgainLater) {
  FakeModels models;
  std::atomic<int> tries{0};
  models.on_load = [&tries](const ModelEntry&) {
    return ++tries < 2 ? Status(Code::kDataLoss, "the file is damaged") : Status();
  };
  const auto registry = MakeRegistry(models, {.retry_after = milliseconds(1)});
  MustAdd(*registry, models.MakeEntry("a"));
  EXPECT_EQ(Answered(Ask(*registry, "a")), "model_load_failed");
  EXPECT_NE(registry->Report("a")->failure, "");
  EXPECT_TRUE(Eventually([&] { return Answered(Ask(*registry, "a")) == "a says hello"; }));
  EXPECT_EQ(registry->Report("a")->failure, "");
}

TEST(ModelRegistry, UnloadsAModelThatNobodyUsesAndLoadsItAgain) {
  FakeModels models;
  const auto registry = MakeRegistry(models, {.idle_unload = milliseconds(50)});
  MustAdd(*registry, models.MakeEntry("a"));
  EXPECT_EQ(Answered(Ask(*registry, "a")), "a says hello");
  EXPECT_TRUE(Eventually([&] { return models.closed("a") == 1; }));
  EXPECT_TRUE(Eventually([&] { return ConditionOf(*registry, "a") == ModelCondition::kUnloaded; }));
  EXPECT_FALSE(registry->Models()[0].loaded);
  EXPECT_EQ(registry->Models()[0].context_tokens, 64) << "what was known is still known";
  EXPECT_EQ(Answered(Ask(*registry, "a")), "a says hello");
  EXPECT_EQ(models.opened("a"), 2);
}

TEST(ModelRegistry, NeverUnloadsAModelWithARequest) {
  FakeModels models;
  const auto registry = MakeRegistry(models, {.idle_unload = milliseconds(30)});
  MustAdd(*registry, models.MakeEntry("a"));
  Asked asked = Ask(*registry, "a", "hold");
  const auto held = models.WaitForHeld(0);
  SleepMs(200);
  EXPECT_EQ(models.closed("a"), 0);
  EXPECT_TRUE(held->Say("still here"));
  held->Done();
  EXPECT_EQ(Answered(asked), "still here");
  EXPECT_TRUE(Eventually([&] { return models.closed("a") == 1; }));
}

TEST(ModelRegistry, LookingAtReportsDoesNotKeepAModelLoaded) {
  FakeModels models;
  const auto registry = MakeRegistry(models, {.idle_unload = milliseconds(60)});
  MustAdd(*registry, models.MakeEntry("a"));
  Answered(Ask(*registry, "a"));
  EXPECT_TRUE(Eventually([&] {
    registry->Reports();
    return models.closed("a") == 1;
  }));
}

// The machine of a test: a number of bytes, of which each loaded model takes some.
struct Machine {
  std::uint64_t total = 0;
  std::uint64_t each = 0;
  FakeModels* models = nullptr;
  std::vector<std::string> names;

  std::optional<std::uint64_t> Available() const {
    std::uint64_t used = 0;
    for (const std::string& name : names) {
      used += each * static_cast<std::uint64_t>(models->opened(name) - models->closed(name));
    }
    return total - std::min(used, total);
  }
};

TEST(ModelRegistry, UnloadsTheLongestUnusedModelIfAnotherNeedsItsMemory) {
  FakeModels models;
  const Machine machine = {
      .total = 300'000'000, .each = 100'000'000, .models = &models, .names = {"a", "b", "c", "d"}};
  const auto registry =
      MakeRegistry(models, {.available_memory = [&] { return machine.Available(); }});
  for (const std::string& name : machine.names) MustAdd(*registry, models.MakeEntry(name));
  for (const char* name : {"a", "b", "a", "c"}) {
    EXPECT_EQ(Answered(Ask(*registry, name)), StrCat(name, " says hello"));
    EXPECT_TRUE(Eventually([&] { return registry->Report(name)->requests == 0; }));
  }
  EXPECT_EQ(models.closed("a") + models.closed("b") + models.closed("c"), 0);
  EXPECT_EQ(Answered(Ask(*registry, "d")), "d says hello");
  EXPECT_EQ(models.closed("b"), 1) << "b was unused for longer than a";
  EXPECT_EQ(models.closed("a"), 0);
}

TEST(ModelRegistry, NoOtherModelGoesForTheLongestUnusedOneWhileThatStillBegins) {
  FakeModels models;
  std::promise<void> go;
  models.on_start = [opened = go.get_future().share()](const std::string& name) {
    if (name == "b") opened.wait();
  };
  const Machine machine = {
      .total = 300'000'000, .each = 100'000'000, .models = &models, .names = {"a", "b", "c", "d"}};
  const auto registry =
      MakeRegistry(models, {.available_memory = [&] { return machine.Available(); }});
  for (const std::string& name : machine.names) MustAdd(*registry, models.MakeEntry(name));
  for (const char* name : {"a", "b", "a", "c"}) {
    EXPECT_EQ(Answered(Ask(*registry, name)), StrCat(name, " says hello"));
    EXPECT_TRUE(Eventually([&] { return registry->Report(name)->requests == 0; }));
  }
  Asked asked = Ask(*registry, "d");
  SleepMs(50);
  EXPECT_FALSE(asked.sink->over());
  go.set_value();
  EXPECT_EQ(Answered(asked), "d says hello");
  EXPECT_EQ(models.closed("b"), 1);
  EXPECT_EQ(models.closed("a"), 0);
}

TEST(ModelRegistry, RefusesALoadThatHasNoRoomWhileAllModelsAreUsed) {
  FakeModels models;
  const Machine machine = {
      .total = 100'000'000, .each = 60'000'000, .models = &models, .names = {"a", "b"}};
  const auto registry =
      MakeRegistry(models, {.available_memory = [&] { return machine.Available(); }});
  for (const std::string& name : machine.names) MustAdd(*registry, models.MakeEntry(name));
  Asked busy = Ask(*registry, "a", "hold");
  const auto held = models.WaitForHeld(0);
  Asked refused = Ask(*registry, "b");
  EXPECT_EQ(Answered(refused), "out_of_memory");
  EXPECT_EQ(refused.sink->error()->http_status, 503);
  EXPECT_GT(refused.sink->error()->retry_after_seconds, 0);
  EXPECT_NE(refused.sink->error()->message.find("needs about 68 MB of memory, and 40 MB are left"),
            std::string::npos)
      << refused.sink->error()->message;
  held->Done();
  EXPECT_EQ(Answered(busy), "");
  // No waiting time after a lack of memory: it may be over at once.
  EXPECT_EQ(Answered(Ask(*registry, "b")), "b says hello");
  EXPECT_EQ(models.closed("a"), 1);
}

TEST(ModelRegistry, ALoadWaitsForTheMemoryOfAModelThatIsJustUnloaded) {
  FakeModels models;
  std::promise<void> go;
  models.on_close = [opened = go.get_future().share()](const std::string& name) {
    if (name == "a") opened.wait();
  };
  const Machine machine = {
      .total = 100'000'000, .each = 60'000'000, .models = &models, .names = {"a", "b"}};
  const auto registry = MakeRegistry(
      models,
      {.idle_unload = milliseconds(20), .available_memory = [&] { return machine.Available(); }});
  for (const std::string& name : machine.names) MustAdd(*registry, models.MakeEntry(name));
  EXPECT_EQ(Answered(Ask(*registry, "a")), "a says hello");
  EXPECT_TRUE(
      Eventually([&] { return ConditionOf(*registry, "a") == ModelCondition::kUnloading; }));
  Asked asked = Ask(*registry, "b");
  SleepMs(50);
  EXPECT_FALSE(asked.sink->over());
  go.set_value();
  EXPECT_EQ(Answered(asked), "b says hello");
}

TEST(ModelRegistry, WhatAModelComputedIsCountedOverAllItsLoads) {
  FakeModels models;
  const auto registry = MakeRegistry(models, {.idle_unload = milliseconds(20)});
  MustAdd(*registry, models.MakeEntry("a"));
  EXPECT_EQ(registry->Report("a")->work.runs, 0);
  for (const int loads : {1, 2}) {
    EXPECT_EQ(Answered(Ask(*registry, "a")), "a says hello");
    EXPECT_TRUE(
        Eventually([&] { return ConditionOf(*registry, "a") == ModelCondition::kUnloaded; }));
    const ModelWork work = registry->Report("a")->work;
    EXPECT_EQ(work.runs, 10 * loads);
    EXPECT_EQ(work.drafted_tokens, 20 * loads);
    EXPECT_EQ(work.accepted_tokens, 9 * loads);
  }
}

TEST(ModelRegistry, ALoadWaitsWhileSomebodyLooksAtAModelThatCouldGo) {
  FakeModels models;
  std::promise<void> go;
  std::atomic<bool> looks{false};
  models.on_look = [&looks, opened = go.get_future().share()](const std::string&) {
    looks = true;
    opened.wait();
  };
  const Machine machine = {
      .total = 100'000'000, .each = 60'000'000, .models = &models, .names = {"a", "b"}};
  const auto registry =
      MakeRegistry(models, {.available_memory = [&] { return machine.Available(); }});
  for (const std::string& name : machine.names) MustAdd(*registry, models.MakeEntry(name));
  EXPECT_EQ(Answered(Ask(*registry, "a")), "a says hello");
  std::thread looker([&] { registry->Reports(); });
  EXPECT_TRUE(Eventually([&] { return looks.load(); }));
  Asked asked = Ask(*registry, "b");
  SleepMs(50);
  EXPECT_FALSE(asked.sink->over());
  go.set_value();
  EXPECT_EQ(Answered(asked), "b says hello");
  looker.join();
  EXPECT_EQ(models.closed("a"), 1);
}

// The thread that began a request may be busy with it when the client knows the end already.
TEST(ModelRegistry, ALoadWaitsForAModelWhoseRequestIsOverButStillBegins) {
  for (const bool loaded_before : {true, false}) {
    FakeModels models;
    std::promise<void> go;
    std::atomic<bool> slow{!loaded_before};
    models.on_start = [&slow, opened = go.get_future().share()](const std::string& name) {
      if (name == "a" && slow) opened.wait();
    };
    const Machine machine = {
        .total = 100'000'000, .each = 60'000'000, .models = &models, .names = {"a", "b"}};
    std::atomic<int> looks{0};
    const auto registry = MakeRegistry(models, {.available_memory = [&] {
                                         ++looks;
                                         return machine.Available();
                                       }});
    for (const std::string& name : machine.names) MustAdd(*registry, models.MakeEntry(name));
    if (loaded_before) Answered(Ask(*registry, "a"));
    slow = true;
    Asked first = {};
    // Start itself takes its time if the model is there.
    std::thread asker([&] { EXPECT_TRUE(registry->Start(ChatOf("a", "hi"), first.sink).ok()); });
    EXPECT_EQ(Answered(first), "a says hello");
    const int before = looks;
    Asked second = Ask(*registry, "b");
    EXPECT_TRUE(Eventually([&] { return looks > before; }));
    SleepMs(50);
    EXPECT_FALSE(second.sink->over());
    go.set_value();
    EXPECT_EQ(Answered(second), "b says hello");
    asker.join();
    EXPECT_EQ(models.closed("a"), 1);
  }
}

// Looks at the registry when its request ends.
class LookingSink final : public openai::EventSink {
 public:
  explicit LookingSink(ModelRegistry& registry) : registry_(registry) {}
  bool OnEvent(const openai::Event&) override { return true; }
  void OnDone(const openai::Usage&) override { requests_ = registry_.Report("a")->requests; }
  void OnError(const openai::ApiError&) override { OnDone({}); }
  std::int64_t requests() const { return requests_; }

 private:
  ModelRegistry& registry_;
  std::int64_t requests_ = -1;
};

TEST(ModelRegistry, AModelIsFreeBeforeItsClientKnowsTheEnd) {
  FakeModels models;
  const auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  Answered(Ask(*registry, "a"));
  EXPECT_TRUE(Eventually([&] { return registry->Report("a")->requests == 0; }));
  const auto good = std::make_shared<LookingSink>(*registry);
  ASSERT_TRUE(registry->Start(ChatOf("a", "hold"), good).ok());
  models.WaitForHeld(0)->Done();
  EXPECT_EQ(good->requests(), 0);
  const auto bad = std::make_shared<LookingSink>(*registry);
  ASSERT_TRUE(registry->Start(ChatOf("a", "hold"), bad).ok());
  models.WaitForHeld(1)->Fail(openai::Internal("broken"));
  EXPECT_EQ(bad->requests(), 0);
}

TEST(ModelRegistry, LoadsTwoModelsAtOnce) {
  FakeModels models;
  std::atomic<int> inside{0};
  models.on_load = [&](const ModelEntry&) {
    ++inside;
    return Eventually([&] { return inside == 2; }) ? Status()
                                                   : Status(Code::kInternal, "one after the other");
  };
  const auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  MustAdd(*registry, models.MakeEntry("b"));
  Asked a = Ask(*registry, "a");
  Asked b = Ask(*registry, "b");
  EXPECT_EQ(Answered(a), "a says hello");
  EXPECT_EQ(Answered(b), "b says hello");
}

// Loads two models that do not fit together. looked is called after each look at the memory.
void ExpectOneLoadAfterTheOther(const std::function<void()>& looked) {
  FakeModels models;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  models.on_load = [&](const ModelEntry&) {
    most = std::max<int>(most, ++inside);
    SleepMs(50);
    --inside;
    return Status();
  };
  const Machine machine = {
      .total = 120'000'000, .each = 10'000'000, .models = &models, .names = {"a", "b"}};
  const auto registry = MakeRegistry(models, {.available_memory = [&] {
                                       const auto bytes = machine.Available();
                                       looked();
                                       return bytes;
                                     }});
  for (const std::string& name : machine.names) MustAdd(*registry, models.MakeEntry(name));
  Asked a = Ask(*registry, "a");
  Asked b = Ask(*registry, "b");
  EXPECT_EQ(Answered(a), "a says hello");
  EXPECT_EQ(Answered(b), "b says hello");
  EXPECT_EQ(most, 1) << "each needs 67 MB of 120 MB, so the second waits for the first";
}

TEST(ModelRegistry, DoesNotPromiseTheSameMemoryToTwoLoads) {
  ExpectOneLoadAfterTheOther([] {});
}

// Both loads have read the memory before either has a promise of it.
TEST(ModelRegistry, DoesNotPromiseTheSameMemoryToTwoLoadsThatLookAtOnce) {
  std::atomic<int> looks{0};
  ExpectOneLoadAfterTheOther([&] {
    ++looks;
    EXPECT_TRUE(Eventually([&] { return looks >= 2; }));
  });
}

// A load that ends after another has read the memory and before that one decides.
TEST(ModelRegistry, LooksAgainIfALoadEndedMeanwhile) {
  FakeModels models;
  const Machine machine = {
      .total = 160'000'000, .each = 100'000'000, .models = &models, .names = {"a", "b"}};
  ModelRegistry* all = nullptr;
  std::atomic<int> looks{0};
  const auto registry = MakeRegistry(models, {.available_memory = [&] {
                                       const auto bytes = machine.Available();
                                       if (++looks == 2) {
                                         EXPECT_TRUE(Eventually([&] {
                                           const auto a = all->Report("a");
                                           return a->loads == 1 && a->requests == 0;
                                         }));
                                       }
                                       return bytes;
                                     }});
  all = registry.get();
  std::atomic<bool> go{false};
  models.on_load = [&](const ModelEntry& entry) {
    if (entry.name == "a") {
      EXPECT_TRUE(Eventually([&] { return go.load(); }));
    } else {
      EXPECT_EQ(models.closed("a"), 1) << "60 MB are left beside a, b needs 67 MB";
    }
    return Status();
  };
  for (const std::string& name : machine.names) MustAdd(*registry, models.MakeEntry(name));
  Asked a = Ask(*registry, "a");
  EXPECT_TRUE(Eventually([&] { return looks == 1; }));
  Asked b = Ask(*registry, "b");
  EXPECT_TRUE(Eventually([&] { return looks == 2; }));
  go = true;
  EXPECT_EQ(Answered(a), "a says hello");
  EXPECT_EQ(Answered(b), "b says hello");
}

TEST(ModelRegistry, PreloadTriesAModelThatSeemsTooLargeAndSaysSo) {
  FakeModels models;
  std::promise<std::string> noted;
  const auto registry =
      MakeRegistry(models, {.available_memory = [] { return std::optional<std::uint64_t>(1'000); },
                            .log =
                                [&, first = true](const std::string& note) mutable {
                                  if (std::exchange(first, false)) noted.set_value(note);
                                }});
  MustAdd(*registry, models.MakeEntry("a"));
  std::promise<Code> loaded;
  registry->Preload("a", [&](const Status& status) { loaded.set_value(status.code()); });
  EXPECT_EQ(loaded.get_future().get(), Code::kOk);
  EXPECT_EQ(noted.get_future().get(),
            "a: needs about 68 MB of memory, and 1 MB are left; it is tried nevertheless");
}

// The load of a request has just been refused for want of memory; Preload does not mind.
TEST(ModelRegistry, PreloadThatJoinsALoadWithoutRoomTriesItAgain) {
  FakeModels models;
  ModelRegistry* all = nullptr;
  std::promise<Code> preloaded;
  const auto registry = MakeRegistry(
      models, {.available_memory = [] { return std::optional<std::uint64_t>(1'000); },
               .log =
                   [&](const std::string& note) {
                     if (note.find("cannot be loaded") == std::string::npos) return;
                     all->Preload(
                         "a", [&](const Status& status) { preloaded.set_value(status.code()); });
                   }});
  all = registry.get();
  MustAdd(*registry, models.MakeEntry("a"));
  EXPECT_EQ(Answered(Ask(*registry, "a")), "a says hello");
  EXPECT_EQ(preloaded.get_future().get(), Code::kOk);
  EXPECT_EQ(models.opened("a"), 1);
}

TEST(ModelRegistry, PreloadSaysWhyAModelCannotBeLoaded) {
  FakeModels models;
  models.on_load = [](const ModelEntry&) { return Status(Code::kDataLoss, "no magic"); };
  const auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  std::promise<std::string> told;
  registry->Preload("a", [&](const Status& status) {
    EXPECT_EQ(status.code(), Code::kDataLoss);
    told.set_value(std::string(status.message()));
  });
  EXPECT_EQ(told.get_future().get(), "no magic");
}

TEST(ModelRegistry, TextCallsWaitForALoadButNotForEver) {
  FakeModels models;
  std::promise<void> go;
  models.on_load = WaitFor(go);
  const auto registry = MakeRegistry(models, {.text_wait = milliseconds(50)});
  MustAdd(*registry, models.MakeEntry("a"));
  const auto early = registry->Tokenize({.model = "a", .text = "hi"});
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, "loading");
  EXPECT_EQ(early.error().http_status, 503);
  go.set_value();
  EXPECT_TRUE(Eventually([&] { return registry->Tokenize({.model = "a", .text = "hi"}).ok(); }));
  const auto tokens = registry->Tokenize({.model = "a", .text = "hi"});
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens->size(), 2u);
  const auto text = registry->Detokenize({.model = "a", .tokens = {104, 105}});
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "hi");
  EXPECT_EQ(registry->Tokenize({.model = "b", .text = "hi"}).error().code, "model_not_found");
}

TEST(ModelRegistry, TextCallsDoNotWaitAnyMoreOnceTheirWaitsAreEnded) {
  FakeModels models;
  std::promise<void> go;
  models.on_load = [opened = go.get_future().share()](const ModelEntry& entry) {
    if (entry.name == "a") opened.wait();
    return Status();
  };
  const auto registry = MakeRegistry(models, {.text_wait = std::chrono::minutes(1)});
  MustAdd(*registry, models.MakeEntry("a"));
  MustAdd(*registry, models.MakeEntry("b"));
  EXPECT_EQ(Answered(Ask(*registry, "b")), "b says hello");
  const auto code_of = [&](const std::string& name) {
    const auto tokens = registry->Tokenize({.model = name, .text = "hi"});
    return tokens.ok() ? std::string() : tokens.error().code;
  };
  auto waits = std::async(std::launch::async, [&] { return code_of("a"); });
  EXPECT_TRUE(Eventually([&] { return registry->Report("a")->waiting == 1; }));
  registry->EndTextWaits();
  EXPECT_EQ(waits.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(waits.get(), "draining");
  EXPECT_EQ(registry->Report("a")->waiting, 0);
  EXPECT_EQ(code_of("a"), "draining");
  EXPECT_EQ(code_of("b"), "");
  go.set_value();
}

TEST(ModelRegistry, FewThreadsWaitForALoadWithTextCalls) {
  FakeModels models;
  std::promise<void> go;
  models.on_load = WaitFor(go);
  const auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  std::atomic<int> refused{0};
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      openai::RenderRequest request;
      request.model = "a";
      ++(registry->Render(request).ok() ? good : refused);
    });
  }
  EXPECT_TRUE(Eventually([&] { return refused == 4; })) << refused;
  go.set_value();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 2);
}

std::string ImportNow(ModelRegistry& registry, ModelEntry entry) {
  std::promise<std::string> told;
  registry.Import(std::move(entry), [&](const openai::ApiResult<std::string>& name) {
    told.set_value(name.ok() ? *name : StrCat(name.error().param, ": ", name.error().message));
  });
  return told.get_future().get();
}

TEST(ModelRegistry, ImportsLoadTheModelAndFindAFreeName) {
  FakeModels models;
  const auto registry = MakeRegistry(models);
  ModelEntry entry = models.MakeEntry("a");
  EXPECT_EQ(ImportNow(*registry, entry), "a");
  EXPECT_EQ(ConditionOf(*registry, "a"), ModelCondition::kLoaded);
  EXPECT_EQ(ImportNow(*registry, entry), "a") << "it is there already";
  entry.context = 32;
  entry.thinking = true;
  EXPECT_EQ(ImportNow(*registry, entry), "a-2");
  EXPECT_EQ(registry->Report("a-2")->info.context_tokens, 32);
  EXPECT_TRUE(registry->Report("a-2")->facts.thinking);
  entry.context = 33;
  EXPECT_EQ(ImportNow(*registry, entry), "a-3");
  EXPECT_EQ(registry->Models().size(), 3u);
}

TEST(ModelRegistry, AnImportThatFailsLeavesNothingBehind) {
  FakeModels models;
  models.on_load = [](const ModelEntry&) { return Status(Code::kDataLoss, "no model"); };
  const auto registry = MakeRegistry(models);
  const std::string told = ImportNow(*registry, models.MakeEntry("a"));
  EXPECT_TRUE(told.starts_with("path: ")) << told;
  EXPECT_NE(told.find("no model"), std::string::npos) << told;
  EXPECT_TRUE(registry->Models().empty());
  const std::string gone = ImportNow(*registry, {.name = "b", .path = "/no/such/file.gguf"});
  EXPECT_NE(gone.find("no such file"), std::string::npos) << gone;
  EXPECT_TRUE(registry->Models().empty());
}

TEST(ModelRegistry, ImportsOfFilesWithOneNameAtOnceAllGetOne) {
  FakeModels models;
  const auto registry = MakeRegistry(models);
  constexpr int kThreads = 8;
  constexpr int kRounds = 30;
  std::vector<ModelEntry> entries;
  for (int i = 0; i < kThreads; ++i) entries.push_back(models.MakeEntry(StrCat("file", i)));
  std::atomic<int> failed{0};
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> there{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        ModelEntry entry = entries[static_cast<std::size_t>(i)];
        entry.name = StrCat("r", round);
        ++there;
        while (there < kThreads) std::this_thread::yield();
        const std::string told = ImportNow(*registry, entry);
        if (!told.starts_with(entry.name)) {
          ++failed;
          ADD_FAILURE() << told;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(registry->Models().size(), static_cast<std::size_t>(kThreads * kRounds));
}

TEST(ModelRegistry, ImportsOfOneBadFileAtOnceAllSayWhatIsWrongWithIt) {
  FakeModels models;
  models.on_load = [](const ModelEntry&) { return Status(Code::kDataLoss, "no model"); };
  const auto registry = MakeRegistry(models);
  const ModelEntry entry = models.MakeEntry("a");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const std::string told = ImportNow(*registry, entry);
        EXPECT_NE(told.find("no model"), std::string::npos) << told;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(registry->Models().empty());
}

TEST(ModelRegistry, AnImportThatFailsForgetsNoModelThatWasThere) {
  FakeModels models;
  models.on_load = [](const ModelEntry&) { return Status(Code::kDataLoss, "no model"); };
  const auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  EXPECT_NE(ImportNow(*registry, models.MakeEntry("a")).find("no model"), std::string::npos);
  ASSERT_EQ(registry->Models().size(), 1u);
  EXPECT_EQ(registry->Models()[0].id, "a");
}

TEST(ModelRegistry, EndsRequestsThatRunOrWaitWhenItEnds) {
  FakeModels models;
  std::atomic<bool> open{true};
  std::promise<void> go;
  models.on_load = [&open, opened = go.get_future().share()](const ModelEntry&) {
    if (!open) opened.wait();
    return Status();
  };
  auto registry = MakeRegistry(models);
  MustAdd(*registry, models.MakeEntry("a"));
  MustAdd(*registry, models.MakeEntry("b"));
  Asked runs = Ask(*registry, "a", "hold");
  models.WaitForHeld(0);
  open = false;
  Asked waits = Ask(*registry, "b", "hold");
  std::thread opener([&] {
    SleepMs(50);
    go.set_value();
  });
  registry.reset();
  opener.join();
  EXPECT_EQ(Answered(runs), "draining");
  EXPECT_EQ(Answered(waits), "draining");
  runs.running->Cancel();  // they outlive everything
  waits.running->Cancel();
  EXPECT_EQ(models.opened("a"), models.closed("a"));
  EXPECT_EQ(models.opened("b"), models.closed("b"));
}

TEST(ModelRegistry, ManyThreadsAskCancelAndLookWhileModelsComeAndGo) {
  FakeModels models;
  auto registry = MakeRegistry(models, {.idle_unload = milliseconds(1), .max_waiting = 8});
  for (const char* name : {"a", "b", "c"}) MustAdd(*registry, models.MakeEntry(name));
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const std::string name(1, static_cast<char>('a' + (t + i) % 3));
        Asked asked = Ask(*registry, name, i % 3 == 0 ? "hold" : "hi");
        if (i % 3 == 0) asked.running->Cancel();
        if (i % 7 == 0) registry->Reports();
        if (i % 11 == 0) static_cast<void>(registry->Tokenize({.model = name, .text = "x"}));
        EXPECT_TRUE(asked.sink->WaitForEnd());
        if (!asked.sink->error()) ++answered;
        if (i % 5 == 0) SleepMs(2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 6 * 40);
  registry.reset();
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(models.opened(name), models.closed(name));
}

TEST(ModelNames, AreTheStemsOfPaths) {
  EXPECT_EQ(ModelNameOf("/models/m.litertlm"), "m");
  EXPECT_EQ(ModelNameOf("SmolLM2-135M.Q4_1.gguf"), "SmolLM2-135M.Q4_1");
  EXPECT_EQ(ModelNameOf("/models/SmolLM2-1.7B/"), "SmolLM2-1.7B");
  EXPECT_EQ(ModelNameOf("/models/SmolLM2-1.7B"), "SmolLM2-1.7B");
}

}  // namespace
}  // namespace hone::serve
