// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_error.h"

namespace hone::serve {
namespace {

Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

int HttpStatusOf(Code code) {
  switch (code) {
    case Code::kOk:
      return 200;
    case Code::kInvalidArgument:
    case Code::kDataLoss:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kUnsupported:
      return 501;
    case Code::kOutOfMemory:
    case Code::kCancelled:
      return 503;
    case Code::kDeadline:
      return 504;
    case Code::kIo:
    case Code::kInternal:
      return 500;
  }
  return 500;
}

}  // namespace

std::string_view ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

Json ErrorJson(const HttpError& error) {
  Json json;
  json.Set("message", error.message);
  json.Set("type", error.type.empty() ? std::string(ErrorType(error.status)) : error.type);
  json.Set("param", OrNull(error.param));
  json.Set("code", OrNull(error.code));
  return json;
}

Response ErrorResponse(const HttpError& error) {
  Json json;
  json.Set("error", ErrorJson(error));
  Response response;
  response.status = error.status;
  response.body = json.Dump() + "\n";
  return response;
}

HttpError ErrorOfStatus(const Status& status) {
  return {.status = HttpStatusOf(status.code()), .message = std::string(status.message())};
}

}  // namespace hone::serve
