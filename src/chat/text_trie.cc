// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/text_trie.h"

namespace hone::chat {

void TextTrie::Add(std::string_view text, unsigned kinds) {
  std::uint32_t at = 0;
  for (const char c : text) {
    const auto [entry, added] =
        nodes_[at].next.try_emplace(c, static_cast<std::uint32_t>(nodes_.size()));
    at = entry->second;
    if (added) nodes_.emplace_back();
  }
  nodes_[at].kinds |= kinds;
}

unsigned TextTrie::KindsAt(std::string_view text) const {
  unsigned kinds = 0;
  std::uint32_t at = 0;
  for (const char c : text) {
    const auto entry = nodes_[at].next.find(c);
    if (entry == nodes_[at].next.end()) break;
    at = entry->second;
    kinds |= nodes_[at].kinds;
  }
  return kinds;
}

}  // namespace hone::chat
