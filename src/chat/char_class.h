// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Kinds of bytes and small words that the readers of calls share, whatever the locale.
#pragma once

#include <string>
#include <string_view>

namespace hone::chat {

inline bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
// What names of tools are made of.
inline bool IsNameByte(char c) {
  return IsLetter(c) || IsDigit(c) || c == '_' || c == '-' || c == '.';
}

// 0 to 15, or -1.
inline int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

inline std::string_view WithoutSpaceBehind(std::string_view text) {
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}
inline std::string_view TrimSpace(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  return WithoutSpaceBehind(text);
}

// Whether text is a number as JSON writes it: "007", "+1" and "1." are none.
bool IsJsonNumber(std::string_view text);

// Appends the character as UTF-8; what is no character becomes U+FFFD.
void AppendUtf8(unsigned code_point, std::string& out);

}  // namespace hone::chat
