// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/marker_scanner.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace hone::chat {

MarkerScanner::MarkerScanner(const std::vector<std::string_view>& markers) : markers_(markers) {
  std::erase_if(markers_, [](std::string_view marker) { return marker.empty(); });
}

std::string_view MarkerScanner::Push(char c, std::string& released) {
  held_.push_back(c);
  for (;;) {
    bool may_go_on = false;
    for (const std::string_view marker : markers_) {
      if (held_ == marker) {
        held_.clear();
        return marker;
      }
      may_go_on = may_go_on || marker.starts_with(held_);
    }
    // The empty text begins every marker, unless there is none.
    if (may_go_on || held_.empty()) return {};
    released.push_back(held_[0]);
    held_.erase(0, 1);
  }
}

std::string MarkerScanner::Take() { return std::exchange(held_, {}); }

std::size_t MarkerScanner::OpenBytes(std::string_view text) const {
  std::size_t bytes = 0;
  for (const std::string_view marker : markers_) {
    bytes = std::max(bytes, OpenPrefixBytes(text, marker));
  }
  return bytes;
}

}  // namespace hone::chat
