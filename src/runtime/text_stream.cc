// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/text_stream.h"

#include <algorithm>
#include <utility>

namespace hone::runtime {
namespace {

// Length of the longest suffix of text that is a proper prefix of stop.
std::size_t OpenPrefix(std::string_view text, std::string_view stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(const bridge::Tokenizer* tokenizer, bool skip_special,
                       std::vector<std::string> stop_strings, Sink sink)
    : tokenizer_(tokenizer),
      skip_special_(skip_special),
      stop_strings_(std::move(stop_strings)),
      sink_(std::move(sink)) {
  std::erase_if(stop_strings_, [](const std::string& s) { return s.empty(); });
  if (tokenizer_ == nullptr) return;
  decoder_.emplace(*tokenizer_, skip_special_);
  if (!skip_special_) return;
  for (const bridge::AddedToken& token : tokenizer_->added_tokens()) {
    if (token.special) hidden_ids_.insert(token.id);
  }
}

Result<bool> TextStream::Push(std::int32_t id) {
  if (!decoder_) return false;
  HONE_ASSIGN(const std::string part, decoder_->Push(id));
  if (Append(part, /*visible=*/true)) return true;
  if (!stop_strings_.empty() && hidden_ids_.contains(id)) {
    // A stop string of the model may spell special tokens that the reader does not see.
    HONE_ASSIGN(const std::string hidden, tokenizer_->Decode({&id, 1}, /*skip_special=*/false));
    return Append(hidden, /*visible=*/false);
  }
  return false;
}

bool TextStream::Append(std::string_view part, bool visible) {
  held_ += part;
  visible_.insert(visible_.end(), part.size(), visible);
  std::size_t stop_at = std::string::npos;
  for (const std::string& stop : stop_strings_) stop_at = std::min(stop_at, held_.find(stop));
  if (stop_at != std::string::npos) {
    Release(stop_at);
    held_.clear();
    visible_.clear();
    return true;
  }
  std::size_t keep = 0;
  for (const std::string& stop : stop_strings_) keep = std::max(keep, OpenPrefix(held_, stop));
  Release(held_.size() - keep);
  return false;
}

void TextStream::Release(std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (visible_[i]) out.push_back(held_[i]);
  }
  held_.erase(0, bytes);
  visible_.erase(visible_.begin(), visible_.begin() + static_cast<std::ptrdiff_t>(bytes));
  if (out.empty()) return;
  text_ += out;
  if (sink_) sink_(out);
}

Status TextStream::Finish(std::string_view extra) {
  if (decoder_) {
    HONE_ASSIGN(const std::string rest, decoder_->Finish());
    held_ += rest;
    visible_.insert(visible_.end(), rest.size(), true);
  }
  held_ += extra;
  visible_.insert(visible_.end(), extra.size(), true);
  Release(held_.size());
  return Status();
}

}  // namespace hone::runtime
