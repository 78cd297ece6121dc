// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/json_scanner.h"

#include "chat/char_class.h"

namespace hone::chat {
namespace {

constexpr std::size_t kMaxDepth = 200;  // what ParseJson takes

bool IsNumberByte(char c) {
  return IsDigit(c) || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

}  // namespace

JsonScanner::State JsonScanner::Push(char c) {
  if (in_string()) return StringByte(c);
  if (place_ == Place::kNumber || place_ == Place::kLiteral) return WordByte(c);
  if (IsSpace(c)) return State::kMore;
  switch (place_) {
    case Place::kFirstItem:
      if (c == ']') return Close(c);
      return BeginValue(c);
    case Place::kValue:
      return BeginValue(c);
    case Place::kFirstKey:
      if (c == '}') return Close(c);
      [[fallthrough]];
    case Place::kKey:
      if (c != '"') return State::kBroken;
      place_ = Place::kKeyString;
      return State::kMore;
    case Place::kColon:
      if (c != ':') return State::kBroken;
      place_ = Place::kValue;
      return State::kMore;
    default:  // kAfter
      if (c != ',') return Close(c);
      place_ = open_.back() == '{' ? Place::kKey : Place::kValue;
      return State::kMore;
  }
}

JsonScanner::State JsonScanner::BeginValue(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() >= kMaxDepth) return State::kBroken;
    open_.push_back(c);
    place_ = c == '{' ? Place::kFirstKey : Place::kFirstItem;
  } else if (c == '"') {
    place_ = Place::kString;
  } else if (c == '-' || IsDigit(c)) {
    word_ = c;
    place_ = Place::kNumber;
  } else if (c == 't' || c == 'f' || c == 'n') {
    word_ = c;
    place_ = Place::kLiteral;
  } else {
    return State::kBroken;
  }
  return State::kMore;
}

JsonScanner::State JsonScanner::Close(char c) {
  if (open_.empty() || c != (open_.back() == '{' ? '}' : ']')) return State::kBroken;
  open_.pop_back();
  return EndOfValue();
}

JsonScanner::State JsonScanner::EndOfValue() {
  place_ = Place::kAfter;
  return open_.empty() ? State::kDone : State::kMore;
}

JsonScanner::State JsonScanner::StringByte(char c) {
  if (escape_ == 1) {
    if (c == 'u') {
      escape_ = 2;
      return State::kMore;
    }
    escape_ = 0;
    return std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos ? State::kBroken
                                                                            : State::kMore;
  }
  if (escape_ > 1) {
    escape_ = escape_ == 5 ? 0 : escape_ + 1;
    return HexValue(c) < 0 ? State::kBroken : State::kMore;
  }
  if (c == '\\') {
    escape_ = 1;
  } else if (c == '"') {
    if (place_ == Place::kString) return EndOfValue();
    place_ = Place::kColon;
  } else if (static_cast<unsigned char>(c) < 0x20) {
    return State::kBroken;
  }
  return State::kMore;
}

JsonScanner::State JsonScanner::WordByte(char c) {
  if (place_ == Place::kNumber) {
    if (IsNumberByte(c)) {
      word_.push_back(c);
      return State::kMore;
    }
    if (!IsJsonNumber(word_)) return State::kBroken;
  } else {
    if (c >= 'a' && c <= 'z' && word_.size() < 5) {
      word_.push_back(c);
      return State::kMore;
    }
    if (word_ != "true" && word_ != "false" && word_ != "null") return State::kBroken;
  }
  place_ = Place::kAfter;
  if (open_.empty()) return State::kDoneBefore;
  return Push(c);
}

}  // namespace hone::chat
