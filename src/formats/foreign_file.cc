// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/foreign_file.h"

#include <cctype>

#include "base/status.h"

namespace hone::formats {
namespace {

bool StartsWithNoCase(std::string_view text, std::string_view prefix) {
  if (text.size() < prefix.size()) return false;
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(text[i])) != prefix[i]) return false;
  }
  return true;
}

// Length of the UTF-8 sequence at the start of text, or 0 if there is no valid one.
std::size_t SequenceLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

std::string DescribeForeignFile(ByteSpan bytes) {
  std::string_view text = AsText(bytes).substr(0, 4096);
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  if (StartsWithNoCase(text, "version https://git-lfs")) {
    return "this is a Git LFS pointer, not the file itself; fetch it with: git lfs pull";
  }
  for (const char* start : {"<!doctype", "<html", "<head", "<?xml", "<body"}) {
    if (StartsWithNoCase(text, start)) {
      return "this is a web page (HTML), not the file itself; download it again";
    }
  }
  if (text.substr(0, 4) == "GGUF") return "this is a GGUF file";
  if (text.substr(0, 8) == "LITERTLM") return "this is a .litertlm bundle";
  if (text.substr(0, 4) == std::string_view("PK\x03\x04", 4)) {
    return "this is a ZIP archive, perhaps PyTorch pickle weights; convert them to safetensors "
           "first";
  }
  if (text.substr(0, 2) == std::string_view("\x80\x02", 2)) {
    return "this looks like PyTorch pickle weights; convert them to safetensors first";
  }
  return "";
}

std::string JoinPath(const std::string& folder, std::string_view name) {
  return StrCat(folder, folder.ends_with('/') ? "" : "/", name);
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string Quote(std::string_view text) {
  constexpr std::size_t kMaxShown = 200;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty() && out.size() < kMaxShown) {
    const std::size_t length = SequenceLength(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7F) {
      out += {'\\', 'x', kHex[first >> 4], kHex[first & 15]};
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  if (!text.empty()) out += "...";
  out += '"';
  return out;
}

}  // namespace hone::formats
