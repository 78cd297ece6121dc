// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Errors in the form that OpenAI's clients read: {"error":{"message","type","param","code"}}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "serve/http_types.h"

namespace hone::serve {

struct HttpError {
  int status = 400;
  std::string message;
  std::string type = {};   // "": the usual one of the status
  std::string param = {};  // the field at fault; "" is null
  std::string code = {};   // "" is null
};

// "invalid_request_error" for 400, "server_error" for 500 and so on.
std::string_view ErrorType(int status);

// The value of "error", for streams that fail after they began.
Json ErrorJson(const HttpError& error);
// The whole answer.
Response ErrorResponse(const HttpError& error);
// 400 for what the caller did wrong, 404, 501, 503 for a lack of memory, 500 for our own faults.
HttpError ErrorOfStatus(const Status& status);

}  // namespace hone::serve
