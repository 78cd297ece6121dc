// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/token_trace.h"

#include <algorithm>
#include <utility>

#include "chat/char_class.h"

namespace hone::chat {

void TokenTrace::AddText(std::string_view text) {
  const std::size_t begin = begin_ + text_.size();
  text_ += text;
  groups_.push_back({std::exchange(waiting_, {}), begin, begin + text.size()});
}

void TokenTrace::PassOver() { Drop(begin_ + text_.size()); }

void TokenTrace::Drop(std::size_t until) {
  text_.erase(0, until - begin_);
  begin_ = until;
  while (!groups_.empty() && groups_.front().end <= until) groups_.pop_front();
}

std::vector<PlacedToken> TokenTrace::Take(std::string_view content) {
  std::vector<PlacedToken> tokens;
  std::size_t skipped = 0;
  std::size_t at = text_.find(content);
  // White space that was held back over a call is behind us already.
  while (at == std::string::npos && skipped < content.size() && IsSpace(content[skipped])) {
    at = text_.find(content.substr(++skipped));
  }
  if (at == std::string::npos) return tokens;
  const std::size_t begin = begin_ + at;
  const std::size_t end = begin + content.size() - skipped;
  for (Group& group : groups_) {
    if (group.end <= begin) continue;
    if (group.begin >= end) break;
    const std::size_t offset = std::max(group.begin, begin) - begin + skipped;
    for (TokenScore& score : group.scores) tokens.push_back({offset, std::move(score)});
    group.scores.clear();
  }
  Drop(end);
  return tokens;
}

std::vector<PlacedToken> TokenTrace::TakeWaiting() {
  std::vector<PlacedToken> tokens;
  for (TokenScore& score : waiting_) tokens.push_back({0, std::move(score)});
  waiting_.clear();
  return tokens;
}

}  // namespace hone::chat
