// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// One client connection: its requests in order, every check and every time limit.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http_error.h"
#include "serve/http_exchange.h"
#include "serve/http_parser.h"
#include "serve/http_policy.h"
#include "serve/http_router.h"
#include "serve/http_transport.h"
#include "serve/http_types.h"

namespace hone::serve {

class Connection;

// What the connections of a server share. On the server's thread.
struct ConnectionHost {
  const HttpOptions* options = nullptr;
  const HttpPolicy* policy = nullptr;
  const HttpRouter* router = nullptr;
  // Runs a task on another thread.
  std::function<void(std::function<void()>)> run_elsewhere;
  // Runs a task on the server's thread, from any.
  std::function<void(std::function<void()>)> post;
  // The connection has closed; not the time to destroy it.
  std::function<void(Connection*)> closed;
  std::size_t all_bodies_bytes = 0;           // held for requests now
  bool draining = false;                      // no further request on any connection
  std::atomic<std::int64_t> num_requests{0};  // being answered now; read from any thread
};

class Connection final : public TransportEvents, public std::enable_shared_from_this<Connection> {
 public:
  // host must outlive it.
  Connection(ConnectionHost& host, std::shared_ptr<Transport> transport);
  ~Connection() override;

  // Begins to read.
  void Start();
  // Says 503 instead, and ends.
  void Refuse();
  // Ends the connection after the request that runs, if any.
  void Drain();
  // Tells the handler of the request that runs.
  void Cancel(CancelReason reason);
  void Close();

  // Between two requests, with nothing of the next.
  bool is_idle() const { return state_ == State::kIdle && num_requests_ > 0; }
  bool has_request() const { return exchange_ != nullptr; }
  SteadyTime idle_since() const { return since_; }

  void OnRead(std::string_view bytes) override;
  void OnReadEnd(bool clean) override;
  void OnWritten(bool ok) override;
  void OnTimer() override;
  void OnFault() override;

 private:
  enum class State : std::uint8_t {
    kIdle,     // no byte of a request yet
    kHead,     // request line and fields
    kBody,     // the body
    kRunning,  // a handler answers
    kLinger,   // all is said; the client may still be sending
    kClosed,
  };

  void CloseBecause(CancelReason reason);
  void Advance();
  void OnHead();
  void OnComplete();
  // What to answer without asking a handler, if anything.
  std::optional<Response> CheckHead();
  std::optional<Response> AnswerOptions(const HttpRouter::Match& match);
  std::optional<HttpError> CheckRoute(const HttpRouter::Match& match);
  void SendContinue();
  void BeginExchange(bool keep_alive);
  void Answer(Response response, bool keep_alive);
  void Fail(const HttpError& error);
  void RunHandler();
  bool WantsKeepAlive() const;
  bool HasUnreadBody() const;

  void Flush();
  void WriteNext();
  void FinishRequest();
  void Linger();
  void LogRequest(CancelReason ended_by);
  void EndExchange();
  bool ReserveBody();
  void ReleaseBody();

  void ReadMore();
  void Enter(State state, std::chrono::milliseconds limit);
  void Rearm();
  void CheckRunning(SteadyTime now);

  ConnectionHost& host_;
  std::shared_ptr<Transport> transport_;
  RequestParser parser_;
  State state_ = State::kIdle;
  SteadyTime since_;                    // when state_ began
  std::optional<SteadyTime> deadline_;  // of state_
  std::optional<SteadyTime> armed_;     // what the timer waits for
  bool reading_ = false;
  bool peer_ended_ = false;
  std::uint64_t num_requests_ = 0;

  // Of the current request.
  const Route* route_ = nullptr;
  HeaderList cors_;
  std::shared_ptr<Exchange> exchange_;
  HttpAccess access_;
  SteadyTime began_;
  std::size_t reserved_body_bytes_ = 0;
  bool response_complete_ = false;

  // What goes out: bytes of out_ from out_at_ on.
  std::string out_;
  std::size_t out_at_ = 0;
  std::size_t writing_ = 0;  // bytes that the transport has now
  SteadyTime write_began_, last_sent_;
};

}  // namespace hone::serve
