// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Small pieces of text for names and messages.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hone {

// Texts or numbers with a separator between them: "int8, int4".
template <typename List>
std::string Join(const List& parts, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) out += separator;
    out += StrCat(part);
    first = false;
  }
  return out;
}

// "[2, 3]".
template <typename N>
std::string ShapeText(const std::vector<N>& shape) {
  return StrCat("[", Join(shape, ", "), "]");
}

// A to Z as a to z; other bytes stay as they are, whatever the locale.
inline std::string LowerCase(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// Length of the longest suffix of text that is a proper prefix of marker. marker is not empty.
inline std::size_t OpenPrefixBytes(std::string_view text, std::string_view marker) {
  for (std::size_t n = std::min(text.size(), marker.size() - 1); n > 0; --n) {
    if (text.ends_with(marker.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace hone
