// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_connection.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "serve/http_text.h"

namespace hone::serve {
namespace {

using std::chrono::milliseconds;

// The client must take so much within write_stall_time.
constexpr std::size_t kWritePieceBytes = 64 << 10;
// How much of later requests is read ahead while one runs.
constexpr std::size_t kReadAheadBytes = 64 << 10;
// With so much unread, a closed connection is noticed by looking. The end of a client that has sent
// more than the kernel holds is noticed when something is written.
constexpr milliseconds kLookInterval{100};

}  // namespace

Connection::Connection(ConnectionHost& host, std::shared_ptr<Transport> transport)
    : host_(host), transport_(std::move(transport)), parser_(host.options->limits) {
  transport_->SetEvents(this);
  since_ = began_ = transport_->Now();
}

Connection::~Connection() {
  if (state_ != State::kClosed) transport_->Close();
  if (exchange_ != nullptr) EndExchange();
  ReleaseBody();
}

void Connection::Start() {
  // A client that connects means to ask now.
  Enter(State::kIdle, host_.options->limits.header_time);
  ReadMore();
}

void Connection::Refuse() {
  Enter(State::kHead, host_.options->limits.header_time);
  Response response = ErrorResponse({.status = 503,
                                     .message = "the server has all the connections it allows",
                                     .code = "too_many_connections"});
  response.headers.Add("Retry-After", "5");
  Answer(std::move(response), /*keep_alive=*/false);
}

void Connection::Drain() {
  if (state_ == State::kIdle) Close();
}

void Connection::Cancel(CancelReason reason) {
  if (exchange_ != nullptr) exchange_->Cancel(reason);
}

void Connection::Close() {
  CloseBecause(host_.draining ? CancelReason::kShutdown : CancelReason::kClientGone);
}

void Connection::CloseBecause(CancelReason reason) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  transport_->Close();
  if (exchange_ != nullptr) {
    exchange_->Cancel(reason);
    LogRequest(reason);
    EndExchange();
  }
  ReleaseBody();  // of a request that was not all there
  host_.closed(this);
}

// Reading.

void Connection::ReadMore() {
  if (reading_ || peer_ended_ || state_ == State::kClosed) return;
  if (state_ == State::kRunning && parser_.buffered_bytes() >= kReadAheadBytes) return;
  reading_ = true;
  transport_->Read();
}

void Connection::OnRead(std::string_view bytes) {
  reading_ = false;
  if (state_ != State::kLinger) parser_.Append(bytes);
  Advance();
  ReadMore();
}

void Connection::OnReadEnd(bool clean) {
  reading_ = false;
  peer_ended_ = true;
  if (!clean || state_ == State::kLinger) {
    CloseBecause(CancelReason::kClientGone);
    return;
  }
  // It may still read, so that what is on its way goes out. Nobody starts work for it.
  if (state_ == State::kRunning) {
    exchange_->Cancel(CancelReason::kClientGone);
  } else {
    Advance();
  }
}

void Connection::Advance() {
  while (state_ == State::kIdle || state_ == State::kHead || state_ == State::kBody) {
    if (state_ == State::kIdle) began_ = transport_->Now();
    switch (parser_.Next()) {
      case RequestParser::Event::kNeedMore:
        if (peer_ended_ || (host_.draining && state_ == State::kIdle)) {
          Close();
        } else if (state_ == State::kIdle && parser_.started()) {
          Enter(State::kHead, host_.options->limits.header_time);
        } else if (state_ == State::kBody && !ReserveBody()) {
          break;
        }
        return;
      case RequestParser::Event::kHead:
        OnHead();
        break;
      case RequestParser::Event::kComplete:
        OnComplete();
        break;
      case RequestParser::Event::kError:
        Fail(parser_.error());
        break;
    }
  }
}

// Checks, from the cheapest on, before any of the body is read.

bool Connection::HasUnreadBody() const {
  return parser_.chunked() || parser_.content_length().value_or(0) > 0;
}

