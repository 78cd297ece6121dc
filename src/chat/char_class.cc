// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/char_class.h"

namespace hone::chat {

bool IsJsonNumber(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at > begin;
  };
  if (at < text.size() && text[at] == '-') ++at;
  if (at < text.size() && text[at] == '0') {
    ++at;
  } else if (!digits()) {
    return false;
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

void AppendUtf8(unsigned code_point, std::string& out) {
  if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000)) code_point = 0xfffd;
  const auto add = [&](unsigned byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xc0 | (code_point >> 6));
    add(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    add(0xe0 | (code_point >> 12));
    add(0x80 | ((code_point >> 6) & 0x3f));
    add(0x80 | (code_point & 0x3f));
  } else {
    add(0xf0 | (code_point >> 18));
    add(0x80 | ((code_point >> 12) & 0x3f));
    add(0x80 | ((code_point >> 6) & 0x3f));
    add(0x80 | (code_point & 0x3f));
  }
}

}  // namespace hone::chat
