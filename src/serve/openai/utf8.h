// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Bytes of tokens as text: a token may hold a part of a character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::serve::openai {

// Bytes of the character that text begins with: 1 to 4, 0 if text is empty or ends inside it, -1 if
// these bytes begin no character.
int CharacterBytes(std::string_view text);

// The bytes as readable text: those that are not whole characters as "\xe2\x80".
std::string EscapeInvalid(std::string_view bytes);
bool IsUtf8(std::string_view bytes);
// A text of a client for a message: the beginning and "..." if it is long.
std::string ShortText(std::string_view text);

// Counts characters (code points) while bytes come in pieces.
class CharacterCounter {
 public:
  void Add(std::string_view bytes);
  // Characters that are whole; a byte of none counts as one.
  std::int64_t count() const { return count_; }

 private:
  std::int64_t count_ = 0;
  std::string open_;  // the beginning of a character
};

}  // namespace hone::serve::openai
