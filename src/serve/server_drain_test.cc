// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "serve/http_client.h"
#include "serve/openai/openai_test_util.h"
#include "serve/server.h"
#include "serve/server_test_util.h"

namespace hone::serve {
namespace {

using openai::ParseText;
using openai::TextAt;
using std::chrono::milliseconds;

constexpr const char* kHold = R"({"messages":[{"role":"user","content":"hold"}]})";
constexpr const char* kHoldStream =
    R"({"messages":[{"role":"user","content":"hold"}],"stream":true})";

class ServerDrainTest : public testing::Test {
 protected:
  void SetUp() override {
    auto registry =
        ModelRegistry::Create(models_.Factory(), {.text_wait = std::chrono::minutes(10)});
    ASSERT_TRUE(registry.ok());
    registry_ = *std::move(registry);
    ASSERT_TRUE(registry_->Add(models_.MakeEntry("m")).ok());
    ServerOptions options;
    options.http.limits.cancel_time = milliseconds(10'000);
    options.allow_import = true;
    server_ = std::make_unique<Server>(std::move(options), *registry_);
    ASSERT_TRUE(server_->Start().ok());
  }

  FakeModels models_;
  std::unique_ptr<ModelRegistry> registry_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerDrainTest, HealthGoesFromLoadingToOkToDraining) {
  TestClient client(server_->port());
  Answer answer = client.Ask(Get("/health"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(TextAt(ParseText(answer.body), "status"), "loading");
  EXPECT_EQ(TextAt(ParseText(answer.body), "error.code"), "loading");
  EXPECT_NE(answer.Field("Retry-After"), "");
  server_->SetReady();
  answer = client.Ask(Get("/health"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(TextAt(ParseText(answer.body), "status"), "ok");
  server_->BeginDrain();
  answer = client.Ask(Get("/health"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(TextAt(ParseText(answer.body), "status"), "draining");
  server_->SetReady();
  EXPECT_EQ(client.Ask(Get("/health")).status, 503) << "there is no way back";
}

TEST_F(ServerDrainTest, WhatRunsEndsAndWhatIsNewIsRefused) {
  TestClient whole(server_->port());
  whole.Send(Post("/v1/chat/completions", kHold));
  const auto first = models_.WaitForHeld(0);
  TestClient stream(server_->port());
  stream.Send(Post("/v1/chat/completions", kHoldStream));
  const auto second = models_.WaitForHeld(1);
  server_->BeginDrain();
  EXPECT_EQ(server_->num_running(), 2);
  for (const char* path :
       {"/v1/chat/completions", "/v1/completions", "/tokenize", "/models/import"}) {
    const Answer refused = TestClient(server_->port()).Ask(Post(path, "{}"));
    EXPECT_EQ(refused.status, 503) << path;
    EXPECT_EQ(TextAt(ParseText(refused.body), "error.code"), "draining");
    EXPECT_NE(refused.Field("Retry-After"), "");
  }
  EXPECT_EQ(TestClient(server_->port()).Ask(Get("/v1/models")).status, 200);
  first->Say("done");
  first->Done();
  second->Say("done too");
  second->Done();
  EXPECT_EQ(whole.ReceiveAnswer().status, 200);
  EXPECT_TRUE(stream.ReceiveAnswer().body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(Eventually([&] { return server_->num_running() == 0; }));
  server_->Stop(milliseconds(1'000));
  EXPECT_FALSE(TestClient(server_->port()).connected());
  EXPECT_FALSE(first->cancelled());
}

TEST_F(ServerDrainTest, AnImportThatRunsIsCounted) {
  std::atomic<bool> go{false};
  models_.on_load = [&](const ModelEntry&) {
    while (!go) SleepMs(1);
    return Status();
  };
  const std::string path = models_.MakeEntry("new").path;
  TestClient client(server_->port());
  client.Send(Post("/models/import", StrCat(R"({"path":")", path, "\"}")));
  EXPECT_TRUE(Eventually([&] { return registry_->Report("new").has_value(); }));
  server_->BeginDrain();
  EXPECT_EQ(server_->num_running(), 1);
  go = true;
  EXPECT_EQ(client.ReceiveAnswer().status, 200);
  EXPECT_TRUE(Eventually([&] { return server_->num_running() == 0; }));
}

TEST_F(ServerDrainTest, StopCancelsWhatDoesNotEndInTime) {
  TestClient whole(server_->port());
  whole.Send(Post("/v1/chat/completions", kHold));
  const auto first = models_.WaitForHeld(0);
  TestClient stream(server_->port());
  stream.Send(Post("/v1/chat/completions", kHoldStream));
  const auto second = models_.WaitForHeld(1);
  second->Say("half");
  EXPECT_TRUE(stream.ReceiveUntil("half"));
  server_->Stop(milliseconds(50));
  EXPECT_TRUE(first->cancelled());
  EXPECT_TRUE(second->cancelled());
  EXPECT_EQ(server_->num_running(), 0);
  const Answer answer = whole.ReceiveAnswer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(TextAt(ParseText(answer.body), "error.code"), "draining");
  // The stream breaks: it must not look complete.
  const std::string rest = stream.ReceiveAll();
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
  EXPECT_FALSE(rest.ends_with("0\r\n\r\n"));
}

TEST_F(ServerDrainTest, ARequestThatWaitsForALoadEndsWithTheServer) {
  server_->Stop(milliseconds(0));
  server_.reset();
  std::atomic<bool> go{false};
  models_.on_load = [&](const ModelEntry&) {
    while (!go) SleepMs(1);
    return Status();
  };
  server_ = std::make_unique<Server>(ServerOptions{}, *registry_);
  ASSERT_TRUE(server_->Start().ok());
  TestClient client(server_->port());
  client.Send(Post("/v1/chat/completions", kHold));
  EXPECT_TRUE(Eventually([&] { return registry_->Report("m")->waiting == 1; }));
  server_->Stop(milliseconds(20));
  EXPECT_EQ(server_->num_running(), 0);
  EXPECT_EQ(client.ReceiveAnswer().status, 503);
  go = true;
  server_.reset();
  registry_.reset();  // the load that looks at `go` ends first
}

TEST_F(ServerDrainTest, StopDoesNotWaitForATextCallThatWaitsForALoad) {
  std::atomic<bool> go{false};
  models_.on_load = [&](const ModelEntry&) {
    while (!go) SleepMs(1);
    return Status();
  };
  TestClient client(server_->port());
  client.Send(Post("/tokenize", R"({"content":"x"})"));
  EXPECT_TRUE(Eventually([&] { return registry_->Report("m")->waiting == 1; }));
  const auto began = std::chrono::steady_clock::now();
  server_->Stop(milliseconds(2'000));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::minutes(1));
  const Answer answer = client.ReceiveAnswer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(TextAt(ParseText(answer.body), "error.code"), "draining");
  go = true;
  server_.reset();
  registry_.reset();  // the load that looks at `go` ends first
}

}  // namespace
}  // namespace hone::serve
