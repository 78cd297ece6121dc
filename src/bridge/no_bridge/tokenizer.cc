// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/tokenizer.h"

#include "bridge/no_bridge/not_built.h"

namespace hone::bridge {

struct Tokenizer::Impl {
  std::vector<AddedToken> added;
};

Result<Tokenizer> Tokenizer::FromJson(std::string_view /*json*/) { return NotBuilt(); }

Result<std::vector<std::int32_t>> Tokenizer::Encode(std::string_view /*text*/,
                                                    const EncodeOptions& /*options*/) const {
  return NotBuilt();
}

Result<std::string> Tokenizer::Decode(std::span<const std::int32_t> /*ids*/,
                                      bool /*skip_special*/) const {
  return NotBuilt();
}

Result<std::string> Tokenizer::Piece(std::int32_t /*id*/) const { return NotBuilt(); }

Result<std::string> Tokenizer::TokenBytes(std::int32_t /*id*/) const { return NotBuilt(); }

std::optional<std::int32_t> Tokenizer::TokenId(std::string_view /*piece*/) const {
  return std::nullopt;
}

std::int64_t Tokenizer::size() const { return 0; }

const std::vector<AddedToken>& Tokenizer::added_tokens() const {
  static const std::vector<AddedToken> kNone;
  return kNone;
}

struct StreamDecoder::Impl {};

StreamDecoder::StreamDecoder(const Tokenizer& /*tokenizer*/, bool /*skip_special*/) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

Result<std::string> StreamDecoder::Push(std::int32_t /*id*/) { return NotBuilt(); }

Result<std::string> StreamDecoder::Finish() { return NotBuilt(); }

}  // namespace hone::bridge
