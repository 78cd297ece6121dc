// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What lies between a handler, on any thread, and the connection, on the server's thread: the bytes
// of one answer that are ready to go out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_types.h"
#include "serve/http_writer.h"

namespace hone::serve {

struct ExchangeOptions {
  bool head_only = false;  // the request was HEAD: no body goes out
  bool http10 = false;     // no chunks; the end of the connection ends a stream
  bool keep_alive = true;  // the connection may be used again
  HeaderList headers;      // go with every answer
  std::size_t max_queued_bytes = 0;
  // From any thread, without the exchange's lock: there is something for Take.
  std::function<void()> wake;
};

class Exchange {
 public:
  explicit Exchange(ExchangeOptions options);

  // The handler's side: see ResponseWriter.
  bool Send(Response response);
  bool BeginStream(StreamOptions stream);
  bool Write(std::string_view piece);
  bool EndStream();
  void AbortStream();
  void Abandon();
  CancelReason cancel_reason() const;
  void OnCancel(std::function<void(CancelReason)> callback);
  std::size_t queued_bytes() const;

  // The connection's side.
  struct Output {
    std::string bytes;
    bool complete = false;  // nothing follows
    bool broken = false;    // cut the connection off
  };
  Output Take();
  // So many bytes of what was taken are on their way.
  void Sent(std::size_t bytes);
  // Adds the keep-alive text if the stream wants one and nothing else waits.
  void KeepAlive();
  // Nobody waits for the answer any more. Runs the callbacks. The first reason stays.
  void Cancel(CancelReason reason);
  // Nothing goes out any more: wake is not called again.
  void Detach();

  int status() const;
  bool streamed() const;
  bool keep_alive() const;
  std::chrono::milliseconds keep_alive_interval() const;

 private:
  enum class State : std::uint8_t { kUnanswered, kStreaming, kComplete, kBroken };

  using Callbacks = std::vector<std::function<void(CancelReason)>>;

  // Each needs the lock.
  std::string HeadText(int status, std::string_view content_type, const HeaderList& headers,
                       std::string_view framing) const;
  bool AppendPiece(std::string_view piece);
  bool ShouldWake();
  bool Arrives() const { return !detached_ && reason_ == CancelReason::kNone; }

  ExchangeOptions options_;
  mutable std::mutex mutex_;  // guards what follows
  State state_ = State::kUnanswered;
  std::string ready_;          // for the next Take
  std::size_t in_flight_ = 0;  // taken, not yet sent
  bool woken_ = false;
  bool detached_ = false;
  CancelReason reason_ = CancelReason::kNone;
  int status_ = 0;
  bool streamed_ = false;
  std::chrono::milliseconds keep_alive_interval_{0};
  std::string keep_alive_text_;
  // May own the last writer, whose end comes back here: destroy them without the lock only.
  Callbacks callbacks_;
};

}  // namespace hone::serve
