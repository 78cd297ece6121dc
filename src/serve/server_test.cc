// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/server.h"

#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "serve/http_client.h"
#include "serve/openai/openai_test_util.h"
#include "serve/server_test_util.h"
#include "web/web_assets.h"

namespace hone::serve {
namespace {

using openai::At;
using openai::ParseText;
using openai::TextAt;
using std::chrono::milliseconds;

// A server with fake models on a port of its own.
class ServerTest : public testing::Test {
 protected:
  void Begin(const std::vector<std::string>& names = {"m"}, ServerOptions options = {},
             RegistryOptions registry_options = {}) {
    registry_options.available_memory = []() -> std::optional<std::uint64_t> {
      return std::nullopt;
    };
    auto registry = ModelRegistry::Create(models_.Factory(), std::move(registry_options));
    ASSERT_TRUE(registry.ok()) << registry.message();
    registry_ = *std::move(registry);
    for (const std::string& name : names) {
      const Status added = registry_->Add(models_.MakeEntry(name));
      ASSERT_TRUE(added.ok()) << added.message();
    }
    options.version = "1.2.3";
    options.http.limits.cancel_time = milliseconds(10'000);
    server_ = std::make_unique<Server>(std::move(options), *registry_);
    const Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started.message();
    server_->SetReady();
  }
  void TearDown() override {
    server_.reset();
    registry_.reset();
  }

  Answer Ask(const std::string& request) { return TestClient(server_->port()).Ask(request); }
  static std::string ChatBody(const std::string& content, const std::string& more = "") {
    return StrCat(R"({"messages":[{"role":"user","content":")", content, "\"}]", more, "}");
  }
  Answer AskChat(const std::string& content, const std::string& more = "") {
    return Ask(Post("/v1/chat/completions", ChatBody(content, more)));
  }
  std::string Metrics() { return Ask(Get("/metrics")).body; }

