// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_policy.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "serve/http_text.h"

namespace hone::serve {
namespace {

bool ChangesSomething(const Request& request) {
  return request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
}

// "https://example.org:444" without its scheme, or nothing if the scheme is not of the web.
std::optional<std::string_view> OriginAuthority(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (EqualsIgnoreCase(origin.substr(0, scheme.size()), scheme)) {
      return origin.substr(scheme.size());
    }
  }
  return std::nullopt;
}

int PortOf(const Authority& authority, bool https) {
  return authority.port ? *authority.port : (https ? 443 : 80);
}

// The page was loaded from the very name and port that it now calls.
bool IsOwnPage(std::string_view origin, std::string_view host_field) {
  const auto text = OriginAuthority(origin);
  const auto page = text ? ParseAuthority(*text) : std::nullopt;
  const auto host = ParseAuthority(host_field);
  const bool https = origin.size() > 4 && (origin[4] == 's' || origin[4] == 'S');
  return page && host && page->host == host->host && PortOf(*page, https) == PortOf(*host, https);
}

// Looks at every byte of given, whatever they are.
bool IsSameSecret(std::string_view secret, std::string_view given) {
  unsigned difference = secret.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^
                                        static_cast<unsigned char>(secret[i % secret.size()]));
  }
  return difference == 0;
}

Result<std::string> CleanOrigin(const std::string& origin) {
  if (origin == "*" || origin == "null") return origin;
  const auto authority = OriginAuthority(origin);
  if (!authority || !ParseAuthority(*authority)) {
    return Status(Code::kInvalidArgument,
                  StrCat("allowed origin '", origin,
                         "': expected scheme, host and maybe port, such as https://example.org or "
                         "http://localhost:3000, or *"));
  }
  return LowerCase(origin);
}

}  // namespace

Result<HttpPolicy> HttpPolicy::Create(const HttpOptions& options) {
  HttpPolicy policy;
  const bool visible = std::all_of(options.api_key.begin(), options.api_key.end(),
                                   [](char c) { return c > ' ' && c < 0x7f; });
  if (!visible) {
    return Status(Code::kInvalidArgument,
                  "the API key has a blank, or a character that is not ASCII");
  }
  policy.api_key_ = options.api_key;
  for (const std::string& name : options.allow_hosts) {
    const auto bare = ParseAuthority(
        name.find(':') != std::string::npos && name[0] != '[' ? StrCat("[", name, "]") : name);
    if (!bare || bare->port) {
      return Status(Code::kInvalidArgument,
                    StrCat("allowed host '", name, "': expected a name or an address, no port"));
    }
    policy.hosts_.push_back(bare->host);
  }
  for (const std::string& origin : options.allow_origins) {
    HONE_ASSIGN(std::string clean, CleanOrigin(origin));
    policy.any_origin_ = policy.any_origin_ || clean == "*";
    policy.origins_.push_back(std::move(clean));
  }
  // Name the address to listen on too, when it is a name: people type it.
  if (ParseAuthority(options.host) && options.host != "0.0.0.0") {
    policy.hosts_.push_back(LowerCase(options.host));
  }
  return policy;
}

std::optional<HttpError> HttpPolicy::CheckHost(const Request& request,
                                               const std::string& local_address,
                                               const std::string& target_authority) const {
  const std::string* field = request.headers.Find("Host");
  if (field == nullptr || request.headers.Count("Host") > 1) {
    return HttpError{.status = 400, .message = "the request must have one Host header"};
  }
  const auto host = ParseAuthority(*field);
  if (!host) return HttpError{.status = 400, .message = "the Host header does not name a host"};
  if (!target_authority.empty() && !EqualsIgnoreCase(target_authority, *field)) {
    return HttpError{.status = 400, .message = "target and Host header name different hosts"};
  }
  // A page of another site can have its own name point here (DNS rebinding); the name tells.
  const bool known = IsLoopbackName(host->host) || IsSameAddress(host->host, local_address) ||
                     std::any_of(hosts_.begin(), hosts_.end(), [&](const std::string& name) {
                       return name == host->host || IsSameAddress(name, host->host);
                     });
  if (known) return std::nullopt;
  return HttpError{.status = 403,
                   .message = StrCat("'", host->host,
                                     "' is not a name of this server; its operator can allow it"),
                   .code = "host_not_allowed"};
}

bool HttpPolicy::IsAllowedOrigin(std::string_view origin) const {
  if (any_origin_) return true;
  const std::string lower = LowerCase(origin);
  return std::find(origins_.begin(), origins_.end(), lower) != origins_.end();
}

