// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "serve/http_client.h"
#include "serve/http_test_server.h"
#include "serve/static_files.h"

namespace hone::serve {
namespace {

using std::chrono::milliseconds;

TEST(HttpServer, AnswersManyRequestsOnOneConnection) {
  TestServer server;
  TestClient client(server.port());
  for (int i = 0; i < 20; ++i) {
    const Answer hello = client.Ask(Get("/hello"));
    EXPECT_EQ(hello.status, 200);
    EXPECT_EQ(hello.body, "{\"hello\":true}");
    EXPECT_EQ(hello.Field("Content-Type"), "application/json");
    EXPECT_EQ(hello.Field("Content-Length"), "14");
    EXPECT_EQ(hello.Field("Connection"), "");
    EXPECT_NE(hello.Field("Date"), "");
    const std::string body = StrCat("{\"n\":", i, "}");
    EXPECT_EQ(client.Ask(Post("/echo", body)).body, body);
  }
  EXPECT_EQ(server.server().load().accepted, 1U);
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  TestClient client(server.port());
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += i % 2 == 0 ? Post("/echo", StrCat(i)) : Get(StrCat("/models/", i));
  }
  client.Send(requests);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.ReceiveAnswer().body, StrCat(i));
}

TEST(HttpServer, ReadsRequestsThatComeByteByByte) {
  TestServer server;
  TestClient client(server.port());
  const std::string chunked =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n3\r\nabc\r\n0\r\n\r\n";
  for (const std::string& request : {Get("/hello"), Post("/echo", "{}"), chunked}) {
    for (const char c : request) ASSERT_TRUE(client.Send({&c, 1}));
    EXPECT_EQ(client.ReceiveAnswer().status, 200);
  }
}

TEST(HttpServer, HeadIsGetWithoutTheBody) {
  TestServer server;
  TestClient client(server.port());
  const std::string head = "HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const Answer answer = client.Ask(head);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Field("Content-Length"), "14");
  EXPECT_EQ(client.Ask(Get("/hello")).body, "{\"hello\":true}");  // no byte too many came before
}

TEST(HttpServer, SaysWhatIsWrongInTheFormOfOpenAi) {
  TestServer server;
  const std::string json = "Content-Type: application/json\r\n";
  const struct {
    std::string request;
    int status;
  } cases[] = {
      {Get("/nothing"), 404},
      {Post("/hello", "{}"), 405},
      {Get("/models/%"), 400},
      {"BREW /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", 501},
      {"TRACE /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\n" + json + "\r\n", 411},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", 415},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
       "Content-Length: 2\r\n\r\n{}",
       415},
      {Post("/echo", "{}", "Expect: the unexpected\r\n"), 417},
      {"GET /hello HTTP/1.1\r\n\r\n", 400},
      {"GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
      {Get("/hello", "Origin: https://evil.example\r\n"), 403},
      {Post("/echo", "{}", "Origin: null\r\n"), 403},
      {"GET /hello HTTP/3.0\r\n\r\n", 505},
      {"hello\r\n\r\n", 400},
      {Get("/throw"), 500},
      {Get("/drop"), 500},
      {Get("/bad"), 500},
  };
  for (const auto& c : cases) {
    TestClient client(server.port());
    const Answer answer = client.Ask(c.request);
    EXPECT_EQ(answer.status, c.status) << c.request;
    EXPECT_NE(answer.ErrorMessage(), "") << c.request << answer.body;
    EXPECT_EQ(answer.body.find("secret"), std::string::npos);
    EXPECT_EQ(answer.Field("Set-Cookie"), "");
    EXPECT_EQ(answer.Field("Access-Control-Allow-Origin"), "");
    EXPECT_EQ(answer.Field("Allow"), c.status == 405 ? "GET, HEAD, OPTIONS" : "") << c.request;
    // The error leaves the server in order.
    TestClient other(server.port());
    EXPECT_EQ(other.Ask(Get("/hello")).status, 200);
  }
}

