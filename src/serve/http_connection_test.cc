// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The connection by itself, with a clock that obeys.
#include "serve/http_connection.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "serve/http_client.h"
#include "serve/http_fake_transport.h"

namespace hone::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class HttpConnection : public ::testing::Test {
 protected:
  HttpConnection() : server_(HttpOptions()) {
    server_.router.Add("POST", "/echo",
                       [](const Request& request, const std::shared_ptr<ResponseWriter>& writer) {
                         writer->Send({.body = request.body});
                       });
    server_.router.Add("POST", "/stream",
                       [this](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
                         writer_ = writer;
                         writer_->BeginStream({.keep_alive = seconds(15)});
                       });
    server_.Connect();
  }
  FakeTransport& client() { return *server_.transport; }

  FakeServer server_;
  std::shared_ptr<ResponseWriter> writer_;
};

TEST_F(HttpConnection, AnswersTheSameHoweverTheBytesCome) {
  const std::string bytes = Post("/echo", "one") + Post("/echo", "two") + Get("/none") +
                            Post("/echo", "three", "Connection: close\r\n");
  for (const char c : bytes) server_.Receive({&c, 1});
  std::vector<std::string> bodies;
  while (auto answer = ReadAnswer(client().written, false, false)) bodies.push_back(answer->body);
  ASSERT_EQ(bodies.size(), 4U);
  EXPECT_EQ(bodies[0] + bodies[1] + bodies[3], "onetwothree");
  EXPECT_EQ(client().written, "");
  EXPECT_TRUE(client().shut());
}

TEST_F(HttpConnection, EachStateHasItsTime) {
  client().Wait(milliseconds(9'999));
  EXPECT_FALSE(client().closed());
  server_.Receive("POST /echo HTTP/1.1\r\n");  // the header has 10 s from its first byte on
  client().Wait(milliseconds(9'999));
  server_.Receive("Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n");
  client().Wait(milliseconds(59'999));
  server_.Receive("{ ");
  EXPECT_EQ(client().written, "");
  server_.Receive(" }");
  EXPECT_TRUE(client().written.starts_with("HTTP/1.1 200 "));
  client().Wait(milliseconds(74'999));
  EXPECT_FALSE(client().closed());
  client().Wait(milliseconds(1));
  EXPECT_TRUE(client().closed());
}

TEST_F(HttpConnection, KeepAliveComesOnlyIntoSilence) {
  server_.Receive(Post("/stream", "{}"));
  const auto count = [&] {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = client().written.find(": keep-alive", at)) != std::string::npos;
         ++at) {
      ++n;
    }
    return n;
  };
  client().Wait(seconds(14));
  server_.Run();
  writer_->Write(SseEvent("x"));
  server_.Run();
  client().Wait(seconds(14));
  server_.Run();
  EXPECT_EQ(count(), 0U);
  client().Wait(seconds(1));
  server_.Run();
  EXPECT_EQ(count(), 1U);
  client().Wait(seconds(15));
  server_.Run();
  EXPECT_EQ(count(), 2U);
  // Hours may pass: a stream has no time limit of its own.
  for (int i = 0; i < 1000; ++i) {
    client().Wait(seconds(15));
    server_.Run();
  }
  EXPECT_EQ(count(), 1002U);
  writer_->EndStream();
  server_.Run();
  EXPECT_TRUE(ReadAnswer(client().written, false, false)->whole);
}

TEST_F(HttpConnection, AClientThatReadsNothingHasItsTime) {
  server_.Receive(Post("/stream", "{}"));
  client().holds_writes = true;
  writer_->Write(SseEvent("x"));
  server_.Run();
  client().Wait(milliseconds(29'999));
  EXPECT_FALSE(writer_->cancelled());
  client().Wait(milliseconds(1));
  EXPECT_EQ(writer_->cancel_reason(), CancelReason::kTooSlow);
  EXPECT_TRUE(client().closed());
  ASSERT_EQ(server_.log.size(), 1U);
  EXPECT_EQ(server_.log[0].cancelled, CancelReason::kTooSlow);
}

TEST_F(HttpConnection, TheQueueOfAStreamIsBounded) {
  server_.Receive(Post("/stream", "{}"));
  client().holds_writes = true;
  const std::string piece(1 << 16, 'x');
  std::size_t sent = 0;
  while (writer_->Write(piece)) {
    sent += piece.size();
    ASSERT_LE(writer_->queued_bytes(), std::size_t{1} << 20);
    server_.Run();
  }
  EXPECT_GT(sent, std::size_t{900} << 10);
  server_.Run();
  EXPECT_TRUE(client().closed());
  EXPECT_EQ(writer_->queued_bytes(), 0U);
}

TEST_F(HttpConnection, ReadsAheadOnlySoFar) {
  server_.Receive(Post("/stream", "{}"));
  int n = 0;
  for (; client().wants_read() && n < 1000; ++n) server_.Receive(std::string(16'000, 'x'));
  EXPECT_LT(n, 10);
  client().Wait(milliseconds(100));
  EXPECT_FALSE(writer_->cancelled());
  client().peer_gone = true;
  client().Wait(milliseconds(100));
  EXPECT_EQ(writer_->cancel_reason(), CancelReason::kClientGone);
}

TEST_F(HttpConnection, WhatItCannotHandleEndsItAlone) {
  server_.Receive(Post("/stream", "{}"));
  server_.connection->OnFault();
  EXPECT_TRUE(client().closed());
  EXPECT_TRUE(writer_->cancelled());
}

TEST_F(HttpConnection, RequestsOfClientsThatLeftAreNotHandled) {
  server_.holds_handlers = true;
  server_.Receive(Post("/stream", "{}"));
  EXPECT_TRUE(client().DeliverEnd(/*clean=*/true));
  server_.holds_handlers = false;
  server_.Run();
  EXPECT_EQ(writer_, nullptr);
  EXPECT_TRUE(client().closed());
  EXPECT_EQ(server_.log.at(0).cancelled, CancelReason::kClientGone);
  EXPECT_EQ(server_.host.num_requests, 0);
}

TEST_F(HttpConnection, BodiesThatDoNotEndAreForgotten) {
  std::string bytes = Post("/echo", std::string(1000, 'a'));
  bytes.resize(bytes.size() - 1);
  for (const bool leaves : {true, false}) {
    FakeServer server{HttpOptions()};
    server.router.Add("POST", "/echo",
                      [](const Request&, const std::shared_ptr<ResponseWriter>&) {});
    server.Connect();
    server.Receive(bytes);
    EXPECT_EQ(server.host.all_bodies_bytes, 999U);
    if (leaves) {
      EXPECT_TRUE(server.transport->DeliverEnd(/*clean=*/true));
    } else {
      server.transport->Wait(seconds(60));
      server.Run();
      EXPECT_TRUE(server.transport->written.starts_with("HTTP/1.1 408 "));
    }
    EXPECT_EQ(server.host.all_bodies_bytes, 0U);
  }
}

TEST_F(HttpConnection, DrainingEndsTheConnectionBehindItsRequest) {
  server_.Receive(Post("/stream", "{}") + Post("/echo", "later"));
  server_.host.draining = true;
  server_.connection->Drain();
  EXPECT_FALSE(client().closed());
  writer_->EndStream();
  server_.Run();
  EXPECT_TRUE(client().shut());
  EXPECT_EQ(client().written.find("later"), std::string::npos);
  client().Wait(milliseconds(250));
  EXPECT_TRUE(client().closed());
}

}  // namespace
}  // namespace hone::serve
