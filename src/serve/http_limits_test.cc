// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Sizes and times that no client can exceed.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "serve/http_client.h"
#include "serve/http_test_server.h"

namespace hone::serve {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

milliseconds Since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

TEST(HttpLimits, SizesOfTheHeader) {
  TestServer server;
  const struct {
    std::string request;
    int status;
  } cases[] = {
      {Get("/" + std::string(1 << 11, 'a')), 414},
      {"GET /" + std::string(9 << 10, 'a'), 414},
      {Get("/hello", "X: " + std::string(7 << 10, 'a') + "\r\n"), 200},
      {Get("/hello", "X: " + std::string(9 << 10, 'a') + "\r\n"), 431},
      {"GET /hello HTTP/1.1\r\nX: " + std::string(1 << 20, 'a'), 431},
  };
  for (const auto& c : cases) {
    TestClient client(server.port());
    client.Send(c.request);
    EXPECT_EQ(client.ReceiveAnswer().status, c.status) << c.request.substr(0, 80);
  }
}

// The client reads the answer although it has most of its body still to send.
TEST(HttpLimits, SizeOfTheBody) {
  TestServer server;
  const std::string limit(64 << 10, 'a');
  TestClient fits(server.port());
  EXPECT_EQ(fits.Ask(Post("/echo", limit)).body, limit);
  TestClient announced(server.port());
  const Answer answer = announced.Ask(Post("/echo", std::string(4 << 20, 'a')));
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.ErrorMessage().find("65536"), std::string::npos);
  EXPECT_EQ(answer.Field("Connection"), "close");
  TestClient chunked(server.port());
  chunked.Send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "8000\r\n" + std::string(0x8000, 'a') + "\r\n";
  for (int i = 0; i < 30 && chunked.Send(chunk); ++i) {
  }
  EXPECT_EQ(chunked.ReceiveAnswer().status, 413);
  TestClient next(server.port());
  EXPECT_EQ(next.Ask(Post("/echo", "{}")).status, 200);
}

TEST(HttpLimits, SizeOfAllBodiesTogether) {
  HttpOptions options = TestServer::FastOptions();
  options.limits.all_bodies_bytes = 100 << 10;
  TestServer server(options);
  const std::string large = Post("/keep", std::string(60 << 10, 'a'));
  TestClient first(server.port());
  first.Send(large);
  server.WaitForWriter(0);
  TestClient second(server.port());
  const Answer refused = second.Ask(large);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.Field("Retry-After"), "5");
  EXPECT_EQ(TestClient(server.port()).Ask(Post("/echo", "{}")).status, 200);
  server.WaitForWriter(0)->Send({});
  EXPECT_EQ(first.ReceiveAnswer().status, 200);
  TestClient third(server.port());
  third.Send(large);
  server.WaitForWriter(1)->Send({});
  EXPECT_EQ(third.ReceiveAnswer().status, 200);
}

TEST(HttpLimits, ContinuesOnlyWhatItWillTake) {
  TestServer server;
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Expect: 100-continue\r\nContent-Length: ";
  TestClient good(server.port());
  good.Send(head + "2\r\n\r\n");
  ASSERT_TRUE(good.ReceiveUntil("HTTP/1.1 100 Continue\r\n\r\n"));
  EXPECT_EQ(good.ReceiveAnswer().status, 100);
  EXPECT_EQ(good.Ask("{}").body, "{}");
  EXPECT_EQ(good.Ask(Post("/echo", "[]")).body, "[]");
  TestClient large(server.port());
  EXPECT_EQ(large.Ask(head + "999999\r\n\r\n").status, 413);
  TestClient early(server.port());  // does not wait for the word
  EXPECT_EQ(early.Ask(head + "2\r\n\r\n{}").body, "{}");
}

