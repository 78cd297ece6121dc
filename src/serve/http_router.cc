// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_router.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/check.h"
#include "base/text.h"
#include "serve/http_text.h"

namespace hone::serve {
namespace {

bool IsVariable(std::string_view part) { return part.starts_with('{') && part.ends_with('}'); }
bool IsRest(std::string_view part) { return part.ends_with("*}"); }
std::string_view VariableName(std::string_view part) {
  return part.substr(1, part.size() - (IsRest(part) ? 3 : 2));
}

// "/a/b" as a and b. The path begins with a slash.
std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::size_t end = std::min(path.find('/'), path.size());
    parts.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return parts;
}

using Values = std::vector<std::pair<std::string, std::string>>;

// What the variables stand for, or nothing if path is not of that form.
std::optional<Values> MatchParts(const std::vector<std::string>& pattern,
                                 const std::vector<std::string>& path) {
  Values values;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (i >= path.size()) return std::nullopt;
    if (!IsVariable(pattern[i])) {
      if (pattern[i] != path[i]) return std::nullopt;
      continue;
    }
    std::string value = path[i];
    if (IsRest(pattern[i]))
      value = Join(std::vector(path.begin() + static_cast<std::ptrdiff_t>(i), path.end()), "/");
    if (value.empty()) return std::nullopt;
    const bool rest = IsRest(pattern[i]);
    values.emplace_back(VariableName(pattern[i]), std::move(value));
    if (rest) return values;
  }
  return pattern.size() == path.size() ? std::optional(std::move(values)) : std::nullopt;
}

}  // namespace

void HttpRouter::Add(std::string_view method, std::string_view pattern, HttpHandler handler,
                     RouteOptions options) {
  HONE_CHECK(pattern.starts_with('/') && IsKnownMethod(method) && handler != nullptr);
  Route route{std::string(method), SplitPath(pattern), std::move(handler), options};
  for (std::size_t i = 0; i < route.parts.size(); ++i) {
    HONE_CHECK(!IsRest(route.parts[i]) || i + 1 == route.parts.size());
  }
  for (const Route& other : routes_) {
    HONE_CHECK(other.method != route.method || other.parts != route.parts);
  }
  routes_.push_back(std::move(route));
}

HttpRouter::Match HttpRouter::Find(std::string_view method, std::string_view path) const {
  Match match;
  std::vector<std::string> parts;
  if (path.starts_with('/')) parts = SplitPath(path);
  for (std::string& part : parts) {
    auto decoded = PercentDecode(part);
    if (!decoded) {
      match.bad_escape = true;
      return match;
    }
    part = *std::move(decoded);
  }
  std::vector<std::string_view> methods;
  for (const Route& route : routes_) {
    auto values = MatchParts(route.parts, parts);
    if (!values) continue;
    methods.push_back(route.method);
    if (route.method == "GET") methods.push_back("HEAD");
    const bool same = route.method == method || (route.method == "GET" && method == "HEAD");
    // The first route wins, but one without variables goes before those with.
    if (same && (match.route == nullptr || (values->empty() && !match.values.empty()))) {
      match.route = &route;
      match.values = *std::move(values);
    }
  }
  if (methods.empty()) return match;
  methods.push_back("OPTIONS");
  std::sort(methods.begin(), methods.end());
  methods.erase(std::unique(methods.begin(), methods.end()), methods.end());
  match.methods = Join(methods, ", ");
  return match;
}

bool HttpRouter::IsKnownMethod(std::string_view method) {
  constexpr std::array<std::string_view, 9> kMethods = {
      "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"};
  return std::find(kMethods.begin(), kMethods.end(), method) != kMethods.end();
}

}  // namespace hone::serve
