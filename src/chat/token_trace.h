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

// The reader of an answer gets bytes and gives pieces of content, which are pieces of these bytes
// in their order; the rest (marks, thinking, calls, white space around them) is passed over.
class TokenTrace {
 public:
  // A token whose text comes with the next bytes, whole or in part.
  void AddToken(TokenScore score) { waiting_.push_back(std::move(score)); }
  // Text that the tokens since the last text have made.
  void AddText(std::string_view text);
  // The text that has not become content is thinking.
  void PassThinking() { Drop(0, text_.size()); }
  // It is a call. White space in front of it may still become content.
  void PassCall();
  // The tokens of a piece of content. Tokens of several pieces come with the first.
  std::vector<PlacedToken> Take(std::string_view content);
  // Tokens that have made no text.
  std::vector<PlacedToken> TakeWaiting();

 private:
  void Drop(std::size_t begin, std::size_t end);

  std::vector<TokenScore> waiting_;
  // Tokens that made a piece of text together, counted over the whole answer.
  std::deque<std::vector<TokenScore>> groups_;
  std::size_t first_group_ = 0;
  std::string text_;                 // not yet passed
  std::vector<std::size_t> makers_;  // of each byte of text_: its group
};

}  // namespace hone::chat
