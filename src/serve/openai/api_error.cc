// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/api_error.h"

#include "base/text.h"
#include "serve/openai/utf8.h"

namespace hone::serve::openai {
namespace {

ApiError MakeError(int http_status, const char* type, std::string code, std::string message) {
  ApiError error;
  error.http_status = http_status;
  error.type = type;
  error.code = std::move(code);
  error.message = std::move(message);
  return error;
}

ApiError FieldError(std::string param, const char* code, std::string message) {
  ApiError error = MakeError(400, "invalid_request_error", code, std::move(message));
  error.param = std::move(param);
  return error;
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json ErrorJson(const ApiError& error) {
  Json::Object members = {{"message", error.message},
                          {"type", error.type},
                          {"param", TextOrNull(error.param)},
                          {"code", TextOrNull(error.code)}};
  members.insert(members.end(), error.more.begin(), error.more.end());
  return Json(Json::Object{{"error", Json(std::move(members))}});
}

ApiError InvalidField(std::string param, std::string message) {
  std::string text = StrCat(param, ": ", message);
  return FieldError(std::move(param), "invalid_value", std::move(text));
}

ApiError MissingField(std::string param, std::string_view expected) {
  std::string text = StrCat(param, ": missing, expected ", expected);
  return FieldError(std::move(param), "missing_required_parameter", std::move(text));
}

ApiError UnknownField(std::string param) {
  std::string text = StrCat(param, ": unknown field; docs/api.md lists those that exist");
  return FieldError(std::move(param), "unknown_parameter", std::move(text));
}

ApiError UnsupportedField(std::string param, std::string_view why) {
  std::string text = StrCat(param, ": not supported: ", why);
  return FieldError(std::move(param), "unsupported_parameter", std::move(text));
}

ApiError InvalidBody(std::string message) {
  return MakeError(400, "invalid_request_error", "invalid_body", std::move(message));
}

ApiError ContextOverflow(std::int64_t prompt_tokens, std::int64_t context_tokens,
                         std::string param) {
  ApiError error = FieldError(std::move(param), "context_length_exceeded",
                              StrCat("the prompt has ", prompt_tokens,
                                     " tokens, but the context has room for ", context_tokens,
                                     " including the answer; shorten the messages, or start "
                                     "the server with a larger --context or with --on-full trim"));
  error.more = {{"n_prompt_tokens", Json(prompt_tokens)}, {"n_ctx", Json(context_tokens)}};
  return error;
}

ApiError ModelNotFound(std::string_view name, const std::vector<std::string>& known) {
  ApiError error =
      MakeError(404, "invalid_request_error", "model_not_found",
                StrCat("model: there is no \"", ShortText(name), "\" here; this server has ",
                       known.empty() ? std::string("no models") : Join(known, ", ")));
  error.param = "model";
  return error;
}

ApiError PathNotFound(std::string_view path) {
  return MakeError(
      404, "invalid_request_error", "unknown_url",
      StrCat("there is no ", ShortText(path), " on this server; docs/api.md lists the paths"));
}

ApiError MethodNotAllowed(std::string_view method, std::string_view allowed) {
  ApiError error = MakeError(405, "invalid_request_error", "method_not_allowed",
                             StrCat(ShortText(method), " is not allowed here, expected ", allowed));
  error.allow = allowed;
  return error;
}

ApiError BodyTooLarge(std::uint64_t body_bytes, std::uint64_t limit_bytes) {
  return MakeError(
      413, "invalid_request_error", "body_too_large",
      StrCat("the body has ", body_bytes, " bytes, the limit is ", limit_bytes, " bytes"));
}

ApiError Unauthorized() {
  return MakeError(401, "authentication_error", "invalid_api_key",
                   "this server needs a key: send the header 'Authorization: Bearer KEY'");
}

ApiError Forbidden(std::string message) {
  return MakeError(403, "permission_error", "forbidden", std::move(message));
}

ApiError QueueFull(std::int64_t waiting, int retry_after_seconds) {
  ApiError error =
      MakeError(429, "rate_limit_error", "queue_full",
                StrCat("the queue is full: ", waiting, " requests wait already; try again in ",
                       retry_after_seconds, " s"));
  error.retry_after_seconds = retry_after_seconds;
  return error;
}

ApiError Unavailable(std::string code, std::string message, int retry_after_seconds) {
  ApiError error = MakeError(503, "server_error", std::move(code), std::move(message));
  error.retry_after_seconds = retry_after_seconds;
  return error;
}

ApiError Internal(std::string message) {
  return MakeError(500, "server_error", "internal_error", std::move(message));
}

ApiError FromStatus(const Status& status, std::string param) {
  constexpr int kRetrySeconds = 5;
  std::string message(status.message());
  switch (status.code()) {
    case Code::kInvalidArgument:
      return FieldError(std::move(param), "invalid_value", std::move(message));
    case Code::kUnsupported:
      return FieldError(std::move(param), "unsupported_parameter", std::move(message));
    case Code::kNotFound: {
      ApiError error = FieldError(std::move(param), "not_found", std::move(message));
      error.http_status = 404;
      return error;
    }
    case Code::kOutOfMemory:
      return Unavailable("out_of_memory", std::move(message), kRetrySeconds);
    case Code::kDeadline:
      return Unavailable("timeout", std::move(message), kRetrySeconds);
    case Code::kCancelled:
      return Unavailable("cancelled", std::move(message), kRetrySeconds);
    default:
      return Internal(std::move(message));
  }
}

}  // namespace hone::serve::openai
