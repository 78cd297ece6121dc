// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/token_trace.h"

#include <algorithm>
#include <utility>

#include "chat/char_class.h"

namespace hone::chat {

void TokenTrace::AddText(std::string_view text) {
  if (text.empty()) return;
  makers_.insert(makers_.end(), text.size(), first_group_ + groups_.size());
  text_ += text;
  groups_.push_back(std::exchange(waiting_, {}));
}

void TokenTrace::Drop(std::size_t begin, std::size_t end) {
  text_.erase(begin, end - begin);
  makers_.erase(makers_.begin() + static_cast<std::ptrdiff_t>(begin),
                makers_.begin() + static_cast<std::ptrdiff_t>(end));
  const std::size_t needed = makers_.empty() ? first_group_ + groups_.size() : makers_.front();
  for (; first_group_ < needed; ++first_group_) groups_.pop_front();
}

void TokenTrace::PassCall() {
  std::size_t begin = 0;
  while (begin < text_.size() && IsSpace(text_[begin])) ++begin;
  Drop(begin, text_.size());
}

std::vector<PlacedToken> TokenTrace::Take(std::string_view content) {
  std::vector<PlacedToken> tokens;
  const std::size_t at = text_.find(content);
  if (at == std::string::npos) return tokens;
  for (std::size_t i = 0; i < content.size(); ++i) {
    std::vector<TokenScore>& group = groups_[makers_[at + i] - first_group_];
    for (TokenScore& score : group) tokens.push_back({i, std::move(score)});
    group.clear();
  }
  Drop(0, at + content.size());
  return tokens;
}

std::vector<PlacedToken> TokenTrace::TakeWaiting() {
  std::vector<PlacedToken> tokens;
  for (TokenScore& score : waiting_) tokens.push_back({0, std::move(score)});
  waiting_.clear();
  return tokens;
}

}  // namespace hone::chat
