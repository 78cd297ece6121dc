// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Messages of earlier chats, for the arrow keys: $XDG_STATE_HOME/hone/history.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hone::cli {

// Most messages that are kept, and most bytes of one and of all. What is longer is not written.
inline constexpr std::size_t kMaxHistory = 1000;
inline constexpr std::size_t kMaxHistoryEntry = 16 << 10;
inline constexpr std::size_t kMaxHistoryBytes = 1 << 20;

// The file's place, or "" if neither XDG_STATE_HOME nor HOME says where.
std::string HistoryPath();

// One message as a line: line ends as \n, backslashes doubled.
std::string HistoryLine(std::string_view message);
// The messages in a file's text, oldest first, those that are within the bounds and UTF-8.
std::vector<std::string> ParseHistory(std::string_view text);

// A file that only the user can read. Several chats may append to it at once.
class LineHistory {
 public:
  explicit LineHistory(std::string path) : path_(std::move(path)) {}

  // What the file holds; nothing if there is none. A file that grew over the bounds is written
  // anew.
  Result<std::vector<std::string>> Load() const;
  // Folders are made. A message that is too long is left out.
  Status Append(std::string_view message) const;

 private:
  Status Rewrite(const std::vector<std::string>& messages) const;

  std::string path_;
};

}  // namespace hone::cli
