// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/tokenizer.h"

#include <hone_bridge.h>

#include <cstring>
#include <utility>

#include "base/json.h"
#include "bridge/buffer.h"

namespace hone::bridge {

struct Tokenizer::Impl {
  Impl() = default;
  ~Impl() { hb_tokenizer_free(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  hb_tokenizer* handle = nullptr;
  std::vector<AddedToken> added;
};

namespace {

Status NegativeId(std::int32_t id) {
  return {Code::kInvalidArgument, StrCat("token id ", id, " is negative")};
}

Result<std::vector<AddedToken>> ReadAdded(std::string_view text) {
  HONE_ASSIGN(const Json list, ParseJson(text));
  std::vector<AddedToken> added;
  for (const Json& entry : list.AsArray()) {
    HONE_ASSIGN(const std::int64_t id, GetInt(entry, "id"));
    HONE_ASSIGN(std::string content, GetString(entry, "content"));
    HONE_ASSIGN(const bool special, GetBoolOr(entry, "special", false));
    added.push_back({static_cast<std::int32_t>(id), std::move(content), special});
  }
  return added;
}

}  // namespace

Result<Tokenizer> Tokenizer::FromJson(std::string_view json) {
  HONE_TRY(CheckAbi());
  auto impl = std::make_shared<Impl>();
  Buffer error;
  int status = hb_tokenizer_new(json.data(), json.size(), &impl->handle, error.get());
  if (status != HB_OK) return ToStatus(status, error);
  Buffer added;
  status = hb_tokenizer_added(impl->handle, added.get(), error.get());
  if (status != HB_OK) return ToStatus(status, error);
  HONE_ASSIGN(impl->added, ReadAdded(added.text()));
  Tokenizer result;
  result.impl_ = std::move(impl);
  return result;
}

Result<std::vector<std::int32_t>> Tokenizer::Encode(std::string_view text,
                                                    const EncodeOptions& options) const {
  std::uint32_t flags = 0;
  if (options.add_special_tokens) flags |= HB_ENCODE_ADD_SPECIAL;
  if (!options.parse_special_tokens) flags |= HB_ENCODE_PLAIN_SPECIAL;
  Buffer bytes;
  Buffer error;
  const int status =
      hb_tokenizer_encode(impl_->handle, text.data(), text.size(), flags, bytes.get(), error.get());
  if (status != HB_OK) return ToStatus(status, error);
  std::vector<std::int32_t> ids(bytes.size() / sizeof(std::int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

Result<std::string> Tokenizer::Decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::vector<std::uint32_t> plain;
  plain.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (id < 0) return NegativeId(id);
    plain.push_back(static_cast<std::uint32_t>(id));
  }
  Buffer text;
  Buffer error;
  const int status = hb_tokenizer_decode(impl_->handle, plain.data(), plain.size(),
                                         skip_special ? 1 : 0, text.get(), error.get());
  if (status != HB_OK) return ToStatus(status, error);
  return text.str();
}

Result<std::string> Tokenizer::Piece(std::int32_t id) const {
  if (id < 0) return NegativeId(id);
  Buffer piece;
  Buffer error;
  const int status =
      hb_tokenizer_piece(impl_->handle, static_cast<std::uint32_t>(id), piece.get(), error.get());
  if (status != HB_OK) return ToStatus(status, error);
  return piece.str();
}

Result<std::string> Tokenizer::TokenBytes(std::int32_t id) const {
  if (id < 0) return NegativeId(id);
  Buffer bytes;
  Buffer error;
  const int status = hb_tokenizer_token_bytes(impl_->handle, static_cast<std::uint32_t>(id),
                                              bytes.get(), error.get());
  if (status != HB_OK) return ToStatus(status, error);
  return bytes.str();
}

std::optional<std::int32_t> Tokenizer::TokenId(std::string_view piece) const {
  const std::int64_t id = hb_tokenizer_id(impl_->handle, piece.data(), piece.size());
  if (id < 0) return std::nullopt;
  return static_cast<std::int32_t>(id);
}

const void* Tokenizer::handle() const { return impl_ == nullptr ? nullptr : impl_->handle; }

std::int64_t Tokenizer::size() const { return hb_tokenizer_size(impl_->handle); }

const std::vector<AddedToken>& Tokenizer::added_tokens() const { return impl_->added; }

struct StreamDecoder::Impl {
  explicit Impl(hb_stream* stream) : handle(stream) {}
  ~Impl() { hb_stream_free(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  hb_stream* handle;
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : impl_(std::make_unique<Impl>(hb_stream_new(tokenizer.impl_->handle, skip_special ? 1 : 0))) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

Result<std::string> StreamDecoder::Push(std::int32_t id) {
  if (id < 0) return NegativeId(id);
  Buffer text;
  Buffer error;
  const int status =
      hb_stream_push(impl_->handle, static_cast<std::uint32_t>(id), text.get(), error.get());
  if (status != HB_OK) return ToStatus(status, error);
  return text.str();
}

Result<std::string> StreamDecoder::Finish() {
  Buffer text;
  Buffer error;
  const int status = hb_stream_finish(impl_->handle, text.get(), error.get());
  if (status != HB_OK) return ToStatus(status, error);
  return text.str();
}

}  // namespace hone::bridge
