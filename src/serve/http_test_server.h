// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// For tests: a server with one route for each way to answer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/http_client.h"
#include "serve/http_server.h"

namespace hone::serve {

//   GET  /hello          {"hello":true}
//   GET  /quick          the same on the server's thread, without the key
//   POST /echo           the body
//   GET  /models/{id*}   the id
//   POST /keep           kept unanswered in kept()
//   POST /block          blocks its thread until the test ends, or the request is cancelled
//   POST /stream         an event stream that is kept, keep-alive every 50 ms
//   GET  /big            8 MiB of text
//   GET  /page           HTML
//   GET  /throw, /drop, /bad   throws, forgets its writer, sends a header with a line break
class TestServer {
 public:
  // Start must succeed; its status is given to start_status otherwise.
  explicit TestServer(HttpOptions options = FastOptions());
  ~TestServer();

  // Small sizes: 8 KiB of header, 64 KiB of body, streams of 256 KiB. A cancelled request has 10 s
  // to end.
  static HttpOptions FastOptions();
  // Short times as well: header and body 300 ms, idle 400 ms, stall and linger 300 ms. Only for
  // clients that are slow on purpose: a busy machine makes others slow too.
  static HttpOptions ShortTimes();

  HttpServer& server() { return *server_; }
  std::uint16_t port() const { return server_->port(); }
  // The writers of /keep and /stream, in the order they came.
  std::shared_ptr<ResponseWriter> WaitForWriter(std::size_t idx);
  std::size_t num_writers();
  void ForgetWriters();
  std::vector<HttpAccess> WaitForLog(std::size_t size);
  int num_blocked() const { return num_blocked_; }
  void Unblock() { unblock_ = true; }

 private:
  void AddRoutes();
  void Keep(std::shared_ptr<ResponseWriter> writer);

  std::mutex mutex_;  // guards the following two
  std::vector<std::shared_ptr<ResponseWriter>> writers_;
  std::vector<HttpAccess> log_;
  std::atomic<int> num_blocked_{0};
  std::atomic<bool> unblock_{false};
  std::atomic<bool> ended_{false};
  std::unique_ptr<HttpServer> server_;
};

}  // namespace hone::serve
