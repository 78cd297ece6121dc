// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Who may use the server: web pages of other sites may not, whatever name they reach it by.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serve/http_error.h"
#include "serve/http_types.h"

namespace hone::serve {

// Read-only after creation, so thread-safe.
class HttpPolicy {
 public:
  // kInvalidArgument if a name, an origin or the key cannot be one.
  static Result<HttpPolicy> Create(const HttpOptions& options);

  // The Host field: exactly one, and a name of this server. local_address is the address that the
  // client reached; target_authority that of an absolute target or "".
  std::optional<HttpError> CheckHost(const Request& request, const std::string& local_address,
                                     const std::string& target_authority) const;
  // The Origin field, if there is one, must be this server's own page or allowed; what changes
  // something must not come from another site without one. After CheckHost.
  std::optional<HttpError> CheckOrigin(const Request& request) const;
  // Authorization: Bearer KEY. Takes as long for any wrong key.
  std::optional<HttpError> CheckKey(const Request& request) const;
  // Media type, coding and length of a request that brings a body.
  std::optional<HttpError> CheckBody(const Request& request, bool has_length) const;

  // Fields that let the page of an allowed origin read the answer; none for other requests.
  HeaderList CorsHeaders(const Request& request) const;
  // The answer to a page that asks first. methods: "GET, HEAD".
  HeaderList PreflightHeaders(const Request& request, std::string_view methods) const;

  bool needs_key() const { return !api_key_.empty(); }
  bool any_origin() const { return any_origin_; }

 private:
  HttpPolicy() = default;
  bool IsAllowedOrigin(std::string_view origin) const;

  std::string api_key_;
  std::vector<std::string> hosts_;    // lower case
  std::vector<std::string> origins_;  // lower case
  bool any_origin_ = false;
};

}  // namespace hone::serve
