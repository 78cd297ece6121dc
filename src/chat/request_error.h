// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Why a request cannot be answered, and which part of it is to blame. Whoever speaks a wire format
// names its field for the part.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/typed_status.h"

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

using RequestStatus = TypedStatus<RequestError>;
template <typename T>
using RequestResult = TypedResult<T, RequestError>;

}  // namespace hone::chat
