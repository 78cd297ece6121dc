// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Failures as an OpenAI client reads them: HTTP status, type, param, code and message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/typed_status.h"

namespace hone::serve::openai {

struct ApiError {
  int http_status = 400;
  std::string type = "invalid_request_error";
  std::string message;
  std::string param;            // the field, such as messages[2].content[0].type; "": null
  std::string code;             // "": null
  int retry_after_seconds = 0;  // 0: no Retry-After header
  std::string allow;            // of 405: the header Allow
  Json::Object more;            // further members of the error object, such as n_ctx
};

// {"error": {"message", "type", "param", "code", ...}}
Json ErrorJson(const ApiError& error);

using ApiStatus = TypedStatus<ApiError>;
template <typename T>
using ApiResult = TypedResult<T, ApiError>;

// 400: a field is wrong, missing, unknown, or known and not supported.
ApiError InvalidField(std::string param, std::string message);
ApiError MissingField(std::string param, std::string_view expected);
ApiError UnknownField(std::string param);
ApiError UnsupportedField(std::string param, std::string_view why);
// 400: the body as a whole.
ApiError InvalidBody(std::string message);
// 400 before anything is generated. The error object has n_prompt_tokens and n_ctx.
ApiError ContextOverflow(std::int64_t prompt_tokens, std::int64_t context_tokens,
                         std::string param = "messages");
// 404 with the names that exist.
ApiError ModelNotFound(std::string_view name, const std::vector<std::string>& known);
// 404 and 405 for paths.
ApiError PathNotFound(std::string_view path);
ApiError MethodNotAllowed(std::string_view method, std::string_view allowed);
// 413.
ApiError BodyTooLarge(std::uint64_t body_bytes, std::uint64_t limit_bytes);
// 401 and 403.
ApiError Unauthorized();
ApiError Forbidden(std::string message);
// 429 with Retry-After: too many requests wait already.
ApiError QueueFull(std::int64_t waiting, int retry_after_seconds);
// 503 with Retry-After. code: "loading", "draining" or another single word.
ApiError Unavailable(std::string code, std::string message, int retry_after_seconds);
// 500: our own fault.
ApiError Internal(std::string message);

// A Status of the library. kInvalidArgument and kUnsupported are the client's (400), kNotFound 404,
// kOutOfMemory, kDeadline and kCancelled 503, all others 500. status is not ok.
ApiError FromStatus(const Status& status, std::string param = "");

}  // namespace hone::serve::openai
