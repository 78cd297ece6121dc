// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Finds markers in text that comes byte by byte, and holds back what may still become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hone::chat {

class MarkerScanner {
 public:
  // The texts must outlive it; empty ones are left out.
  explicit MarkerScanner(const std::vector<std::string_view>& markers);

  // The next byte. Appends to released what can no longer be part of a marker. Returns the marker
  // that is complete now (it is not released), or an empty text.
  std::string_view Push(char c, std::string& released);

  // What is held back; nothing is after it.
  std::string Take();
  bool empty() const { return held_.empty(); }

  // Length of the longest end of text that begins a marker and does not complete it.
  std::size_t OpenBytes(std::string_view text) const;

 private:
  std::vector<std::string_view> markers_;
  std::string held_;
};

}  // namespace hone::chat
