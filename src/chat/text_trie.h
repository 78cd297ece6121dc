// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Finds which of many texts begin at a place, in time proportional to the longest of them.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace hone::chat {

// Read-only after the last Add, so thread-safe.
class TextTrie {
 public:
  // kinds: bits that KindsAt gives back. text is not empty.
  void Add(std::string_view text, unsigned kinds);
  // The bits of all added texts that the text begins with.
  unsigned KindsAt(std::string_view text) const;

 private:
  struct Node {
    unsigned kinds = 0;
    std::map<char, std::uint32_t> next = {};
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace hone::chat
