// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Finds stop strings in the content of an answer, and keeps each token beside the text it made.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_event.h"

namespace hone::chat {

// A token and where its text begins, in bytes of the text that it comes with.
struct PlacedToken {
  std::size_t offset = 0;
  TokenScore score = {};
};

// One thread at a time.
class ContentFilter {
 public:
  explicit ContentFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // More content. Appends to out what is certain. Once a stop string is complete, it is left out,
  // with what follows and the tokens that made nothing else.
  void Add(std::string_view text, std::vector<PlacedToken> tokens, ContentDelta& out);
  // The content ends here: what was held back is content after all. What comes later is a text of
  // its own.
  void Finish(ContentDelta& out);
  bool stopped() const { return stopped_; }

 private:
  void Release(std::size_t bytes, bool with_border, ContentDelta& out);

  std::vector<std::string> stops_;
  std::string held_;                // may begin a stop string
  std::deque<PlacedToken> tokens_;  // offsets in held_
  bool stopped_ = false;
};

}  // namespace hone::chat
