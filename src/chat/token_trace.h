// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Which tokens made which piece of the content.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_event.h"
#include "chat/content_filter.h"

namespace hone::chat {

// The reader of an answer gives bytes in and gets pieces of content out, which are pieces of these
// bytes in their order; the rest (marks, thinking, calls, white space around them) is passed over.
class TokenTrace {
 public:
  // A token whose text comes with the next bytes, whole or in part.
  void AddToken(TokenScore score) { waiting_.push_back(std::move(score)); }
  // Text that the tokens since the last text have made.
  void AddText(std::string_view text);
  // All text so far is no content, but for what the reader has given out.
  void PassOver();
  // The tokens of a piece of content. Tokens of several pieces come with the first.
  std::vector<PlacedToken> Take(std::string_view content);
  // Tokens that have made no text.
  std::vector<PlacedToken> TakeWaiting();

 private:
  struct Group {
    std::vector<TokenScore> scores;
    std::size_t begin, end;  // counted from the first byte of all
  };
  void Drop(std::size_t until);

  std::vector<TokenScore> waiting_;
  std::deque<Group> groups_;
  std::string text_;       // not yet passed
  std::size_t begin_ = 0;  // of text_
};

}  // namespace hone::chat