bool Connection::WantsKeepAlive() const {
  if (host_.draining || parser_.request().minor_version == 0) return false;
  for (const Header& field : parser_.request().headers) {
    if (!EqualsIgnoreCase(field.name, "Connection")) continue;
    for (const std::string_view word : SplitList(field.value)) {
      if (EqualsIgnoreCase(word, "close")) return false;
    }
  }
  return true;
}

void Connection::OnHead() {
  const Request& request = parser_.request();
  access_ = HttpAccess();
  access_.method = request.method;
  access_.path = request.path;
  Enter(State::kBody, host_.options->limits.body_time);
  if (auto response = CheckHead()) {
    // What follows may be a body that was not read, so nothing can come after it.
    Answer(*std::move(response), WantsKeepAlive() && !HasUnreadBody());
    return;
  }
  SendContinue();
}

std::optional<Response> Connection::CheckHead() {
  const Request& request = parser_.request();
  const HttpPolicy& policy = *host_.policy;
  auto error = policy.CheckHost(request, transport_->local_address(), parser_.target_authority());
  if (!error) error = policy.CheckOrigin(request);
  if (error) return ErrorResponse(*error);
  cors_ = policy.CorsHeaders(request);
  HttpRouter::Match match = host_.router->Find(request.method, request.path);
  if (auto response = AnswerOptions(match)) return response;
  route_ = match.route;
  if (route_ == nullptr || !route_->options.open) error = policy.CheckKey(request);
  if (!error) error = CheckRoute(match);
  const bool has_length = parser_.chunked() || parser_.content_length();
  if (!error) error = policy.CheckBody(request, has_length);
  if (!error && parser_.content_length().value_or(0) > host_.options->limits.body_bytes) {
    error =
        HttpError{.status = 413,
                  .message = StrCat("the body has ", *parser_.content_length(), " bytes, at most ",
                                    host_.options->limits.body_bytes, " are allowed"),
                  .code = "body_too_large"};
  }
  const std::string* expect = request.headers.Find("Expect");
  if (!error && expect != nullptr && !EqualsIgnoreCase(*expect, "100-continue")) {
    error = HttpError{.status = 417, .message = "the server can only expect 100-continue"};
  }
  if (!error) {
    parser_.request().path_values = std::move(match.values);
    return std::nullopt;
  }
  Response response = ErrorResponse(*error);
  if (error->status == 401) response.headers.Add("WWW-Authenticate", "Bearer");
  if (error->status == 405) response.headers.Add("Allow", match.methods);
  return response;
}

std::optional<Response> Connection::AnswerOptions(const HttpRouter::Match& match) {
  const Request& request = parser_.request();
  if (request.method != "OPTIONS" || match.route != nullptr) return std::nullopt;
  if (match.methods.empty() && request.path != "*") return std::nullopt;
  Response response;
  response.status = 204;
  response.content_type.clear();
  const bool asks = request.headers.Find("Access-Control-Request-Method") != nullptr;
  if (asks && request.path != "*") {
    response.headers = host_.policy->PreflightHeaders(request, match.methods);
  }
  if (!match.methods.empty()) response.headers.Add("Allow", match.methods);
  return response;
}

std::optional<HttpError> Connection::CheckRoute(const HttpRouter::Match& match) {
  const Request& request = parser_.request();
  if (match.bad_escape) {
    return HttpError{.status = 400, .message = "the path has a broken percent escape"};
  }
  if (!HttpRouter::IsKnownMethod(request.method)) {
    return HttpError{.status = 501, .message = "the server does not know this method"};
  }
  if (match.route != nullptr) return std::nullopt;
  if (match.methods.empty()) {
    return HttpError{.status = 404,
                     .message = StrCat("there is nothing at ", request.path),
                     .code = "unknown_url"};
  }
  return HttpError{.status = 405,
                   .message = StrCat(request.method, " does not go with ", request.path,
                                     ", which has ", match.methods),
                   .code = "method_not_allowed"};
}

void Connection::SendContinue() {
  const bool asked = parser_.request().headers.Find("Expect") != nullptr;
  if (!asked || !HasUnreadBody() || parser_.buffered_bytes() > 0) return;
  out_ += "HTTP/1.1 100 Continue\r\n\r\n";
  WriteNext();
}

