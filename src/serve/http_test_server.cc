// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_test_server.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

namespace hone::serve {

using std::chrono::milliseconds;
using Writer = std::shared_ptr<ResponseWriter>;

HttpOptions TestServer::FastOptions() {
  HttpOptions options;
  options.num_threads = 2;
  options.limits.header_bytes = 8 << 10;
  options.limits.target_bytes = 2 << 10;
  options.limits.body_bytes = 64 << 10;
  options.limits.queued_bytes = 256 << 10;
  options.limits.cancel_time = milliseconds(10'000);
  return options;
}

HttpOptions TestServer::ShortTimes() {
  HttpOptions options = FastOptions();
  options.limits.header_time = milliseconds(300);
  options.limits.body_time = milliseconds(300);
  options.limits.idle_time = milliseconds(400);
  options.limits.write_stall_time = milliseconds(300);
  options.limits.linger_time = milliseconds(300);
  return options;
}

TestServer::TestServer(HttpOptions options) {
  options.access_log = [this](const HttpAccess& access) {
    const std::lock_guard lock(mutex_);
    log_.push_back(access);
  };
  server_ = std::make_unique<HttpServer>(std::move(options));
  AddRoutes();
  const Status started = server_->Start();
  EXPECT_TRUE(started.ok()) << started.message();
}

TestServer::~TestServer() {
  unblock_ = true;
  // Nobody would end them, and the server would wait.
  ended_ = true;
  ForgetWriters();
  server_.reset();
}

void TestServer::AddRoutes() {
  const auto hello = [](const Request&, const Writer& writer) {
    writer->Send({.body = "{\"hello\":true}"});
  };
  server_->Handle("GET", "/hello", hello);
  server_->Handle("GET", "/quick", hello, {.open = true, .quick = true});
  server_->Handle("POST", "/echo", [](Request request, const Writer& writer) {
    writer->Send({.body = std::move(request.body)});
  });
  server_->Handle("GET", "/models/{id*}", [](const Request& request, const Writer& writer) {
    writer->Send({.content_type = "text/plain", .body = std::string(request.PathValue("id"))});
  });
  server_->Handle("POST", "/keep", [this](const Request&, Writer writer) { Keep(writer); });
  server_->Handle("POST", "/block", [this](const Request&, const Writer& writer) {
    ++num_blocked_;
    while (!unblock_ && !writer->cancelled()) SleepMs(1);
    --num_blocked_;
    writer->Send({.body = "{}"});
  });
  server_->Handle("POST", "/stream", [this](const Request&, const Writer& writer) {
    writer->BeginStream({.keep_alive = milliseconds(50)});
    Keep(writer);
  });
  server_->Handle("GET", "/stream", [this](const Request&, const Writer& writer) {
    writer->BeginStream({});
    Keep(writer);
  });
  server_->Handle("GET", "/big", [](const Request&, const Writer& writer) {
    writer->Send({.content_type = "text/plain", .body = std::string(8 << 20, 'x')});
  });
  server_->Handle("GET", "/page", [](const Request&, const Writer& writer) {
    writer->Send({.content_type = "text/html; charset=utf-8",
                  .body = "<p>",
                  .headers = {{"Content-Security-Policy", "default-src 'self'"}}});
  });
  server_->Handle("GET", "/throw",
                  [](const Request&, const Writer&) { throw std::runtime_error("secret detail"); });
  server_->Handle("GET", "/drop", [](const Request&, const Writer&) {});
  server_->Handle("GET", "/bad", [](const Request&, const Writer& writer) {
    writer->Send({.headers = {{"X", "a\r\nSet-Cookie: b"}}});
  });
}

void TestServer::Keep(std::shared_ptr<ResponseWriter> writer) {
  const std::lock_guard lock(mutex_);
  if (!ended_) writers_.push_back(std::move(writer));
}

std::size_t TestServer::num_writers() {
  const std::lock_guard lock(mutex_);
  return writers_.size();
}

std::shared_ptr<ResponseWriter> TestServer::WaitForWriter(std::size_t idx) {
  EXPECT_TRUE(Eventually([&] { return num_writers() > idx; }));
  const std::lock_guard lock(mutex_);
  return writers_.at(idx);
}

void TestServer::ForgetWriters() {
  std::vector<Writer> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(writers_);
}

std::vector<HttpAccess> TestServer::WaitForLog(std::size_t size) {
  const auto read = [this] {
    const std::lock_guard lock(mutex_);
    return log_;
  };
  EXPECT_TRUE(Eventually([&] { return read().size() >= size; }));
  return read();
}

}  // namespace hone::serve