// An error in a request whose end is sure leaves its connection open; one whose end is not, ends
// it: what follows could be taken for another request.
TEST(HttpServer, ErrorsEndAConnectionOnlyWhereTheyMust) {
  TestServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.Ask(Get("/nothing")).status, 404);
  EXPECT_EQ(client.Ask(Get("/hello")).status, 200);
  const std::string hidden = Get("/hello");
  const Answer refused =
      client.Ask(StrCat("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n",
                        "Content-Length: ", hidden.size(), "\r\n\r\n", hidden));
  EXPECT_EQ(refused.status, 415);
  EXPECT_EQ(refused.Field("Connection"), "close");
  EXPECT_EQ(client.ReceiveAll(), "");
}

TEST(HttpServer, ClosesWhenAsked) {
  TestServer server;
  TestClient client(server.port());
  const Answer answer = client.Ask(Get("/hello", "Connection: Keep-Alive, Close\r\n"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Field("Connection"), "close");
  EXPECT_EQ(client.ReceiveAll(), "");
  TestClient old(server.port());
  EXPECT_EQ(old.Ask("GET /hello HTTP/1.0\r\nHost: localhost\r\n\r\n").body, "{\"hello\":true}");
  EXPECT_EQ(old.ReceiveAll(), "");
}

TEST(HttpServer, HalfClosedClientsGetTheirAnswer) {
  TestServer server;
  TestClient client(server.port());
  client.Send(Get("/hello") + Get("/big") + "GET /hel");
  client.EndSending();
  EXPECT_EQ(client.ReceiveAnswer().body, "{\"hello\":true}");
  EXPECT_EQ(client.ReceiveAnswer().body.size(), std::size_t{8} << 20);
  EXPECT_EQ(client.ReceiveAll(), "");
}

TEST(HttpServer, AsksForItsKey) {
  HttpOptions options = TestServer::FastOptions();
  options.api_key = "sk-right";
  TestServer server(options);
  TestClient client(server.port());
  for (const char* path : {"/hello", "/nothing", "/models/%"}) {
    const Answer answer = client.Ask(Get(path));
    EXPECT_EQ(answer.status, 401);
    EXPECT_EQ(answer.Field("WWW-Authenticate"), "Bearer");
    EXPECT_NE(answer.ErrorMessage(), "");
  }
  const std::string wrong = "Authorization: Bearer sk-wrong\r\n";
  EXPECT_EQ(client.Ask(Get("/hello", wrong)).status, 401);
  EXPECT_EQ(client.Ask(Get("/hello", "Authorization: Bearer sk-right\r\n")).status, 200);
  EXPECT_EQ(client.Ask(Get("/quick")).status, 200);
  // Refused before the body: nobody without the key makes the server hold one.
  TestClient large(server.port());
  EXPECT_EQ(large
                .Ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                     "\r\nContent-Length: 60000\r\n\r\n")
                .status,
            401);
}

