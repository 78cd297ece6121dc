// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/xml_text.h"

#include <utility>

#include "chat/char_class.h"

namespace hone::chat {
namespace {

constexpr std::string_view kCdata = "<![CDATA[";
constexpr std::string_view kCdataEnd = "]]>";

// The code point of "#10" or "#xA"; 0 if it is none.
unsigned CharacterReference(std::string_view name) {
  if (!name.starts_with('#')) return 0;
  const bool hex = name.size() > 1 && (name[1] == 'x' || name[1] == 'X');
  name.remove_prefix(hex ? 2 : 1);
  if (name.empty() || name.size() > 7) return 0;
  unsigned value = 0;
  for (const char c : name) {
    const int digit = HexValue(c);
    if (digit < 0 || (!hex && digit > 9)) return 0;
    value = value * (hex ? 16 : 10) + static_cast<unsigned>(digit);
  }
  return value;
}

void DecodeEntities(std::string_view raw, std::string& out) {
  static constexpr std::pair<std::string_view, char> kNames[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  constexpr std::size_t kMaxName = 9;
  while (!raw.empty()) {
    const std::size_t begin = raw.find('&');
    out += raw.substr(0, begin);
    if (begin == std::string_view::npos) return;
    raw.remove_prefix(begin);
    const std::size_t end = raw.substr(0, kMaxName + 2).find(';');
    const std::string_view name =
        end == std::string_view::npos ? std::string_view() : raw.substr(1, end - 1);
    const std::size_t before = out.size();
    for (const auto& [known, c] : kNames) {
      if (name == known) out.push_back(c);
    }
    if (const unsigned code = CharacterReference(name); code != 0) AppendUtf8(code, out);
    const bool decoded = out.size() > before;
    if (!decoded) out.push_back('&');
    raw.remove_prefix(decoded ? end + 1 : 1);
  }
}

}  // namespace

std::string TextOfXml(std::string_view raw) {
  std::string_view whole = TrimSpace(raw);
  if (whole.size() >= kCdata.size() + kCdataEnd.size() && whole.starts_with(kCdata) &&
      whole.ends_with(kCdataEnd)) {
    whole.remove_prefix(kCdata.size());
    whole.remove_suffix(kCdataEnd.size());
    if (whole.find(kCdata) == std::string_view::npos) return std::string(whole);
  }
  std::string out;
  while (!raw.empty()) {
    const std::size_t begin = raw.find(kCdata);
    DecodeEntities(raw.substr(0, begin), out);
    if (begin == std::string_view::npos) break;
    raw.remove_prefix(begin + kCdata.size());
    const std::size_t end = raw.find(kCdataEnd);
    out += raw.substr(0, end);
    if (end == std::string_view::npos) break;
    raw.remove_prefix(end + kCdataEnd.size());
  }
  return out;
}

bool NameAttribute(std::string_view tag, std::string& name, bool& closes) {
  tag = TrimSpace(tag);
  closes = tag.ends_with('/');
  if (closes) tag = TrimSpace(tag.substr(0, tag.size() - 1));
  if (!tag.starts_with("name")) return false;
  tag = TrimSpace(tag.substr(4));
  if (!tag.starts_with('=')) return false;
  tag = TrimSpace(tag.substr(1));
  if (tag.size() < 2 || (tag[0] != '"' && tag[0] != '\'') || tag.back() != tag[0]) return false;
  const std::string_view value = tag.substr(1, tag.size() - 2);
  if (value.find(tag[0]) != std::string_view::npos) return false;
  name = TextOfXml(value);
  return true;
}

}  // namespace hone::chat