// Bytes that come just often enough to look alive do not count.
TEST(HttpLimits, TimesAreTotals) {
  // Only the limit that a case is about is short: the client may be held up elsewhere.
  const struct {
    std::string begin;
    milliseconds header_time, body_time;
  } cases[] = {
      {"GET /hello HTTP/1.1\r\nX: ", milliseconds(1000), milliseconds(60'000)},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
       "Content-Length: 5000\r\n\r\n",
       milliseconds(10'000), milliseconds(300)},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
       "Transfer-Encoding: chunked\r\n\r\n1000\r\n",
       milliseconds(10'000), milliseconds(300)},
  };
  for (const auto& c : cases) {
    HttpOptions options = TestServer::FastOptions();
    options.limits.header_time = c.header_time;
    options.limits.body_time = c.body_time;
    TestServer server(options);
    TestClient client(server.port());
    const auto start = Clock::now();
    client.Send(c.begin);
    std::string received;
    while (received.empty() && client.Send("a") && Since(start) < milliseconds(30'000)) {
      received = client.Receive(milliseconds(20));
    }
    EXPECT_TRUE(received.starts_with("HTTP/1.1 408 ")) << c.begin << received;
    EXPECT_GE(Since(start), std::min(c.header_time, c.body_time) - milliseconds(20));
  }
}

TEST(HttpLimits, IdleConnectionsEndInSilence) {
  HttpOptions options = TestServer::FastOptions();
  options.limits.header_time = milliseconds(300);
  options.limits.idle_time = milliseconds(60'000);
  TestServer hasty(options);
  auto start = Clock::now();
  TestClient fresh(hasty.port());
  EXPECT_EQ(fresh.ReceiveAll(), "");
  EXPECT_FALSE(fresh.timed_out());
  EXPECT_GE(Since(start), milliseconds(280));
  options.limits.header_time = milliseconds(60'000);
  options.limits.idle_time = milliseconds(400);
  TestServer server(options);
  start = Clock::now();
  TestClient used(server.port());
  EXPECT_EQ(used.Ask(Get("/hello")).status, 200);
  EXPECT_EQ(used.ReceiveAll(), "");
  EXPECT_FALSE(used.timed_out());
  EXPECT_GE(Since(start), milliseconds(380));
}

// A client that closes nothing and reads nothing does not hold a connection for ever.
TEST(HttpLimits, LingeringEnds) {
  HttpOptions options = TestServer::FastOptions();
  options.limits.linger_time = milliseconds(300);
  TestServer server(options);
  TestClient client(server.port());
  client.Send(Post("/nothing", "", "Content-Length: 5\r\n"));
  EXPECT_EQ(client.ReceiveAnswer().status, 400);
  EXPECT_EQ(client.ReceiveAll(), "");
  EXPECT_TRUE(Eventually([&] { return server.server().load().connections == 0; }));
}

TEST(HttpLimits, TwoHundredIdleConnectionsDoNotMatter) {
  TestServer server;
  std::vector<std::unique_ptr<TestClient>> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(std::make_unique<TestClient>(server.port()));
    ASSERT_TRUE(idle.back()->connected());
    if (i % 2 == 0) idle.back()->Send("POST /echo HTTP/1.1\r\n");
  }
  ASSERT_TRUE(Eventually([&] { return server.server().load().connections == 200; }));
  const auto start = Clock::now();
  TestClient client(server.port());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.Ask(Get("/hello")).status, 200);
  EXPECT_LT(Since(start), milliseconds(3000));
  idle.clear();
  EXPECT_TRUE(Eventually([&] { return server.server().load().connections <= 1; }));
}

TEST(HttpLimits, FullServersSaySoAndPreferNewClientsToIdleOnes) {
  HttpOptions options = TestServer::FastOptions();
  options.limits.connections = 3;
  TestServer server(options);
  TestClient busy[3] = {TestClient(server.port()), TestClient(server.port()),
                        TestClient(server.port())};
  for (std::size_t i = 0; i < 3; ++i) {
    busy[i].Send(Post("/keep", "{}"));
    server.WaitForWriter(i);
  }
  TestClient late(server.port());
  const Answer answer = late.ReceiveAnswer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.Field("Retry-After"), "5");
  EXPECT_NE(answer.ErrorMessage(), "");
  EXPECT_EQ(server.server().load().refused, 1U);
  late.Close();
  // One of the three is done and keeps its connection: the next client takes its place.
  server.WaitForWriter(1)->Send({});
  EXPECT_EQ(busy[1].ReceiveAnswer().status, 200);
  server.WaitForLog(2);  // the client may know before the server does
  ASSERT_TRUE(Eventually([&] { return server.server().load().connections == 3; }));
  TestClient next(server.port());
  EXPECT_EQ(next.Ask(Get("/hello")).status, 200);
  EXPECT_EQ(busy[1].ReceiveAll(), "");
  server.WaitForWriter(0)->Send({});
  EXPECT_EQ(busy[0].ReceiveAnswer().status, 200);
}

}  // namespace
}  // namespace hone::serve