// Bodies of all requests share one budget.
bool Connection::ReserveBody() {
  const std::size_t bytes = parser_.request().body.size();
  if (bytes <= reserved_body_bytes_) return true;
  host_.all_bodies_bytes += bytes - reserved_body_bytes_;
  reserved_body_bytes_ = bytes;
  if (host_.all_bodies_bytes <= host_.options->limits.all_bodies_bytes) return true;
  Response response = ErrorResponse(
      {.status = 503, .message = "the server holds too many large requests; try again later"});
  response.headers.Add("Retry-After", "5");
  Answer(std::move(response), /*keep_alive=*/false);
  return false;
}

void Connection::ReleaseBody() { host_.all_bodies_bytes -= std::exchange(reserved_body_bytes_, 0); }

void Connection::OnComplete() {
  if (!ReserveBody()) return;
  access_.request_body_bytes = parser_.request().body.size();
  BeginExchange(WantsKeepAlive());
  if (peer_ended_) exchange_->Cancel(CancelReason::kClientGone);
  RunHandler();
}

// Answering.

void Connection::BeginExchange(bool keep_alive) {
  ExchangeOptions options;
  options.head_only = parser_.request().method == "HEAD";
  options.http10 = parser_.request().minor_version == 0;
  options.keep_alive = keep_alive;
  options.headers = std::exchange(cors_, {});
  options.max_queued_bytes = host_.options->limits.queued_bytes;
  options.wake = [post = host_.post, self = weak_from_this()] {
    post([self] {
      if (const auto connection = self.lock()) connection->Flush();
    });
  };
  exchange_ = std::make_shared<Exchange>(std::move(options));
  response_complete_ = false;
  ++num_requests_;
  ++host_.num_requests;
  Enter(State::kRunning, milliseconds(0));
}

void Connection::Answer(Response response, bool keep_alive) {
  BeginExchange(keep_alive);
  exchange_->Send(std::move(response));
}

void Connection::Fail(const HttpError& error) {
  // The path is known from kBody on; what a broken request line said is no safe text for a log. A
  // method that the parser took is a plain word.
  if (state_ != State::kBody) {
    access_ = HttpAccess();
    access_.method = parser_.request().method;
  }
  Answer(ErrorResponse(error), /*keep_alive=*/false);
}

void Connection::RunHandler() {
  auto request = std::make_shared<Request>(std::move(parser_.request()));
  request->remote = transport_->remote_name();
  auto writer = std::make_shared<ResponseWriter>(exchange_);
  auto task = [handler = &route_->handler, request, writer]() mutable {
    if (writer->cancelled() && request->method != "GET" && request->method != "HEAD") {
      writer->SendError({.status = 503, .message = "the client went away"});
      return;
    }
    try {
      (*handler)(std::move(*request), std::move(writer));
    } catch (const std::exception&) {
      // The writer answers with a 500 when it goes; nothing of a handler's may end the server.
    }
  };
  if (route_->options.quick) {
    task();
  } else {
    host_.run_elsewhere(std::move(task));
  }
}

void Connection::Flush() {
  if (state_ != State::kRunning) return;
  Exchange::Output output = exchange_->Take();
  if (output.broken) {
    CloseBecause(CancelReason::kNone);  // the exchange knows why
    return;
  }
  out_ += output.bytes;
  response_complete_ = output.complete;
  WriteNext();
  Rearm();
}

void Connection::WriteNext() {
  if (writing_ > 0 || state_ == State::kClosed) return;
  if (out_at_ == out_.size()) {
    out_.clear();
    out_at_ = 0;
    if (state_ == State::kRunning && response_complete_) FinishRequest();
    return;
  }
  std::string piece = out_.substr(out_at_, kWritePieceBytes);
  out_at_ += piece.size();
  writing_ = piece.size();
  write_began_ = transport_->Now();
  transport_->Write(std::move(piece));
  Rearm();
}

