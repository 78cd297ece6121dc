// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/content_filter.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace hone::chat {

void ContentFilter::Add(std::string_view text, std::vector<PlacedToken> tokens, ContentDelta& out) {
  if (stopped_) return;
  for (PlacedToken& token : tokens) {
    token.offset += held_.size();
    tokens_.push_back(std::move(token));
  }
  held_ += text;
  std::size_t found = std::string::npos;
  for (const std::string& stop : stops_) found = std::min(found, held_.find(stop));
  stopped_ = found != std::string::npos;
  std::size_t certain = stopped_ ? found : held_.size();
  for (const std::string& stop : stops_) {
    if (!stopped_) certain = std::min(certain, held_.size() - OpenPrefixBytes(held_, stop));
  }
  Release(certain, /*with_border=*/false, out);
  if (stopped_) {
    held_.clear();
    tokens_.clear();
  }
}

void ContentFilter::Finish(ContentDelta& out) {
  if (!stopped_) Release(held_.size(), /*with_border=*/true, out);
}

// with_border: tokens without text at the border go out, too.
void ContentFilter::Release(std::size_t bytes, bool with_border, ContentDelta& out) {
  out.text.append(held_, 0, bytes);
  held_.erase(0, bytes);
  while (!tokens_.empty() &&
         (tokens_.front().offset < bytes || (with_border && tokens_.front().offset == bytes))) {
    out.tokens.push_back(std::move(tokens_.front().score));
    tokens_.pop_front();
  }
  for (PlacedToken& token : tokens_) token.offset -= bytes;
}

}  // namespace hone::chat
