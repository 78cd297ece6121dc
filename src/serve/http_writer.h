// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The answer to one request, given at once or as a stream, from any thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http_error.h"
#include "serve/http_types.h"

namespace hone::serve {

class Exchange;

struct StreamOptions {
  int status = 200;
  std::string content_type = "text/event-stream";
  HeaderList headers = {};
  // Sent as it is whenever nothing else was for this long; 0: never.
  std::chrono::milliseconds keep_alive{0};
  std::string keep_alive_text = ": keep-alive\n\n";
};

// Thread-safe; nothing blocks. It may outlive the request, its connection and the server: then what
// is written goes nowhere. Destroying it unanswered sends a 500, or cuts off a stream.
class ResponseWriter {
 public:
  explicit ResponseWriter(std::shared_ptr<Exchange> exchange);
  ~ResponseWriter();
  ResponseWriter(const ResponseWriter&) = delete;
  ResponseWriter& operator=(const ResponseWriter&) = delete;

  // The whole answer. Only the first answer counts. False if it cannot arrive any more.
  bool Send(Response response);
  bool SendError(const HttpError& error) { return Send(ErrorResponse(error)); }

  // Status and header go out now, the body follows piece by piece.
  bool BeginStream(StreamOptions options);
  // For event streams a piece is one or more whole events, as SseEvent makes them: keep-alive text
  // goes between pieces. All that the client has yet to read is at most HttpLimits::queued_bytes,
  // one piece too. False: the stream was cut off; end the work behind it.
  bool Write(std::string_view piece);
  // The stream is complete.
  bool EndStream();
  // The stream failed: the client sees its connection break, not an end.
  void AbortStream();

  // True from the moment that nobody waits for the answer. What is sent anyway is no error.
  bool cancelled() const { return cancel_reason() != CancelReason::kNone; }
  CancelReason cancel_reason() const;
  // Calls callback when cancelled becomes true, on the server's own thread, so it must not block;
  // at once if it is true already. It is dropped when the answer is complete. Let it hold the
  // writer by weak_ptr: a callback that is the writer's only owner keeps the request waiting.
  void OnCancel(std::function<void(CancelReason)> callback);
  // Bytes of the stream that are not yet on their way.
  std::size_t queued_bytes() const;

 private:
  std::shared_ptr<Exchange> exchange_;
};

// An event of a text/event-stream: "data: " before each line of data, "event: " if name is given.
std::string SseEvent(std::string_view data, std::string_view name = "");

}  // namespace hone::serve
