// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/text_stream.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace hone::runtime {

TextStream::TextStream(const bridge::Tokenizer* tokenizer, bool skip_special,
                       std::vector<std::string> stop_strings, Sink sink,
                       const std::set<std::int32_t>& shown)
    : tokenizer_(tokenizer), stop_strings_(std::move(stop_strings)), sink_(std::move(sink)) {
  std::erase_if(stop_strings_, [](const std::string& s) { return s.empty(); });
  if (tokenizer_ == nullptr) return;
  decoder_.emplace(*tokenizer_, /*skip_special=*/false);
  if (!skip_special) return;
  for (const bridge::AddedToken& token : tokenizer_->added_tokens()) {
    if (token.special && !shown.contains(token.id)) hidden_ids_.insert(token.id);
  }
}

Result<bool> TextStream::Push(std::int32_t id) {
  if (!decoder_) return false;
  if (!hidden_ids_.contains(id)) {
    HONE_ASSIGN(const std::string part, decoder_->Push(id));
    return Append(part, /*visible=*/true);
  }
  if (stop_strings_.empty()) return false;
  // A stop string of the model may spell special tokens that the reader does not see.
  HONE_ASSIGN(const std::string hidden, tokenizer_->Decode({&id, 1}, /*skip_special=*/false));
  return Append(hidden, /*visible=*/false);
}

bool TextStream::Append(std::string_view part, bool visible) {
  held_ += part;
  visible_.insert(visible_.end(), part.size(), visible);
  Match match = MatchStops(held_);
  if (std::find(visible_.begin(), visible_.end(), false) != visible_.end()) {
    // The same for what the reader sees, in which hidden tokens leave no gap.
    std::string seen;
    std::vector<std::size_t> places;  // of the bytes of seen in held_
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (!visible_[i]) continue;
      seen.push_back(held_[i]);
      places.push_back(i);
    }
    places.push_back(held_.size());
    const Match other = MatchStops(seen);
    const std::size_t begin = places[other.begin];
    if (match.found == other.found) match.begin = std::min(match.begin, begin);
    if (other.found && !match.found) match = {true, begin};
  }
  Release(match.begin);
  if (match.found) {
    held_.clear();
    visible_.clear();
    stopped_ = true;
  }
  return match.found;
}

TextStream::Match TextStream::MatchStops(std::string_view text) const {
  Match match{false, text.size()};
  for (const std::string& stop : stop_strings_) {
    const std::size_t at = text.find(stop);
    if (at == std::string_view::npos) continue;
    match.begin = match.found ? std::min(match.begin, at) : at;
    match.found = true;
  }
  if (match.found) return match;
  for (const std::string& stop : stop_strings_) {
    match.begin = std::min(match.begin, text.size() - OpenPrefixBytes(text, stop));
  }
  return match;
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
  if (decoder_ && !stopped_) {
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
