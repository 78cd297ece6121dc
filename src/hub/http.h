// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// HTTP for downloads: many requests at once in one thread, redirects followed without giving the
// token to another host, everything that a server says limited in size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"

namespace hone::hub {

struct HttpRequest {
  std::string url;
  std::string token;        // goes to the origin of url and nowhere else
  bool head = false;        // headers only; a redirect to another origin is an answer, not followed
  std::uint64_t begin = 0;  // bytes [begin, end) if end > 0
  std::uint64_t end = 0;
  int total_seconds = 0;  // the longest that it may take, 0 for any time
};

struct HttpResponse {
  long status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string host;                                          // that answered, for messages
  std::string error;                                         // what came instead of a body, cut

  // The value of the header, or "".
  std::string_view Header(std::string_view name) const;
};

struct HttpResult {
  HttpResponse response;
  // Ok if an answer came, whatever its status. Else the sink's error or what is wrong on the way.
  Status status;
  bool from_network = false;  // the status is the network's, so that another try may help
  bool unreachable = false;   // and there was no connection at all
};

// Receives the body of a 2xx answer piece by piece; an error ends the request.
using HttpSink = std::function<Status(const HttpResponse&, ByteSpan)>;
using HttpDone = std::function<void(HttpResult)>;

// The host of a web address in lower case, "" if it is none.
std::string HostOfUrl(const std::string& url);

class HttpLoop {
 public:
  struct Options {
    int stall_seconds = 30;
    std::string ca_file;
  };
  // Fails in a build without libcurl.
  static Result<std::unique_ptr<HttpLoop>> Create(const Options& options);
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;
  ~HttpLoop();

  // Done is called once, from Run, unless the request is cancelled before. It may start others.
  Result<std::uint64_t> Start(HttpRequest request, HttpSink sink, HttpDone done);
  // Not from a sink.
  void Cancel(std::uint64_t id);
  // Moves bytes; waits at most so long for some.
  Status Run(int milliseconds);
  std::size_t active() const;

 private:
  struct State;
  explicit HttpLoop(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::hub
