// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server that is safe to leave on: limits and time limits everywhere, closed to the
// pages of other sites, streams that end when their client leaves.
//
//   HttpServer server(options);
//   server.Handle("GET", "/health", [](Request, std::shared_ptr<ResponseWriter> writer) {
//     writer->Send({.body = "{}"});
//   }, {.open = true, .quick = true});
//   HONE_TRY(server.Start());
//   ...
//   server.Stop(10s);
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serve/http_error.h"
#include "serve/http_router.h"
#include "serve/http_types.h"
#include "serve/http_writer.h"

namespace hone::serve {

class HttpServer {
 public:
  explicit HttpServer(HttpOptions options);
  // Stop(0).
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Before Start. See HttpRouter::Add.
  void Handle(std::string_view method, std::string_view pattern, HttpHandler handler,
              RouteOptions route = {});

  // Listens and returns; may be called once. kInvalidArgument: an option is wrong, or the address
  // can be reached from other machines and no key was given (HttpOptions::allow_no_key). kIo: the
  // port is taken, or may not be.
  Status Start();
  // After Start.
  std::uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8080"
  // After Start: what the operator should be told, each a sentence.
  std::vector<std::string> Warnings() const;

  // Takes no further connections and requests, lets running requests end for at most drain_time,
  // then cancels them (CancelReason::kShutdown) and soon closes their connections. Returns when
  // every handler has returned, so handlers that wait must look at their writer. Writers may live
  // on. From any thread but the server's own.
  void Stop(std::chrono::milliseconds drain_time);

  struct Load {
    std::int64_t connections = 0;  // open now
    std::int64_t requests = 0;     // being answered now
    std::uint64_t accepted = 0;    // connections so far
    std::uint64_t refused = 0;     // of them, for want of room
  };
  // From any thread.
  Load load() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::serve
