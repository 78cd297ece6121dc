// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/printable.h"

namespace hone::bundle {

std::string Printable(std::string_view text, std::size_t max_columns) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else {
      out += byte < 0x20 || byte == 0x7f ? '?' : c;
    }
  }
  // C1 control characters in UTF-8 are 0xc2 and 0x80 to 0x9f.
  for (std::size_t i = 0; i + 1 < out.size(); ++i) {
    const bool c1 = out[i] == '\xc2' && static_cast<unsigned char>(out[i + 1]) < 0xa0;
    if (c1) out.replace(i, 2, "?");
  }
  if (out.size() <= max_columns) return out;
  const auto is_inside = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  std::size_t front = max_columns / 2 - 1, back = out.size() - (max_columns - front - 2);
  while (front > 0 && is_inside(out[front])) --front;
  while (back < out.size() && is_inside(out[back])) ++back;
  return out.substr(0, front) + ".." + out.substr(back);
}

}  // namespace hone::bundle
