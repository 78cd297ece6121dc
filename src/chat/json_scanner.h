// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Follows one JSON value byte by byte, so that its end is known when it comes.
#pragma once

#include <cstdint>
#include <string>

namespace hone::chat {

class JsonScanner {
 public:
  enum class State : std::uint8_t {
    kMore,
    kDone,        // the byte is the last of the value
    kDoneBefore,  // a number or literal ended with the byte before
    kBroken,      // no JSON value goes on like this
  };

  // No byte may follow kDone, kDoneBefore or kBroken. White space in front of the value is part of
  // it. Does not look at UTF-8, duplicate keys or lone surrogates: ParseJson does.
  State Push(char c);

  bool in_string() const { return place_ == Place::kString || place_ == Place::kKeyString; }

 private:
  enum class Place : std::uint8_t {
    kValue,      // a value must come
    kFirstItem,  // a value or ]
    kFirstKey,   // a key or }
    kKey,        // a key must come
    kColon,      // after a key
    kAfter,      // after a value: , or the end of what it is in
    kString,     // in a string that is a value
    kKeyString,  // in a string that is a key
    kNumber,
    kLiteral,  // true, false, null
  };

  State BeginValue(char c);
  State Close(char c);
  State StringByte(char c);
  State WordByte(char c);
  State EndOfValue();

  Place place_ = Place::kValue;
  std::string open_;  // the brackets that are open, { or [
  std::string word_;  // the number or literal so far
  int escape_ = 0;    // 1 after a backslash, 2 to 5 in the hexadecimal digits of \u
};

}  // namespace hone::chat
