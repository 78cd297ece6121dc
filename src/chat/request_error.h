// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Why a request cannot be answered, and which part of it is to blame. Whoever speaks a wire format
// names its field for the part.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/status.h"

namespace hone::chat {

enum class RequestPart : std::uint8_t {
  kNone,      // the model or the library
  kMessages,  // of a chat
  kPrompt,    // of a plain completion
  kTools,
  kToolChoice,      // mode, name
  kResponseFormat,  // kind, schema, pattern, grammar
  kThinking,        // on or off
  kThinkingBudget,
  kTemplateKwargs,
  kLogitBias,
  kStop,
  kPrediction,
};
const char* RequestPartName(RequestPart part);  // "messages", "tools", ..., "" for kNone

struct RequestError {
  enum class Kind : std::uint8_t {
    kContext,      // the prompt does not fit: n_prompt > n_ctx
    kUnsupported,  // well formed, but this model cannot do it
    kInvalid,      // the part is wrong
    kOther,        // see code
  };
  Kind kind = Kind::kOther;
  RequestPart part = RequestPart::kNone;
  Code code = Code::kInternal;
  std::string message = {};
  std::int64_t n_prompt = 0, n_ctx = 0;  // tokens; of kContext
};

// kInvalidArgument is kInvalid, kUnsupported is kUnsupported, the rest kOther. status is not ok.
RequestError MakeRequestError(const Status& status, RequestPart part = RequestPart::kNone);

// Nothing, or a RequestError. HONE_TRY and HONE_ASSIGN work with it.
class [[nodiscard]] RequestStatus {
 public:
  RequestStatus() = default;
  RequestStatus(RequestError error)  // NOLINT(google-explicit-constructor): 'return error;'
      : error_(std::make_unique<RequestError>(std::move(error))) {}
  bool ok() const { return error_ == nullptr; }
  // Only if not ok.
  const RequestError& error() const { return *error_; }

 private:
  std::unique_ptr<RequestError> error_;
};

// A value, or a RequestError.
template <typename T>
class [[nodiscard]] RequestResult {
 public:
  // NOLINTBEGIN(google-explicit-constructor): 'return value;' and 'return error;' are the point.
  RequestResult(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  RequestResult(RequestError error) : v_(std::in_place_index<1>, std::move(error)) {}
  RequestResult(RequestStatus error) : v_(std::in_place_index<1>, std::move(error)) {
    assert(!std::get<1>(v_).ok());
  }
  // NOLINTEND(google-explicit-constructor)
  bool ok() const { return v_.index() == 0; }
  T& operator*() & { return *std::get_if<0>(&v_); }
  const T& operator*() const& { return *std::get_if<0>(&v_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&v_)); }
  T* operator->() { return std::get_if<0>(&v_); }
  const T* operator->() const { return std::get_if<0>(&v_); }
  RequestStatus status() && { return ok() ? RequestStatus() : std::move(*std::get_if<1>(&v_)); }
  // Only if not ok.
  const RequestError& error() const { return std::get_if<1>(&v_)->error(); }

 private:
  std::variant<T, RequestStatus> v_;
};

}  // namespace hone::chat
