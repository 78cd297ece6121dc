// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_exchange.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "base/status.h"
#include "serve/http_error.h"
#include "serve/http_text.h"

namespace hone::serve {
namespace {

// Fields that the exchange writes itself.
bool IsOwnField(std::string_view name) {
  constexpr std::array<std::string_view, 6> kOwn = {
      "Content-Length", "Transfer-Encoding", "Connection", "Date", "Content-Type", "Keep-Alive"};
  return std::any_of(kOwn.begin(), kOwn.end(),
                     [&](std::string_view own) { return EqualsIgnoreCase(own, name); });
}

bool AreSendable(std::string_view content_type, const HeaderList& headers) {
  return IsFieldValue(content_type) &&
         std::all_of(headers.begin(), headers.end(), [](const Header& field) {
           return IsToken(field.name) && IsFieldValue(field.value) && !IsOwnField(field.name);
         });
}

bool HasNoBody(int status) { return status == 204 || status == 304 || status < 200; }

Response BadAnswer() {
  return ErrorResponse({.status = 500, .message = "the server made a header it may not send"});
}

// A page may load and be framed as its own policy says, never framed by others.
std::string PagePolicy(const std::string* own) {
  std::string policy = own == nullptr ? "default-src 'none'" : *own;
  if (policy.find("frame-ancestors") == std::string::npos) policy += "; frame-ancestors 'none'";
  return policy;
}

void AddField(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

Exchange::Exchange(ExchangeOptions options) : options_(std::move(options)) {}

std::string Exchange::HeadText(int status, std::string_view content_type, const HeaderList& headers,
                               std::string_view framing) const {
  std::string text = StrCat("HTTP/1.1 ", status, " ", ReasonPhrase(status), "\r\n");
  AddField(text, "Date", HttpDate(std::time(nullptr)));
  if (!content_type.empty()) AddField(text, "Content-Type", content_type);
  text += framing;
  AddField(text, "X-Content-Type-Options", "nosniff");
  AddField(text, "Referrer-Policy", "no-referrer");
  if (headers.Find("Cache-Control") == nullptr) AddField(text, "Cache-Control", "no-store");
  const bool page = content_type.starts_with("text/html");
  if (page) {
    AddField(text, "Content-Security-Policy", PagePolicy(headers.Find("Content-Security-Policy")));
    AddField(text, "X-Frame-Options", "DENY");
  }
  for (const HeaderList* list : {&headers, &options_.headers}) {
    for (const Header& field : *list) {
      if (page && EqualsIgnoreCase(field.name, "Content-Security-Policy")) continue;
      AddField(text, field.name, field.value);
    }
  }
  if (!options_.keep_alive) AddField(text, "Connection", "close");
  text += "\r\n";
  return text;
}

bool Exchange::ShouldWake() {
  if (woken_ || detached_) return false;
  woken_ = true;
  return true;
}

bool Exchange::Send(Response response) {
  if (!AreSendable(response.content_type, response.headers)) response = BadAnswer();
  Callbacks dropped;
  bool wake = false;
  bool arrives = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kUnanswered) return false;
    status_ = response.status;
    std::string framing;
    if (!HasNoBody(status_)) framing = StrCat("Content-Length: ", response.body.size(), "\r\n");
    const std::string head = HeadText(status_, response.content_type, response.headers, framing);
    const bool with_body = !options_.head_only && !HasNoBody(status_);
    // First, so that nothing of a response is there if there is no memory for all of it.
    ready_.reserve(ready_.size() + head.size() + (with_body ? response.body.size() : 0));
    ready_ += head;
    if (with_body) ready_ += response.body;
    state_ = State::kComplete;
    dropped.swap(callbacks_);
    wake = ShouldWake();
    arrives = Arrives();
  }
  if (wake) options_.wake();
  return arrives;
}

bool Exchange::BeginStream(StreamOptions stream) {
  if (!AreSendable(stream.content_type, stream.headers)) {
    Send(BadAnswer());
    return false;
  }
  bool wake = false;
  bool arrives = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kUnanswered) return false;
    status_ = stream.status;
    streamed_ = true;
    state_ = State::kStreaming;
    if (options_.http10) options_.keep_alive = false;
    if (stream.content_type == "text/event-stream") {
      // Proxies would gather the events.
      stream.headers.Add("X-Accel-Buffering", "no");
    }
    ready_ += HeadText(status_, stream.content_type, stream.headers,
                       options_.http10 ? "" : "Transfer-Encoding: chunked\r\n");
    keep_alive_interval_ = stream.keep_alive;
    keep_alive_text_ = std::move(stream.keep_alive_text);
    wake = ShouldWake();
    arrives = Arrives();
  }
  if (wake) options_.wake();
  return arrives;
}

