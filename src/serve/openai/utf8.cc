// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/utf8.h"

#include <cstddef>

namespace hone::serve::openai {

int CharacterBytes(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return -1;
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (std::size_t i = 1; i < size; ++i) {
    if (i >= text.size()) return 0;
    // No overlong forms, no surrogates, nothing past U+10FFFF.
    const unsigned char low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < low || byte(i) > high) return -1;
  }
  return static_cast<int>(size);
}

std::string EscapeInvalid(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  while (!bytes.empty()) {
    const int size = CharacterBytes(bytes);
    if (size > 0) {
      out += bytes.substr(0, static_cast<std::size_t>(size));
      bytes.remove_prefix(static_cast<std::size_t>(size));
      continue;
    }
    const auto value = static_cast<unsigned char>(bytes[0]);
    out += "\\x";
    out.push_back(kHex[value >> 4]);
    out.push_back(kHex[value & 15]);
    bytes.remove_prefix(1);
  }
  return out;
}

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const int size = CharacterBytes(bytes);
    if (size <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

std::string ShortText(std::string_view text) {
  constexpr std::size_t kMaxBytes = 64;
  if (text.size() <= kMaxBytes) return std::string(text);
  std::size_t end = kMaxBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

void CharacterCounter::Add(std::string_view bytes) {
  open_ += bytes;
  std::string_view rest = open_;
  while (!rest.empty()) {
    const int size = CharacterBytes(rest);
    if (size == 0) break;
    ++count_;
    rest.remove_prefix(size < 0 ? 1 : static_cast<std::size_t>(size));
  }
  open_ = std::string(rest);
}

}  // namespace hone::serve::openai
