// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Requests to responses: method, path and body in, a whole response or a stream out. No sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/openai/backend.h"
#include "serve/openai/field_reader.h"
#include "serve/openai/wire.h"

namespace hone::serve::openai {

struct ResponseHead {
  int http_status = 200;
  // Content-Type first. Not those of the connection, such as Content-Length.
  std::vector<std::pair<std::string, std::string>> headers = {};
  bool stream = false;  // the body comes in pieces, each to be sent at once
};

// Where a response goes. Calls come from one thread at a time, maybe from a thread of the backend,
// which must not wait for a slow client: Write queues.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  // Once, first; again if Write or Finish had no memory for a response that is no stream: then that
  // one is forgotten.
  virtual void Begin(const ResponseHead& head) = 0;
  virtual void Write(std::string_view bytes) = 0;
  virtual void Finish() = 0;  // once, last
  // The client is gone, or so slow that the answer should end. From then on only Finish is
  // called, maybe without Begin.
  virtual bool cancelled() const = 0;
};

struct ApiOptions {
  ReadOptions read = {};
  IdMaker ids = MakeId;
  std::function<std::int64_t()> now = {};  // seconds since 1970; empty: the clock of the machine
};

struct ApiRequest {
  std::string_view method, path;  // a query behind the path is ignored
  std::string_view body;
};

// Whether Handle knows the path, for any method.
bool IsApiPath(std::string_view path);

// Answers a request. The response may be complete on return, or go on in threads of the backend;
// then the result is not null, and its Cancel ends it early (the client hung up). Errors are
// responses, too. backend and sink must live until sink.Finish; nothing of request is needed after
// the return.
std::shared_ptr<RunningRequest> Handle(const ApiRequest& request, Backend& backend,
                                       const ApiOptions& options,
                                       std::shared_ptr<ResponseSink> sink);

// Writes a whole response: an error, also those that an HTTP layer finds by itself, or JSON.
void WriteError(const ApiError& error, ResponseSink& sink);
void WriteJson(const Json& json, ResponseSink& sink);

}  // namespace hone::serve::openai