  FakeModels models_;
  std::unique_ptr<ModelRegistry> registry_;
  std::unique_ptr<Server> server_;
};

void ExpectError(const Answer& answer, int status, const std::string& code) {
  EXPECT_EQ(answer.status, status);
  EXPECT_NE(answer.ErrorMessage(), "") << answer.body;
  EXPECT_EQ(TextAt(ParseText(answer.body), "error.code"), code) << answer.body;
}

TEST_F(ServerTest, AnswersAChat) {
  Begin();
  const Answer answer = AskChat("hi", R"(,"model":"m")");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Field("Content-Type"), "application/json");
  const Json json = ParseText(answer.body);
  EXPECT_EQ(TextAt(json, "choices[0].message.content"), "m says hello");
  EXPECT_EQ(TextAt(json, "model"), "m");
  EXPECT_EQ(At(json, "usage.total_tokens").AsInt(), 10);
  EXPECT_EQ(TextAt(json, "system_fingerprint"), "fp_m") << "it was loaded for this answer";
  EXPECT_EQ(TextAt(ParseText(AskChat("hi").body), "system_fingerprint"), "fp_m");
}

TEST_F(ServerTest, EveryPieceOfAStreamHasTheFingerprintOfTheModelThatWasLoadedForIt) {
  Begin({"m", "other"});
  const std::string body = AskChat("hi", R"(,"model":"m","stream":true)").body;
  const auto chunks = openai::ParseChunks(body);
  ASSERT_GE(chunks.size(), 3U) << body;
  for (const Json& chunk : chunks) EXPECT_EQ(TextAt(chunk, "system_fingerprint"), "fp_m");
  const Answer completion = Ask(Post("/v1/completions", R"({"model":"other","prompt":"hi"})"));
  EXPECT_EQ(TextAt(ParseText(completion.body), "system_fingerprint"), "fp_other");
}

TEST_F(ServerTest, StreamsAChatPieceByPiece) {
  Begin();
  TestClient client(server_->port());
  client.Send(Post("/v1/chat/completions", ChatBody("hold", R"(,"stream":true)")));
  const auto held = models_.WaitForHeld(0);
  held->Send({0, openai::Progress{.done_tokens = 5, .total_tokens = 10}});
  EXPECT_TRUE(client.ReceiveUntil("\n: "));  // a comment while the prompt is read
  EXPECT_TRUE(held->Say("one"));
  EXPECT_TRUE(client.ReceiveUntil("\"one\""));
  EXPECT_TRUE(held->Say(" two"));
  EXPECT_TRUE(client.ReceiveUntil("\" two\""));
  held->Done();
  const Answer answer = client.ReceiveAnswer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Field("Content-Type"), "text/event-stream");
  EXPECT_EQ(answer.Field("Cache-Control"), "no-cache");
  EXPECT_TRUE(answer.whole);
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(ServerTest, AStreamThatIsSilentGetsComments) {
  Begin({"m"}, {.keep_alive = milliseconds(30)});
  TestClient client(server_->port());
  client.Send(Post("/v1/chat/completions", ChatBody("hold", R"(,"stream":true)")));
  const auto held = models_.WaitForHeld(0);
  held->Say("one");
  EXPECT_TRUE(client.ReceiveUntil(": keep-alive"));
  held->Done();
}

TEST_F(ServerTest, AModelMayBeLeftOutIfThereIsOne) {
  Begin();
  EXPECT_EQ(AskChat("hi").status, 200);
}

TEST_F(ServerTest, AModelMustBeNamedIfThereAreTwo) {
  Begin({"a", "b"});
  const Answer unnamed = AskChat("hi");
  ExpectError(unnamed, 400, "missing_required_parameter");
  EXPECT_NE(unnamed.body.find("a, b"), std::string::npos) << unnamed.body;
  EXPECT_EQ(TextAt(ParseText(AskChat("hi", R"(,"model":"b")").body), "choices[0].message.content"),
            "b says hello");
  EXPECT_EQ(models_.opened("a"), 0);
}

TEST_F(ServerTest, AnUnknownModelIsA404ThatListsTheNames) {
  Begin({"a", "b"});
  const Answer answer = AskChat("hi", R"(,"model":"gpt-4")");
  ExpectError(answer, 404, "model_not_found");
  EXPECT_NE(answer.ErrorMessage().find("a, b"), std::string::npos);
  ExpectError(Ask(Get("/v1/models/gpt-4")), 404, "model_not_found");
}

TEST_F(ServerTest, ListsItsModels) {
  Begin({"a", "org/b"});
  AskChat("hi", R"(,"model":"a")");
  const Json list = ParseText(Ask(Get("/v1/models")).body);
  EXPECT_EQ(TextAt(list, "data[0].id"), "a");
  EXPECT_TRUE(At(list, "data[0].loaded").AsBool());
  EXPECT_EQ(At(list, "data[0].context_length").AsInt(), 64);
  EXPECT_EQ(TextAt(list, "data[1].id"), "org/b");
  EXPECT_FALSE(At(list, "data[1].loaded").AsBool());
  EXPECT_EQ(TextAt(ParseText(Ask(Get("/v1/models/org/b")).body), "id"), "org/b");
  EXPECT_EQ(TextAt(ParseText(Ask(Get("/v1/models/org%2Fb")).body), "id"), "org/b");
  TestClient client(server_->port());
  client.Send("HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.ReceiveAnswer(/*head=*/true).status, 200);
}

TEST_F(ServerTest, AnErrorBeforeAStreamHasItsOwnStatus) {
  Begin();
  const Answer answer = AskChat("overflow", R"(,"stream":true)");
  ExpectError(answer, 400, "context_length_exceeded");
  EXPECT_EQ(At(ParseText(answer.body), "error.n_ctx").AsInt(), 64);
}

TEST_F(ServerTest, EveryRefusalIsAnErrorThatClientsRead) {
  ServerOptions options;
  options.http.limits.body_bytes = 1'000;
  Begin({"m"}, options);
  ExpectError(Ask(Get("/nothing")), 404, "unknown_url");
  const Answer method = Ask(Get("/v1/chat/completions"));
  ExpectError(method, 405, "method_not_allowed");
  EXPECT_NE(method.Field("Allow").find("POST"), std::string::npos);
  ExpectError(Ask(Post("/v1/models", "{}")), 405, "method_not_allowed");
  ExpectError(AskChat(std::string(2'000, 'x')), 413, "body_too_large");
  ExpectError(Ask(Post("/v1/chat/completions", "{")), 400, "invalid_body");
  ExpectError(Ask(Get("/v1/models", "Origin: https://evil.example\r\n")), 403,
              "origin_not_allowed");
  ExpectError(Ask("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403,
              "host_not_allowed");
  const Answer form =
      Ask("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
          "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(form.status, 415);
  EXPECT_NE(form.ErrorMessage(), "");
}

TEST_F(ServerTest, UnknownFieldsAreRefusedUnlessItIsLenient) {
  Begin();
  ExpectError(AskChat("hi", R"(,"mirostat":2)"), 400, "unknown_parameter");
  server_.reset();
  registry_.reset();
  ServerOptions options;
  options.api.read.lenient = true;
  Begin({"l"}, options);
  const Answer answer = AskChat("hi", R"(,"mirostat":2)");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(TextAt(ParseText(answer.body), "ignored_fields[0]"), "mirostat");
}

TEST_F(ServerTest, AKeyIsNeededForAllButThePageAndItsHealth) {
  ServerOptions options;
  options.http.api_key = "sesame";
  Begin({"m"}, options);
  for (const char* path : {"/v1/models", "/props", "/metrics", "/v1/models/m"}) {
    ExpectError(Ask(Get(path)), 401, "missing_api_key");
    ExpectError(Ask(Get(path, "Authorization: Bearer wrong\r\n")), 401, "invalid_api_key");
    EXPECT_EQ(Ask(Get(path, "Authorization: Bearer sesame\r\n")).status, 200) << path;
  }
  ExpectError(AskChat("hi"), 401, "missing_api_key");
  ExpectError(Ask(Post("/models/import", "{}")), 401, "missing_api_key");
  EXPECT_EQ(models_.opened("m"), 0);
  EXPECT_EQ(Ask(Get("/health")).status, 200);
  EXPECT_EQ(Ask(Get("/")).status, server_->has_page() ? 200 : 401);
  const Answer props = Ask(Get("/props", "Authorization: Bearer sesame\r\n"));
  EXPECT_EQ(props.body.find("sesame"), std::string::npos);
  EXPECT_TRUE(At(ParseText(props.body), "api_key").AsBool());
}

TEST_F(ServerTest, AClientThatGoesEndsItsStream) {
  Begin();
  TestClient client(server_->port());
  client.Send(Post("/v1/chat/completions", ChatBody("hold", R"(,"stream":true)")));
  const auto held = models_.WaitForHeld(0);
  held->Say("one");
  EXPECT_TRUE(client.ReceiveUntil("one"));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return held->cancelled(); }));
  EXPECT_TRUE(Eventually([&] { return server_->num_running() == 0; }));
}

TEST_F(ServerTest, AClientThatGoesEndsItsRequestAlsoWithoutAStream) {
  Begin();
  for (std::size_t i = 0; i < 2; ++i) {
    TestClient client(server_->port());
    client.Send(Post("/v1/chat/completions", ChatBody("hold")));
    const auto held = models_.WaitForHeld(i);
    EXPECT_FALSE(held->cancelled());
    i == 0 ? client.Close() : client.Reset();
    EXPECT_TRUE(Eventually([&] { return held->cancelled(); }));
  }
  EXPECT_TRUE(Eventually([&] { return server_->num_running() == 0; }));
  EXPECT_EQ(AskChat("hi").status, 200) << "others go on";
  EXPECT_NE(Metrics().find("hone_answers_failed_total{model=\"m\",code=\"cancelled\"} 2\n"),
            std::string::npos);
}

TEST_F(ServerTest, AStreamWaitsUntilItsModelIsLoaded) {
  std::promise<void> go;
  models_.on_load = [opened = go.get_future().share()](const ModelEntry&) {
    opened.wait();
    return Status();
  };
  Begin({"m"}, {}, {.max_waiting = 1});
  TestClient client(server_->port());
  client.Send(Post("/v1/chat/completions", ChatBody("hi", R"(,"stream":true)")));
  EXPECT_TRUE(Eventually([&] { return registry_->Report("m")->waiting == 1; }));
  const Answer refused = AskChat("hi");
  ExpectError(refused, 503, "loading");
  EXPECT_EQ(refused.Field("Retry-After"), "3");
  EXPECT_EQ(Ask(Get("/v1/models")).status, 200) << "the rest of the server goes on";
  go.set_value();
  const Answer answer = client.ReceiveAnswer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find(" says hello"), std::string::npos);
}

TEST_F(ServerTest, TokenizesAndRenders) {
  Begin();
  EXPECT_EQ(Ask(Post("/tokenize", R"({"content":"ab"})")).body, R"({"count":2,"tokens":[97,98]})");
  EXPECT_EQ(TextAt(ParseText(Ask(Post("/detokenize", R"({"tokens":[97,98]})")).body), "content"),
            "ab");
  EXPECT_EQ(Ask(Post("/apply-template", ChatBody("hi"))).status, 200);
}

TEST_F(ServerTest, PropsSayWhatTheServerAndItsModelsAre) {
  ServerOptions options;
  options.props.Set("on_full", "trim");
  Begin({"m", "n"}, options);
  AskChat("hi", R"(,"model":"m")");
  const Json props = ParseText(Ask(Get("/props")).body);
  EXPECT_EQ(TextAt(props, "version"), "1.2.3");
  EXPECT_EQ(TextAt(props, "status"), "ok");
  EXPECT_EQ(TextAt(props, "on_full"), "trim");
  EXPECT_FALSE(At(props, "import").AsBool());
  EXPECT_EQ(At(props, "limits.body_bytes").AsInt(), 16 << 20);
  EXPECT_EQ(TextAt(props, "models[0].state"), "loaded");
  EXPECT_EQ(TextAt(props, "models[0].file"), "m.gguf");
  EXPECT_EQ(TextAt(props, "models[0].engine"), "kernels");
  EXPECT_EQ(TextAt(props, "models[0].tools"), "hermes");
  EXPECT_EQ(TextAt(props, "models[0].warnings[0]"), "it is not real");
  EXPECT_EQ(TextAt(props, "models[1].state"), "unloaded");
  EXPECT_TRUE(At(props, "models[1].engine").IsNull());
  EXPECT_EQ(props.Dump().find(models_.folder().path()), std::string::npos) << "a folder is told";
}

TEST_F(ServerTest, MetricsCountRequestsTokensAndTimes) {
  Begin();
  AskChat("hi");
  AskChat("hi");
  AskChat("overflow");
  Ask(Get("/a/path/that/is/not/there"));
  Ask(Get("/v1/models/m"));
  const Answer answer = Ask(Get("/metrics"));
  EXPECT_EQ(answer.Field("Content-Type"), Metrics::kContentType);
  for (const char* line : {
           "hone_http_requests_total{path=\"/v1/chat/completions\",status=\"200\"} 2\n",
           "hone_http_requests_total{path=\"/v1/chat/completions\",status=\"400\"} 1\n",
           "hone_http_requests_total{path=\"other\",status=\"404\"} 1\n",
           "hone_http_requests_total{path=\"/v1/models/{id}\",status=\"200\"} 1\n",
           "hone_answers_total{model=\"m\"} 2\n",
           "hone_answers_failed_total{model=\"m\",code=\"context_length_exceeded\"} 1\n",
           "hone_prompt_tokens_total{model=\"m\"} 14\n",
           "hone_cached_tokens_total{model=\"m\"} 8\n",
           "hone_generated_tokens_total{model=\"m\"} 6\n",
           "hone_time_to_first_token_seconds_count{model=\"m\"} 2\n",
           "hone_model_loaded{model=\"m\"} 1\n",
           "hone_model_loads{model=\"m\"} 1\n",
           "hone_choices_running{model=\"m\"} 2\n",
           "hone_model_runs_total{model=\"m\"} 10\n",
           "hone_drafted_tokens_total{model=\"m\"} 20\n",
           "hone_accepted_tokens_total{model=\"m\"} 9\n",
           "hone_requests_waiting{model=\"m\"} 1\n",
           "hone_build_info{version=\"1.2.3\"} 1\n",
           "hone_http_requests_running 1\n",
       }) {
    EXPECT_NE(answer.body.find(line), std::string::npos) << line << answer.body;
  }
  EXPECT_NE(answer.body.find("\nhone_resident_bytes "), std::string::npos);
}

TEST_F(ServerTest, MetricsForgetAModelWhoseImportFailed) {
  std::promise<void> go;
  models_.on_load = [opened = go.get_future().share()](const ModelEntry&) {
    opened.wait();
    return Status(Code::kDataLoss, "it has no magic");
  };
  Begin({}, {.allow_import = true});
  TestClient client(server_->port());
  client.Send(Post("/models/import", StrCat(R"({"path":")", models_.MakeEntry("bad").path, "\"}")));
  EXPECT_TRUE(Eventually(
      [&] { return Metrics().find("hone_requests{model=\"bad\"} 1\n") != std::string::npos; }));
  go.set_value();
  EXPECT_EQ(client.ReceiveAnswer().status, 400);
  const std::string metrics = Metrics();
  EXPECT_EQ(metrics.find("bad"), std::string::npos) << metrics;
  EXPECT_EQ(metrics.find("hone_model_loaded"), std::string::npos) << "a name without a series";
}

TEST_F(ServerTest, ServesThePageWithItsPolicy) {
  Begin();
  if (web::WebAssets().empty()) GTEST_SKIP() << "this build has no page";
  EXPECT_TRUE(server_->has_page());
  const Answer page = Ask(Get("/"));
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.Field("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(page.Field("Content-Security-Policy"), web::kContentSecurityPolicy);
  EXPECT_EQ(page.Field("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(page.body, web::FindWebAsset("/")->bytes);
  for (const web::WebAsset& asset : web::WebAssets()) {
    const Answer file = Ask(Get(asset.path));
    EXPECT_EQ(file.status, 200) << asset.path;
    EXPECT_EQ(file.body, asset.bytes) << asset.path;
    EXPECT_EQ(file.Field("Cache-Control").find("immutable") != std::string::npos, asset.immutable);
  }
}

TEST_F(ServerTest, HasNoPageIfItIsNotWanted) {
  Begin({"m"}, {.page = false});
  EXPECT_FALSE(server_->has_page());
  ExpectError(Ask(Get("/")), 404, "unknown_url");
}

TEST_F(ServerTest, RefusesImportsUnlessTheyAreAllowed) {
  Begin();
  const ModelEntry entry = models_.MakeEntry("new");
  const Answer answer = Ask(Post("/models/import", StrCat(R"({"path":")", entry.path, "\"}")));
  ExpectError(answer, 403, "import_not_allowed");
  EXPECT_EQ(models_.opened("new"), 0);
}

TEST_F(ServerTest, ImportsAModelOfItsDisk) {
  Begin({"m"}, {.allow_import = true});
  const ModelEntry entry = models_.MakeEntry("new");
  const Answer answer =
      Ask(Post("/models/import", StrCat(R"({"path":")", entry.path,
                                        R"(","accelerators":["cpu","gpu"],"context":32})")));
  EXPECT_EQ(answer.status, 200) << answer.body;
  const Json json = ParseText(answer.body);
  EXPECT_EQ(TextAt(json, "id"), "new");
  EXPECT_NE(TextAt(json, "warnings[0]").find("gpu"), std::string::npos);
  EXPECT_EQ(
      TextAt(ParseText(AskChat("hi", R"(,"model":"new")").body), "choices[0].message.content"),
      "new says hello");
  const Json list = ParseText(Ask(Get("/v1/models")).body);
  EXPECT_EQ(At(list, "data[1].context_length").AsInt(), 32);
}

TEST_F(ServerTest, SaysWhyAnImportFails) {
  models_.on_load = [](const ModelEntry&) { return Status(Code::kDataLoss, "it has no magic"); };
  Begin({}, {.allow_import = true});
  const Answer gone = Ask(Post("/models/import", R"({"path":"/no/such/model.gguf"})"));
  EXPECT_EQ(TextAt(ParseText(gone.body), "error.param"), "path") << gone.body;
  const ModelEntry entry = models_.MakeEntry("bad");
  const Answer bad = Ask(Post("/models/import", StrCat(R"({"path":")", entry.path, "\"}")));
  ExpectError(bad, 400, "invalid_value");
  EXPECT_NE(bad.ErrorMessage().find("it has no magic"), std::string::npos);
  EXPECT_EQ(Ask(Get("/v1/models")).body, R"({"object":"list","data":[]})");
}

}  // namespace
}  // namespace hone::serve