TEST(HttpServer, LetsPagesOfAllowedOriginsIn) {
  HttpOptions options = TestServer::FastOptions();
  options.allow_origins = {"https://friend.example"};
  options.api_key = "key";
  TestServer server(options);
  TestClient client(server.port());
  const std::string origin = "Origin: https://friend.example\r\n";
  const Answer preflight =
      client.Ask("OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\n" + origin +
                 "Access-Control-Request-Method: POST\r\n"
                 "Access-Control-Request-Headers: authorization, content-type\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.Field("Access-Control-Allow-Origin"), "https://friend.example");
  EXPECT_EQ(preflight.Field("Access-Control-Allow-Methods"), "OPTIONS, POST");
  EXPECT_EQ(preflight.Field("Access-Control-Allow-Headers"), "authorization, content-type");
  EXPECT_EQ(preflight.Field("Vary"), "Origin");
  const Answer post = client.Ask(Post("/echo", "{}", origin + "Authorization: Bearer key\r\n"));
  EXPECT_EQ(post.status, 200);
  EXPECT_EQ(post.Field("Access-Control-Allow-Origin"), "https://friend.example");
  // The page can read errors too.
  const Answer denied = client.Ask(Get("/hello", origin));
  EXPECT_EQ(denied.status, 401);
  EXPECT_EQ(denied.Field("Access-Control-Allow-Origin"), "https://friend.example");
  const Answer foreign = client.Ask(
      "OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\n"
      "Origin: https://evil.example\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(foreign.status, 403);
  EXPECT_EQ(foreign.Field("Access-Control-Allow-Origin"), "");
}

TEST(HttpServer, OptionsNamesTheMethods) {
  TestServer server;
  TestClient client(server.port());
  const Answer one = client.Ask("OPTIONS /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(one.status, 204);
  EXPECT_EQ(one.Field("Allow"), "GET, HEAD, OPTIONS, POST");
  EXPECT_EQ(client.Ask("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 204);
  EXPECT_EQ(client.Ask("OPTIONS /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 404);
}

TEST(HttpServer, GuardsPages) {
  TestServer server;
  TestClient client(server.port());
  const Answer page = client.Ask(Get("/page"));
  EXPECT_EQ(page.Field("Content-Security-Policy"), "default-src 'self'; frame-ancestors 'none'");
  EXPECT_EQ(page.headers.Count("Content-Security-Policy"), 1U);
  EXPECT_EQ(page.Field("X-Frame-Options"), "DENY");
  for (const Answer& answer : {page, client.Ask(Get("/hello")), client.Ask(Get("/nothing"))}) {
    EXPECT_EQ(answer.Field("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(answer.Field("Referrer-Policy"), "no-referrer");
    EXPECT_EQ(answer.Field("Cache-Control"), "no-store");
  }
}

TEST(HttpServer, ServesFilesOfTheProgram) {
  HttpOptions options = TestServer::FastOptions();
  options.api_key = "key";
  HttpServer server(options);
  ServeStaticFiles(server, {{.path = "/", .content_type = "text/html", .bytes = "<p>"},
                            {.path = "/a.js", .content_type = "text/javascript", .bytes = "a"}});
  ASSERT_TRUE(server.Start().ok());
  TestClient client(server.port());
  const Answer page = client.Ask(Get("/"));
  EXPECT_EQ(page.body, "<p>");
  EXPECT_EQ(page.Field("Content-Security-Policy"), "default-src 'none'; frame-ancestors 'none'");
  const std::string known = "If-None-Match: " + page.Field("ETag") + "\r\n";
  EXPECT_EQ(client.Ask(Get("/", known)).status, 304);
  EXPECT_EQ(client.Ask(Get("/a.js", known)).body, "a");
}

TEST(HttpServer, QuickRoutesAnswerWhileEveryThreadWorks) {
  TestServer server;
  TestClient a(server.port());
  TestClient b(server.port());
  a.Send(Post("/block", "{}"));
  b.Send(Post("/block", "{}"));
  ASSERT_TRUE(Eventually([&] { return server.num_blocked() == 2; }));
  TestClient c(server.port());
  EXPECT_EQ(c.Ask(Get("/quick")).status, 200);
  EXPECT_TRUE(Eventually([&] { return server.server().load().requests == 2; }));
  server.Unblock();
  EXPECT_EQ(a.ReceiveAnswer().status, 200);
  EXPECT_EQ(b.ReceiveAnswer().status, 200);
  EXPECT_TRUE(Eventually([&] { return server.server().load().requests == 0; }));
}

TEST(HttpServer, LogsNoSecrets) {
  HttpOptions options = TestServer::FastOptions();
  options.api_key = "sk-secret";
  TestServer server(options);
  TestClient client(server.port());
  client.Ask(Post("/echo?token=secret", "{\"secret\":1}", "Authorization: Bearer sk-secret\r\n"));
  const HttpAccess access = server.WaitForLog(1)[0];
  EXPECT_EQ(access.method, "POST");
  EXPECT_EQ(access.path, "/echo");
  EXPECT_EQ(access.status, 200);
  EXPECT_EQ(access.request_body_bytes, 12U);
  EXPECT_GT(access.response_bytes, 100U);
  EXPECT_TRUE(access.remote.starts_with("127.0.0.1:")) << access.remote;
  EXPECT_FALSE(access.streamed);
  EXPECT_EQ(access.cancelled, CancelReason::kNone);
}

TEST(HttpServer, StartSaysWhyItCannot) {
  const auto start = [](HttpOptions options) {
    HttpServer server(std::move(options));
    Status status = server.Start();
    return status.ok() ? std::string("ok ") + StrCat(server.Warnings().size())
                       : std::string(status.message());
  };
  EXPECT_EQ(start({}), "ok 0");
  EXPECT_EQ(start({.host = "localhost"}), "ok 0");
  EXPECT_NE(start({.host = "0.0.0.0"}).find("API key"), std::string::npos);
  EXPECT_EQ(start({.host = "0.0.0.0", .api_key = "k"}), "ok 0");
  EXPECT_EQ(start({.host = "0.0.0.0", .allow_no_key = true}), "ok 1");
  EXPECT_EQ(start({.allow_origins = {"*"}}), "ok 1");
  EXPECT_NE(start({.host = "no such host"}).find("no such host"), std::string::npos);
  EXPECT_NE(start({.host = "192.0.2.1"}).find("192.0.2.1"), std::string::npos);
  EXPECT_NE(start({.allow_origins = {"example"}}).find("example"), std::string::npos);
  HttpOptions none;
  none.limits.connections = 0;
  EXPECT_NE(start(none).find("limit"), std::string::npos);
  TestServer other;
  EXPECT_NE(start({.port = other.port()}).find("port"), std::string::npos);
}

TEST(HttpServer, NamesItself) {
  HttpServer server({.host = "localhost"});
  ASSERT_TRUE(server.Start().ok());
  EXPECT_EQ(server.url(), StrCat("http://localhost:", int{server.port()}));
  TestClient client(server.port());
  EXPECT_EQ(client.Ask(Get("/")).status, 404);
}

TEST(HttpServer, LeavesNothingBehind) {
  {
    TestServer warm_up;
  }
  const int descriptors = CountDescriptors();
  int threads = CountThreads();
  for (int i = 0; i < 100; ++i) {  // a thread that was joined may be counted for a while
    SleepMs(2);
    threads = std::min(threads, CountThreads());
  }
  HttpOptions options = TestServer::FastOptions();
  options.limits.cancel_time = milliseconds(200);  // the writers are kept and never end
  for (int round = 0; round < 3; ++round) {
    TestServer server(options);
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 20; ++i) {
      clients.push_back(std::make_unique<TestClient>(server.port()));
      clients.back()->Send(i % 4 == 0   ? Get("/hello")
                           : i % 4 == 1 ? Post("/stream", "{}")
                           : i % 4 == 2 ? Post("/keep", "{}")
                                        : "GET /half");
    }
    ASSERT_TRUE(Eventually([&] { return server.num_writers() == 10; }));
    for (std::size_t i = 0; i < clients.size(); i += 3) clients[i].reset();
    EXPECT_TRUE(Eventually([&] { return CountThreads() == threads + 3; })) << CountThreads();
    server.server().Stop(milliseconds(0));
    EXPECT_EQ(server.server().load().connections, 0);
  }
  EXPECT_EQ(CountDescriptors(), descriptors);
  EXPECT_TRUE(Eventually([&] { return CountThreads() == threads; })) << CountThreads();
}

// Connections that come and go leave no descriptor while the server runs.
TEST(HttpServer, ForgetsClosedConnections) {
  TestServer server;
  {
    TestClient(server.port()).Ask(Get("/hello"));
  }
  const auto none = [&] { return server.server().load().connections == 0; };
  ASSERT_TRUE(Eventually(none));
  const int descriptors = CountDescriptors();
  for (int i = 0; i < 100; ++i) {
    TestClient client(server.port());
    if (i % 3 != 0) client.Ask(Get("/hello"));
    if (i % 5 == 0) client.Send("POST /echo HTT");
    if (i % 7 == 0) client.Reset();
  }
  // The last ones may not be accepted yet.
  EXPECT_TRUE(Eventually([&] { return none() && CountDescriptors() == descriptors; }))
      << CountDescriptors() << ", before " << descriptors;
}

}  // namespace
}  // namespace hone::serve
