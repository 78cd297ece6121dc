// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a handler sees of a request, and what it answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hone::serve {

struct Header {
  std::string name, value;
};

// Header fields in order. Names are compared without case.
class HeaderList {
 public:
  HeaderList() = default;
  HeaderList(std::initializer_list<Header> fields) : fields_(fields) {}

  void Add(std::string_view name, std::string_view value);
  // The value of the first field of that name, or null.
  const std::string* Find(std::string_view name) const;
  std::size_t Count(std::string_view name) const;

  std::size_t size() const { return fields_.size(); }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  std::vector<Header> fields_;
};

struct Request {
  std::string method;  // as sent, for example "POST"
  std::string path;    // without the query; percent escapes as sent
  std::string query;   // what follows the '?', as sent; never write it to a log
  int minor_version = 1;
  HeaderList headers = {};
  std::string body = {};
  std::string remote;  // "127.0.0.1:53218"
  // What the '{name}' parts of the route stood for, decoded.
  std::vector<std::pair<std::string, std::string>> path_values;

  // The decoded value of a '{name}' part, or "".
  std::string_view PathValue(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";  // "" sends no Content-Type
  std::string body = {};
  // Further fields. Content-Length, Transfer-Encoding, Connection and Date are the server's.
  HeaderList headers = {};
};

// Why an answer is no longer wanted.
enum class CancelReason : std::uint8_t {
  kNone,
  kClientGone,  // the client closed its connection, or its sending half
  kTooSlow,     // the client does not read
  kShutdown,    // the server stops
};

class ResponseWriter;

// Gets the request and the one way to answer it. It may answer before it returns or keep the writer
// and answer later, from any thread. A writer that goes unanswered becomes a 500.
using HttpHandler = std::function<void(Request request, std::shared_ptr<ResponseWriter> writer)>;

struct HttpLimits {
  std::size_t target_bytes = std::size_t{8} << 10;   // of the path with its query; else 414
  std::size_t header_bytes = std::size_t{32} << 10;  // of request line and header fields; else 431
  std::size_t header_count = 100;
  std::size_t body_bytes = std::size_t{16} << 20;         // of one request; else 413
  std::size_t all_bodies_bytes = std::size_t{128} << 20;  // of all requests at once; else 503
  std::size_t connections = 512;                          // open at once; others get a 503
  std::size_t queued_bytes = std::size_t{1} << 20;  // of a stream that its client has yet to read
  // Times in total, not from one byte to the next.
  std::chrono::milliseconds header_time{10'000};  // for request line and header fields; else 408
  std::chrono::milliseconds body_time{60'000};    // for the body; else 408
  std::chrono::milliseconds idle_time{75'000};    // between requests of one connection
  std::chrono::milliseconds write_stall_time{30'000};  // for the client to read 64 KiB
  std::chrono::milliseconds linger_time{2'000};        // after an answer that ends the connection
  std::chrono::milliseconds cancel_time{1'000};  // for cancelled requests to end when it stops
};

// One finished request, for an access log: no bodies, header fields or query.
struct HttpAccess {
  std::string remote, method, path;
  int status = 0;  // 0: it ended before an answer began
  std::uint64_t request_body_bytes = 0;
  std::uint64_t response_bytes = 0;  // with header
  std::chrono::microseconds duration{0};
  bool streamed = false;
  CancelReason cancelled = CancelReason::kNone;
};

struct HttpOptions {
  // A name or an address; "localhost" is every loopback address. Port 0 takes a free one.
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::string api_key = {};   // "": no key asked for
  bool allow_no_key = false;  // without it Start refuses to listen off loopback with no key
  // Names that a Host header may have besides the loopback names and the address reached.
  std::vector<std::string> allow_hosts = {};
  // Origins of other sites whose pages may use this server: "https://example.org", "*" or "null".
  std::vector<std::string> allow_origins = {};
  HttpLimits limits = {};
  int num_threads = 4;  // that run handlers
  // After each request, on the server's own thread: must not block.
  std::function<void(const HttpAccess&)> access_log = {};
};

}  // namespace hone::serve
