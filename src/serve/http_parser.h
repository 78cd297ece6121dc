// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Bytes to requests, strictly: what two readers of HTTP may understand differently is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http_error.h"
#include "serve/http_types.h"

namespace hone::serve {

// HTTP/1.0 and 1.1. One thread at a time. After kError nothing more can be read.
class RequestParser {
 public:
  enum class Event : std::uint8_t {
    kNeedMore,
    kHead,  // once a request: request() has all but its body
    kComplete,
    kError,  // error() says what to answer
  };

  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();

  // What came from the client, in pieces of any size.
  void Append(std::string_view bytes);
  // Goes on with what is there. After kComplete: Restart, then the next request.
  Event Next();
  void Restart();

  // At least one byte of the current request is there.
  bool started() const { return started_; }
  // Bytes that are not part of the current request, or not yet.
  std::size_t buffered_bytes() const { return buffer_.size(); }
  // May be moved from after kComplete.
  Request& request() { return request_; }
  const Request& request() const { return request_; }
  const HttpError& error() const { return error_; }

  // From kHead on. The length that the client announced, if it did.
  std::optional<std::uint64_t> content_length() const { return content_length_; }
  bool chunked() const { return chunked_; }
  // The host part of a target in absolute form, else "".
  const std::string& target_authority() const { return target_authority_; }

 private:
  class Grammar;  // Boost.Beast
  enum class State : std::uint8_t { kHead, kBody, kComplete, kError };

  Event Fail(int status, std::string message);
  Event ReadHead();
  Event ReadBody();
  // Looks for the end of the header; 0 if it is not there yet, or after Fail.
  std::size_t FindHeadEnd();
  bool CheckHeadLines(std::string_view head);
  bool CheckRequestLine(std::string_view line);
  bool SplitTarget();
  bool CheckFraming();

  HttpLimits limits_;
  std::string buffer_;
  std::size_t scanned_ = 0;  // bytes of buffer_ that hold no end of the header
  bool started_ = false;
  State state_ = State::kHead;
  std::unique_ptr<Grammar> grammar_;
  Request request_;
  std::string target_;
  std::string target_authority_;
  std::optional<std::uint64_t> content_length_;
  bool chunked_ = false;
  HttpError error_;
};

}  // namespace hone::serve