std::optional<HttpError> HttpPolicy::CheckOrigin(const Request& request) const {
  const HttpError foreign{.status = 403,
                          .message =
                              "pages of other sites may not use this server; its operator "
                              "can allow an origin",
                          .code = "origin_not_allowed"};
  if (request.headers.Count("Origin") > 1) return foreign;
  const std::string* origin = request.headers.Find("Origin");
  if (origin != nullptr) {
    const std::string* host = request.headers.Find("Host");
    if (IsAllowedOrigin(*origin) || (host != nullptr && IsOwnPage(*origin, *host))) {
      return std::nullopt;
    }
    return foreign;
  }
  // Browsers say where a request comes from even where they send no Origin.
  const std::string* site = request.headers.Find("Sec-Fetch-Site");
  if (site != nullptr && ChangesSomething(request) && !EqualsIgnoreCase(*site, "same-origin") &&
      !EqualsIgnoreCase(*site, "none")) {
    return foreign;
  }
  return std::nullopt;
}

std::optional<HttpError> HttpPolicy::CheckKey(const Request& request) const {
  if (api_key_.empty()) return std::nullopt;
  constexpr std::string_view kScheme = "Bearer ";
  const std::string* field = request.headers.Find("Authorization");
  if (field == nullptr || request.headers.Count("Authorization") > 1 ||
      !EqualsIgnoreCase(std::string_view(*field).substr(0, kScheme.size()), kScheme)) {
    return HttpError{.status = 401,
                     .message = "the server needs its API key: Authorization: Bearer KEY",
                     .code = "missing_api_key"};
  }
  if (IsSameSecret(api_key_, TrimBlanks(std::string_view(*field).substr(kScheme.size())))) {
    return std::nullopt;
  }
  return HttpError{.status = 401, .message = "the API key is wrong", .code = "invalid_api_key"};
}

std::optional<HttpError> HttpPolicy::CheckBody(const Request& request, bool has_length) const {
  if (request.method != "POST" && request.method != "PUT" && request.method != "PATCH") {
    return std::nullopt;
  }
  const std::string* type = request.headers.Find("Content-Type");
  const std::string_view media =
      type == nullptr ? "" : TrimBlanks(std::string_view(*type).substr(0, type->find(';')));
  // A type that forms cannot send: a page of another site has to ask before it uses it.
  if (request.headers.Count("Content-Type") != 1 || !EqualsIgnoreCase(media, "application/json")) {
    return HttpError{.status = 415, .message = "Content-Type must be application/json"};
  }
  const std::string lower = LowerCase(*type);
  const std::size_t charset = lower.find("charset=");
  if (charset != std::string::npos) {
    const std::string_view name = std::string_view(lower).substr(charset + 8);
    if (!name.starts_with("utf-8") && !name.starts_with("\"utf-8\"")) {
      return HttpError{.status = 415, .message = "the body must be UTF-8"};
    }
  }
  const std::string* coding = request.headers.Find("Content-Encoding");
  if (coding != nullptr && !EqualsIgnoreCase(*coding, "identity")) {
    return HttpError{.status = 415, .message = "the body must come without Content-Encoding"};
  }
  if (!has_length) {
    return HttpError{.status = 411,
                     .message = "the request needs Content-Length or a chunked body"};
  }
  return std::nullopt;
}

HeaderList HttpPolicy::CorsHeaders(const Request& request) const {
  HeaderList headers;
  if (origins_.empty()) return headers;
  // The answer differs between origins, so that no cache may mix them up.
  if (!any_origin_) headers.Add("Vary", "Origin");
  const std::string* origin = request.headers.Find("Origin");
  if (origin == nullptr || request.headers.Count("Origin") > 1 || !IsAllowedOrigin(*origin)) {
    return headers;
  }
  headers.Add("Access-Control-Allow-Origin", any_origin_ ? "*" : std::string_view(*origin));
  headers.Add("Access-Control-Expose-Headers", "Retry-After");
  return headers;
}

HeaderList HttpPolicy::PreflightHeaders(const Request& request, std::string_view methods) const {
  HeaderList headers;
  const std::string* origin = request.headers.Find("Origin");
  if (origin == nullptr || !IsAllowedOrigin(*origin)) return headers;
  headers.Add("Access-Control-Allow-Methods", methods);
  const std::string* wanted = request.headers.Find("Access-Control-Request-Headers");
  if (wanted != nullptr) {
    const std::vector<std::string_view> names = SplitList(*wanted);
    if (std::all_of(names.begin(), names.end(), IsToken)) {
      headers.Add("Access-Control-Allow-Headers", Join(names, ", "));
    }
  }
  if (request.headers.Find("Access-Control-Request-Private-Network") != nullptr) {
    headers.Add("Access-Control-Allow-Private-Network", "true");
  }
  headers.Add("Access-Control-Max-Age", "600");
  return headers;
}

}  // namespace hone::serve