// False if the client lags too far behind: the stream is broken then.
bool Exchange::AppendPiece(std::string_view piece) {
  if (options_.head_only || piece.empty()) return true;  // an empty chunk would end the stream
  if (piece.size() + ready_.size() + in_flight_ > options_.max_queued_bytes) {
    state_ = State::kBroken;
    reason_ = CancelReason::kTooSlow;
    ready_.clear();
    return false;
  }
  if (options_.http10) {
    ready_ += piece;
    return true;
  }
  std::array<char, 20> size = {};
  ready_.reserve(ready_.size() + size.size() + piece.size() + 4);  // no half of a chunk, as in Send
  const auto end = std::to_chars(size.data(), size.data() + size.size(), piece.size(), 16).ptr;
  ready_.append(size.data(), end).append("\r\n").append(piece).append("\r\n");
  return true;
}

bool Exchange::Write(std::string_view piece) {
  bool wake = false;
  bool arrives = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kStreaming || reason_ != CancelReason::kNone) return false;
    arrives = AppendPiece(piece);
    wake = ShouldWake();
  }
  if (wake) options_.wake();
  return arrives;
}

bool Exchange::EndStream() {
  Callbacks dropped;
  bool wake = false;
  bool arrives = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kStreaming) return false;
    if (!options_.head_only && !options_.http10) ready_ += "0\r\n\r\n";
    state_ = State::kComplete;
    dropped.swap(callbacks_);
    wake = ShouldWake();
    arrives = Arrives();
  }
  if (wake) options_.wake();
  return arrives;
}

void Exchange::AbortStream() {
  Callbacks dropped;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kStreaming) return;
    state_ = State::kBroken;
    dropped.swap(callbacks_);
    wake = ShouldWake();
  }
  if (wake) options_.wake();
}

void Exchange::Abandon() {
  AbortStream();
  Send(ErrorResponse({.status = 500, .message = "the server gave up this request unanswered"}));
}

CancelReason Exchange::cancel_reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void Exchange::OnCancel(std::function<void(CancelReason)> callback) {
  CancelReason reason = CancelReason::kNone;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kComplete) return;
    reason = reason_;
    if (reason == CancelReason::kNone && state_ != State::kBroken) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  if (reason != CancelReason::kNone) callback(reason);
}

std::size_t Exchange::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  return ready_.size() + in_flight_;
}

Exchange::Output Exchange::Take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  Output output;
  output.bytes = std::exchange(ready_, {});
  in_flight_ += output.bytes.size();
  output.complete = state_ == State::kComplete;
  output.broken = state_ == State::kBroken;
  return output;
}

void Exchange::Sent(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  in_flight_ -= std::min(bytes, in_flight_);
}

void Exchange::KeepAlive() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kStreaming && ready_.empty() && in_flight_ == 0) {
    AppendPiece(keep_alive_text_);
  }
}

void Exchange::Cancel(CancelReason reason) {
  Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kComplete) return;
    if (reason_ == CancelReason::kNone) {
      if (state_ == State::kBroken) return;  // the handler broke it off
      reason_ = reason;
    }
    reason = reason_;
    callbacks.swap(callbacks_);
  }
  for (const auto& callback : callbacks) callback(reason);
}

void Exchange::Detach() {
  Callbacks dropped;
  const std::lock_guard lock(mutex_);
  detached_ = true;
  ready_.clear();
  in_flight_ = 0;
  dropped.swap(callbacks_);
}

int Exchange::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}
bool Exchange::streamed() const {
  const std::lock_guard lock(mutex_);
  return streamed_;
}
bool Exchange::keep_alive() const {
  const std::lock_guard lock(mutex_);
  return options_.keep_alive;
}
std::chrono::milliseconds Exchange::keep_alive_interval() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kStreaming ? keep_alive_interval_ : std::chrono::milliseconds(0);
}

}  // namespace hone::serve
