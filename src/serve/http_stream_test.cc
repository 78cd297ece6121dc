// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Answers that come later or piece by piece, and clients that do not wait for them.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/http_client.h"
#include "serve/http_test_server.h"

namespace hone::serve {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How long it took until the writer was cancelled.
milliseconds TimeToCancel(const ResponseWriter& writer) {
  const auto start = Clock::now();
  EXPECT_TRUE(Eventually([&] { return writer.cancelled(); }));
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

TEST(HttpStream, SendsEachPieceAtOnce) {
  TestServer server;
  TestClient client(server.port());
  client.Send(Post("/stream", "{}"));
  const auto writer = server.WaitForWriter(0);
  ASSERT_TRUE(client.ReceiveUntil("\r\n\r\n"));  // the header does not wait for the first piece
  EXPECT_TRUE(writer->Write(SseEvent("one")));
  ASSERT_TRUE(client.ReceiveUntil("data: one\n\n"));
  EXPECT_TRUE(writer->Write(""));  // nothing, and not the end
  EXPECT_TRUE(writer->Write(SseEvent("two")));
  ASSERT_TRUE(client.ReceiveUntil("data: two\n\n"));
  EXPECT_TRUE(writer->EndStream());
  EXPECT_FALSE(writer->EndStream());
  EXPECT_FALSE(writer->Write("late"));
  const Answer answer = client.ReceiveAnswer();
  EXPECT_TRUE(answer.whole);
  EXPECT_TRUE(answer.body.starts_with("data: one\n\n"));
  EXPECT_EQ(answer.Field("Content-Type"), "text/event-stream");
  EXPECT_EQ(answer.Field("Transfer-Encoding"), "chunked");
  EXPECT_EQ(answer.Field("X-Accel-Buffering"), "no");
  // The connection goes on.
  EXPECT_EQ(client.Ask(Get("/hello")).status, 200);
  const HttpAccess access = server.WaitForLog(2)[0];
  EXPECT_TRUE(access.streamed);
  EXPECT_EQ(access.cancelled, CancelReason::kNone);
}

TEST(HttpStream, KeepsTheConnectionAliveBetweenPieces) {
  TestServer server;
  TestClient client(server.port());
  const std::string comment = ": keep-alive\n\n";
  const auto start = Clock::now();
  client.Send(Post("/stream", "{}"));
  const auto writer = server.WaitForWriter(0);
  ASSERT_TRUE(client.ReceiveUntil(comment));
  writer->Write(SseEvent("x"));
  writer->EndStream();
  const Answer answer = client.ReceiveAnswer();
  const auto most = (Clock::now() - start) / milliseconds(50);
  std::string_view rest = answer.body;
  std::int64_t n = 0;
  const auto skip_comments = [&] {
    for (; rest.starts_with(comment); ++n) rest.remove_prefix(comment.size());
  };
  skip_comments();
  EXPECT_GE(n, 1);
  ASSERT_TRUE(rest.starts_with("data: x\n\n")) << answer.body;
  rest.remove_prefix(9);
  skip_comments();  // on a busy machine the end comes late
  EXPECT_EQ(rest, "");
  EXPECT_LE(n, most);
}

TEST(HttpStream, OldClientsGetAPlainBody) {
  TestServer server;
  TestClient client(server.port());
  client.Send("GET /stream HTTP/1.0\r\nHost: localhost\r\n\r\n");
  const auto writer = server.WaitForWriter(0);
  writer->Write("abc");
  writer->EndStream();
  const std::string all = client.ReceiveAll();
  EXPECT_NE(all.find("Connection: close\r\n"), std::string::npos);
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_TRUE(all.ends_with("\r\n\r\nabc")) << all;
}

TEST(HttpStream, HeadGetsNoPieces) {
  TestServer server;
  TestClient client(server.port());
  client.Send("HEAD /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto writer = server.WaitForWriter(0);
  EXPECT_TRUE(writer->Write("abc"));
  EXPECT_TRUE(writer->EndStream());
  EXPECT_EQ(client.ReceiveAnswer(/*head=*/true).status, 200);
  EXPECT_EQ(client.Ask(Get("/hello")).body, "{\"hello\":true}");
}

TEST(HttpStream, ABrokenStreamDoesNotLookComplete) {
  TestServer server;
  for (const bool abort : {true, false}) {
    TestClient client(server.port());
    client.Send(Post("/stream", "{}"));
    auto writer = server.WaitForWriter(0);
    writer->Write(SseEvent("x"));
    ASSERT_TRUE(client.ReceiveUntil("data: x\n\n"));
    if (abort) writer->AbortStream();
    server.ForgetWriters();
    writer.reset();
    const Answer answer = client.ReceiveAnswer();
    EXPECT_FALSE(answer.whole);
  }
}

// How a client can leave.
enum class Leave { kClose, kReset, kHalfClose };

// How long a server takes to notice.
milliseconds TimeToNotice(TestServer& server, const char* path, Leave way) {
  TestClient client(server.port());
  const std::size_t idx = server.num_writers();
  client.Send(Post(path, "{}"));
  const auto writer = server.WaitForWriter(idx);
  std::atomic<int> calls{0};
  writer->OnCancel([&](CancelReason reason) {
    EXPECT_EQ(reason, CancelReason::kClientGone);
    ++calls;
  });
  SleepMs(20);
  EXPECT_FALSE(writer->cancelled());
  if (way == Leave::kClose) client.Close();
  if (way == Leave::kReset) client.Reset();
  if (way == Leave::kHalfClose) client.EndSending();
  const milliseconds time = TimeToCancel(*writer);
  EXPECT_TRUE(Eventually([&] { return calls == 1; }));
  writer->OnCancel([&](CancelReason /*reason*/) { ++calls; });  // at once
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(writer->Write("x"));
  writer->EndStream();
  writer->Send({});
  return time;
}

// Streaming, and with nothing said yet. A busy machine may hold up some tries.
TEST(HttpStream, NoticesClientsThatLeaveWithin200Ms) {
  TestServer server;
  for (const char* path : {"/stream", "/keep"}) {
    for (const Leave way : {Leave::kClose, Leave::kReset, Leave::kHalfClose}) {
      milliseconds time{1'000'000};
      for (int i = 0; i < 20 && time >= milliseconds(200); ++i) {
        time = TimeToNotice(server, path, way);
      }
      EXPECT_LT(time, milliseconds(200)) << path << static_cast<int>(way);
    }
  }
  for (const HttpAccess& access : server.WaitForLog(6)) {
    EXPECT_EQ(access.cancelled, CancelReason::kClientGone) << access.path;
  }
}

// So much sent ahead that the server stops reading: the end is noticed all the same.
TEST(HttpStream, NoticesClientsThatLeaveBehindTheirNextRequests) {
  TestServer server;
  TestClient client(server.port());
  client.Send(Post("/keep", "{}"));
  const auto writer = server.WaitForWriter(0);
  client.Send(Post("/echo", std::string(50'000, 'a')) + Post("/echo", std::string(50'000, 'a')));
  SleepMs(50);
  EXPECT_FALSE(writer->cancelled());
  client.Close();
  EXPECT_TRUE(Eventually([&] { return writer->cancelled(); }));
}

// A request that no thread has taken yet is dropped when its client leaves.
TEST(HttpStream, DropsQueuedRequestsOfClientsThatLeft) {
  TestServer server;
  TestClient a(server.port());
  TestClient b(server.port());
  a.Send(Post("/block", "{}"));
  b.Send(Post("/block", "{}"));
  ASSERT_TRUE(Eventually([&] { return server.num_blocked() == 2; }));
  {
    TestClient gone(server.port());
    gone.Send(Post("/keep", "{}"));
    ASSERT_TRUE(Eventually([&] { return server.server().load().requests == 3; }));
  }
  TestClient waits(server.port());
  waits.Send(Post("/keep", "{}"));
  ASSERT_TRUE(Eventually([&] { return server.server().load().requests == 4; }));
  SleepMs(50);
  server.Unblock();
  server.WaitForWriter(0)->Send({.body = "mine"});
  EXPECT_EQ(waits.ReceiveAnswer().body, "mine");
  EXPECT_EQ(server.num_writers(), 1U);
}

// One that reads nothing is cut off, and the others do not feel it.
TEST(HttpStream, SlowReadersAreCutOffAlone) {
  TestServer server;
  TestClient slow(server.port(), 4096);
  TestClient good(server.port());
  slow.Send(Post("/stream", "{}"));
  const auto to_slow = server.WaitForWriter(0);
  good.Send(Post("/stream", "{}"));
  const auto to_good = server.WaitForWriter(1);
  std::atomic<int> calls{0};
  to_slow->OnCancel([&](CancelReason /*reason*/) { ++calls; });
  const std::string event = SseEvent(std::string(1000, 'x'));
  milliseconds longest{0};
  int sent = 0;
  for (; sent < 20'000; ++sent) {
    const auto start = Clock::now();
    if (!to_slow->Write(event)) break;
    longest = std::max(longest, std::chrono::duration_cast<milliseconds>(Clock::now() - start));
    if (sent % 100 == 0) {
      ASSERT_TRUE(to_good->Write(SseEvent("ok")));
      ASSERT_TRUE(good.ReceiveUntil("data: ok\n\n", milliseconds(5000)));
    }
  }
  EXPECT_LT(sent, 20'000);
  EXPECT_LT(longest, milliseconds(10'000));  // a write never waits for the client: that is 30 s
  EXPECT_EQ(to_slow->cancel_reason(), CancelReason::kTooSlow);
  EXPECT_TRUE(Eventually([&] { return calls == 1; }));
  EXPECT_FALSE(to_good->cancelled());
  to_good->EndStream();
  EXPECT_TRUE(good.ReceiveAnswer().whole);
  ASSERT_EQ(server.WaitForLog(2)[0].cancelled, CancelReason::kTooSlow);
}

// A whole answer may be larger than the queue of a stream, but not wait for ever to be read.
TEST(HttpStream, AnswersThatNobodyReadsAreCutOff) {
  TestServer patient;
  TestClient reads(patient.port());
  EXPECT_EQ(reads.Ask(Get("/big")).body.size(), std::size_t{8} << 20);
  TestServer server(TestServer::ShortTimes());
  TestClient slow(server.port(), 4096);
  slow.Send(Get("/big"));
  EXPECT_EQ(server.WaitForLog(1)[0].cancelled, CancelReason::kTooSlow);
  EXPECT_TRUE(Eventually([&] { return server.server().load().connections == 0; }));
}

TEST(HttpStream, ManyThreadsMayWrite) {
  TestServer server;
  TestClient client(server.port());
  client.Send(Post("/stream", "{}"));
  const auto writer = server.WaitForWriter(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_TRUE(writer->Write(SseEvent("event")));
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer->EndStream();
  const std::string event = SseEvent("event");
  std::string body = client.ReceiveAnswer().body;
  std::size_t n = 0;
  for (std::size_t at = body.find(event); at != std::string::npos; at = body.find(event, at + 1)) {
    ++n;
  }
  EXPECT_EQ(n, 800U);
}

// Ends and cancels that meet: nothing hangs, nothing is called twice.
TEST(HttpStream, EndsAndDisconnectsMayMeet) {
  TestServer server;
  for (int i = 0; i < 50; ++i) {
    auto client = std::make_unique<TestClient>(server.port());
    client->Send(Post("/stream", "{}"));
    auto writer = server.WaitForWriter(static_cast<std::size_t>(i));
    const auto calls = std::make_shared<std::atomic<int>>(0);
    writer->OnCancel([calls, weak = std::weak_ptr(writer)](CancelReason /*reason*/) { ++*calls; });
    std::thread ender([&] {
      writer->Write(SseEvent("x"));
      writer->EndStream();
    });
    if (i % 2 == 0) {
      client->Reset();
    } else {
      client->Close();
    }
    ender.join();
    EXPECT_LE(*calls, 1);
  }
  EXPECT_TRUE(Eventually([&] { return server.server().load().connections == 0; }));
  EXPECT_EQ(server.server().load().requests, 0);
}

// A callback that owns the only writer must not tie itself to the request for ever.
TEST(HttpStream, ACallbackMayOwnItsWriter) {
  TestServer server;
  TestClient client(server.port());
  client.Send(Post("/stream", "{}"));
  auto writer = server.WaitForWriter(0);
  const std::weak_ptr<ResponseWriter> watch = writer;
  writer->OnCancel([writer](CancelReason /*reason*/) { writer->EndStream(); });
  server.ForgetWriters();
  writer.reset();
  EXPECT_FALSE(watch.expired());
  client.Close();
  EXPECT_TRUE(Eventually([&] { return watch.expired(); }));
}

TEST(HttpShutdown, WaitsForRunningRequests) {
  TestServer server;
  TestClient idle(server.port());
  EXPECT_EQ(idle.Ask(Get("/hello")).status, 200);
  TestClient client(server.port());
  client.Send(Post("/stream", "{}"));
  const auto writer = server.WaitForWriter(0);
  std::thread stopper([&] { server.server().Stop(milliseconds(60'000)); });
  EXPECT_EQ(idle.ReceiveAll(), "");  // ended at once
  EXPECT_FALSE(idle.timed_out());
  ASSERT_TRUE(Eventually([&] { return !TestClient(server.port()).connected(); }));
  EXPECT_FALSE(writer->cancelled());
  EXPECT_TRUE(writer->Write(SseEvent("last")));
  EXPECT_TRUE(writer->EndStream());
  const Answer answer = client.ReceiveAnswer();
  EXPECT_TRUE(answer.whole);
  EXPECT_NE(answer.body.find("data: last\n\n"), std::string::npos);
  stopper.join();
}

TEST(HttpShutdown, CancelsWhatTakesTooLong) {
  TestServer server;
  TestClient stream(server.port());
  stream.Send(Post("/stream", "{}"));
  const auto writer = server.WaitForWriter(0);
  TestClient block(server.port());
  block.Send(Post("/block", "{}"));
  ASSERT_TRUE(Eventually([&] { return server.num_blocked() == 1; }));
  const auto watched = std::weak_ptr(writer);
  writer->OnCancel([watched](CancelReason reason) {
    EXPECT_EQ(reason, CancelReason::kShutdown);
    if (const auto w = watched.lock()) w->EndStream();
  });
  const auto start = Clock::now();
  server.server().Stop(milliseconds(100));
  EXPECT_LT(Clock::now() - start, milliseconds(9000));  // cancel_time is 10 s
  // Handlers that heed the word end their answers properly.
  EXPECT_TRUE(stream.ReceiveAnswer().whole);
  EXPECT_EQ(block.ReceiveAnswer().status, 200);
}

// For writers that are kept and so never end.
HttpOptions KeptWriters() {
  HttpOptions options = TestServer::FastOptions();
  options.limits.cancel_time = milliseconds(20);
  return options;
}

TEST(HttpShutdown, WritersOutliveTheServer) {
  std::shared_ptr<ResponseWriter> stream;
  std::shared_ptr<ResponseWriter> whole;
  {
    TestServer server(KeptWriters());
    TestClient a(server.port());
    a.Send(Post("/stream", "{}"));
    stream = server.WaitForWriter(0);
    TestClient b(server.port());
    b.Send(Post("/keep", "{}"));
    whole = server.WaitForWriter(1);
    server.server().Stop(milliseconds(0));
  }
  EXPECT_EQ(stream->cancel_reason(), CancelReason::kShutdown);
  EXPECT_FALSE(stream->Write("x"));
  EXPECT_FALSE(stream->EndStream());
  EXPECT_FALSE(whole->Send({}));
}

// The server's thread is held up until Stop waits for it no longer.
TEST(HttpShutdown, ClosesConnectionsThatItsThreadDoesNotComeTo) {
  TestServer server(KeptWriters());
  auto leaves = std::make_unique<TestClient>(server.port());
  leaves->Send(Post("/stream", "{}"));
  const auto holds_up = server.WaitForWriter(0);
  TestClient stays(server.port());
  stays.Send(Post("/stream", "{}"));
  const auto writer = server.WaitForWriter(1);
  holds_up->OnCancel([](CancelReason /*reason*/) { SleepMs(1600); });
  std::thread stopper([&] { server.server().Stop(milliseconds(100)); });
  ASSERT_TRUE(Eventually([&] { return !TestClient(server.port()).connected(); }));
  leaves.reset();
  stopper.join();
  EXPECT_EQ(server.server().load().connections, 0);
  EXPECT_EQ(server.server().load().requests, 0);
  EXPECT_EQ(writer->cancel_reason(), CancelReason::kShutdown);
  EXPECT_FALSE(writer->Write("x"));
  EXPECT_EQ(server.WaitForLog(2).size(), 2U);
  EXPECT_FALSE(stays.ReceiveAnswer().whole);
  EXPECT_FALSE(stays.timed_out());
}

}  // namespace
}  // namespace hone::serve
