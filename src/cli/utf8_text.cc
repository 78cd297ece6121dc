// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/utf8_text.h"

#include <cstdint>

namespace hone::cli {
namespace {

constexpr wchar_t kReplacement = 0xfffd;

unsigned char ByteAt(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

bool IsContinuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

std::size_t LengthFrom(unsigned char lead) {
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 1;
}

// Whether code needs that many bytes and is a character.
bool IsScalar(std::uint32_t code, std::size_t bytes) {
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return code >= kLeast[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}

// The character in exactly these bytes.
wchar_t Decode(std::string_view bytes) {
  const unsigned char lead = ByteAt(bytes, 0);
  if (bytes.size() == 1) return lead < 0x80 ? static_cast<wchar_t>(lead) : kReplacement;
  std::uint32_t code = lead & (0x7fU >> bytes.size());
  for (std::size_t i = 1; i < bytes.size(); ++i) code = code << 6 | (ByteAt(bytes, i) & 0x3fU);
  return IsScalar(code, bytes.size()) ? static_cast<wchar_t>(code) : kReplacement;
}

bool IsControl(wchar_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

void AppendUtf8(wchar_t c, std::string& out) {
  const auto code = static_cast<std::uint32_t>(c);
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::uint32_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[more] | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
}

}  // namespace

std::size_t Utf8Bytes(std::string_view text) {
  if (text.empty()) return 0;
  const std::size_t length = LengthFrom(ByteAt(text, 0));
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return 0;
    if (!IsContinuation(ByteAt(text, i))) return 1;
  }
  return length;
}

wchar_t TakeUtf8(std::string& text) {
  const std::size_t length = Utf8Bytes(text);
  const wchar_t c = Decode(std::string_view(text).substr(0, length));
  text.erase(0, length);
  return c;
}

std::wstring ToWide(std::string_view text) {
  std::wstring out;
  while (!text.empty()) {
    const std::size_t length = Utf8Bytes(text);
    out += length == 0 ? kReplacement : Decode(text.substr(0, length));
    text.remove_prefix(length == 0 ? text.size() : length);
  }
  return out;
}

std::string FromWide(std::wstring_view text) {
  std::string out;
  for (const wchar_t c : text) AppendUtf8(c, out);
  return out;
}

std::string PlainText(std::string_view text) {
  std::wstring out;
  const std::wstring wide = ToWide(text);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] == L'\r' || wide[i] == L'\n') {
      // A terminal may change both characters of a line end: \r\n comes as \n\r then.
      const wchar_t other = wide[i] == L'\r' ? L'\n' : L'\r';
      out += L'\n';
      if (i + 1 < wide.size() && wide[i + 1] == other) ++i;
    } else if (wide[i] == L'\t' || !IsControl(wide[i])) {
      out += wide[i];
    }
  }
  return FromWide(out);
}

std::string VisibleText(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = ByteAt(text, i);
    const unsigned char next = i + 1 < text.size() ? ByteAt(text, i + 1) : 0;
    const bool c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F
    if (!c1 && byte != 0x7f && (byte >= 0x20 || byte == '\n' || byte == '\t')) {
      out += text[i];
      continue;
    }
    const unsigned char code = c1 ? next : byte;
    out += {'\\', 'x', kHex[code >> 4], kHex[code & 15]};
    i += c1 ? 1 : 0;
  }
  return out;
}

}  // namespace hone::cli
