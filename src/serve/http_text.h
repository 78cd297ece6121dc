// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Small pieces of HTTP's grammar. All of them are ASCII only, whatever the locale.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::serve {

bool EqualsIgnoreCase(std::string_view a, std::string_view b);
// Without the spaces and tabs at both ends.
std::string_view TrimBlanks(std::string_view text);
// A "token" of RFC 9110: at least one character that needs no quotes.
bool IsToken(std::string_view text);
// No control characters but tabs: can be the value of a header field.
bool IsFieldValue(std::string_view text);
// The trimmed, non-empty parts between commas.
std::vector<std::string_view> SplitList(std::string_view text);

// %41 as A; nothing if an escape is broken.
std::optional<std::string> PercentDecode(std::string_view text);

// "example.org:8080", "127.0.0.1", "[::1]:80": the host part of a URL.
struct Authority {
  std::string host;         // lower case, an IPv6 address without its brackets
  std::optional<int> port;  // as written
  bool bracketed = false;
};
// Nothing if it is not one. User names are refused.
std::optional<Authority> ParseAuthority(std::string_view text);

// Both name the same IP address (an IPv4 address mapped to IPv6 is that IPv4 address). False if
// either is not an address.
bool IsSameAddress(const std::string& a, const std::string& b);
// "localhost", or an address that only this machine can reach.
bool IsLoopbackName(const std::string& host);

// "Not Found".
std::string_view ReasonPhrase(int status);
// "Sun, 06 Nov 1994 08:49:37 GMT".
std::string HttpDate(std::time_t seconds);

}  // namespace hone::serve