void Connection::OnWritten(bool ok) {
  const std::size_t bytes = std::exchange(writing_, 0);
  last_sent_ = transport_->Now();
  if (!ok) {
    CloseBecause(CancelReason::kClientGone);
    return;
  }
  access_.response_bytes += bytes;
  if (exchange_ != nullptr) exchange_->Sent(bytes);
  WriteNext();
  Rearm();
}

void Connection::LogRequest(CancelReason ended_by) {
  access_.remote = transport_->remote_name();
  access_.status = exchange_->status();
  access_.streamed = exchange_->streamed();
  access_.cancelled = exchange_->cancel_reason();
  if (access_.cancelled == CancelReason::kNone) access_.cancelled = ended_by;
  access_.duration =
      std::chrono::duration_cast<std::chrono::microseconds>(transport_->Now() - began_);
  if (host_.options->access_log) host_.options->access_log(access_);
}

void Connection::EndExchange() {
  exchange_->Detach();
  exchange_.reset();
  --host_.num_requests;
  route_ = nullptr;
  ReleaseBody();
}

void Connection::FinishRequest() {
  const bool keep_alive = exchange_->keep_alive() && !host_.draining;
  LogRequest(CancelReason::kNone);
  EndExchange();
  if (!keep_alive) {
    Linger();
    return;
  }
  parser_.Restart();
  Enter(State::kIdle, host_.options->limits.idle_time);
  Advance();
  ReadMore();
}

// A socket that closes with bytes unread resets the connection, and the answer may be lost on its
// way. So the client gets time to read it and to close first.
void Connection::Linger() {
  if (peer_ended_) {
    Close();
    return;
  }
  transport_->ShutdownSend();
  const milliseconds limit = host_.options->limits.linger_time;
  Enter(State::kLinger, host_.draining ? std::min(limit, milliseconds(250)) : limit);
  ReadMore();
}

// Times.

void Connection::Enter(State state, milliseconds limit) {
  state_ = state;
  since_ = transport_->Now();
  deadline_.reset();
  if (limit.count() > 0) deadline_ = since_ + limit;
  Rearm();
}

void Connection::Rearm() {
  if (state_ == State::kClosed) return;
  std::optional<SteadyTime> next = deadline_;
  const auto earlier = [&](SteadyTime at) {
    if (!next || at < *next) next = at;
  };
  if (writing_ > 0) earlier(write_began_ + host_.options->limits.write_stall_time);
  if (state_ == State::kRunning) {
    if (!reading_ && !peer_ended_) earlier(transport_->Now() + kLookInterval);
    const milliseconds interval = exchange_->keep_alive_interval();
    if (interval.count() > 0 && writing_ == 0) earlier(std::max(last_sent_, since_) + interval);
  }
  // A timer that comes too early looks again, so that most writes need not set it.
  if (!next || (armed_ && *armed_ <= *next)) return;
  armed_ = next;
  transport_->SetTimer(*next);
}

void Connection::OnTimer() {
  armed_.reset();
  const SteadyTime now = transport_->Now();
  if (writing_ > 0 && now >= write_began_ + host_.options->limits.write_stall_time) {
    CloseBecause(CancelReason::kTooSlow);
    return;
  }
  if (state_ == State::kRunning) {
    CheckRunning(now);
  } else if (deadline_ && now >= *deadline_) {
    if (state_ == State::kHead) {
      Fail({.status = 408, .message = "the request's header did not come in time"});
    } else if (state_ == State::kBody) {
      Fail({.status = 408, .message = "the request's body did not come in time"});
    } else {
      Close();
    }
  }
  Rearm();
}

void Connection::CheckRunning(SteadyTime now) {
  if (!reading_ && !peer_ended_ && transport_->IsPeerGone()) {
    peer_ended_ = true;
    exchange_->Cancel(CancelReason::kClientGone);
  }
  const milliseconds interval = exchange_->keep_alive_interval();
  if (interval.count() > 0 && writing_ == 0 && now >= std::max(last_sent_, since_) + interval) {
    exchange_->KeepAlive();
    Flush();
  }
}

void Connection::OnFault() { Close(); }

}  // namespace hone::serve
