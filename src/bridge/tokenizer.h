// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Hugging Face tokenizers behind the Rust bridge.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hone::bridge {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;
};

struct EncodeOptions {
  bool add_special_tokens = false;   // what the post-processor adds, such as a BOS token
  bool parse_special_tokens = true;  // special tokens spelled in the text become their ids
};

// Read-only after creation, so thread-safe. Copies share one tokenizer.
class Tokenizer {
 public:
  // tokenizer.json text. Truncation and padding of the file are turned off.
  static Result<Tokenizer> FromJson(std::string_view json);

  // text must be UTF-8 (kInvalidArgument else) and at most 64 MiB.
  Result<std::vector<std::int32_t>> Encode(std::string_view text,
                                           const EncodeOptions& options = {}) const;
  Result<std::string> Decode(std::span<const std::int32_t> ids, bool skip_special) const;
  // The piece as stored in the vocabulary ("\xc4\xa0world"), and the bytes it stands for.
  Result<std::string> Piece(std::int32_t id) const;
  Result<std::string> TokenBytes(std::int32_t id) const;
  std::optional<std::int32_t> TokenId(std::string_view piece) const;
  // Largest id + 1.
  std::int64_t size() const;
  const std::vector<AddedToken>& added_tokens() const;

 private:
  friend class StreamDecoder;
  friend class Vocabulary;
  const void* handle() const;  // of the Rust library
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// Turns ids into text piece by piece. Never splits a UTF-8 sequence: bytes that may still become
// one are held back (at most 3). The concatenation of all Push results and Finish equals Decode of
// all ids. One thread at a time.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;
  Result<std::string> Push(std::int32_t id);
  Result<std::string> Finish();  // what is held back, broken bytes as U+FFFD

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::bridge
