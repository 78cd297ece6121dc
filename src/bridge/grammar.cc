// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/grammar.h"

#include <hone_bridge.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "bridge/buffer.h"

namespace hone::bridge {
namespace {

int KindNumber(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonSchema:
      return HB_JSON_SCHEMA;
    case GrammarKind::kJsonObject:
      return HB_JSON_OBJECT;
    case GrammarKind::kRegex:
      return HB_REGEX;
    case GrammarKind::kLark:
      return HB_LARK;
  }
  return -1;
}

// Whoever wrote the grammar can do something about it, whatever is wrong with it.
Status GrammarStatus(int status, const Buffer& message) {
  if (status == HB_NO_RESOURCE) return ToStatus(status, message);
  return {Code::kInvalidArgument, message.str()};
}

// What a grammar does to the library while it runs is no damage of a file.
Status MatchStatus(int status, const Buffer& message) {
  if (status == HB_BAD_ARGUMENT || status == HB_NO_RESOURCE) return ToStatus(status, message);
  return {Code::kUnsupported, StrCat("the grammar cannot go on: ", message.text())};
}

Status CheckId(std::int32_t id) {
  if (id >= 0) return {};
  return {Code::kInvalidArgument, StrCat("token id ", id, " is negative")};
}

Result<std::vector<std::uint32_t>> PlainIds(std::span<const std::int32_t> ids) {
  std::vector<std::uint32_t> plain;
  plain.reserve(ids.size());
  for (const std::int32_t id : ids) {
    HONE_TRY(CheckId(id));
    plain.push_back(static_cast<std::uint32_t>(id));
  }
  return plain;
}

}  // namespace

Status CheckGrammar(const Grammar& grammar) {
  HONE_TRY(CheckAbi());
  Buffer error;
  const int status = hb_grammar_check(KindNumber(grammar.kind), grammar.text.data(),
                                      grammar.text.size(), error.get());
  if (status != HB_OK) return GrammarStatus(status, error);
  return {};
}

struct Vocabulary::Impl {
  Impl() = default;
  ~Impl() { hb_vocab_free(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  hb_vocab* handle = nullptr;
  std::int64_t num_logits = 0;
};

Result<Vocabulary> Vocabulary::Make(const Tokenizer& tokenizer, std::int64_t num_logits,
                                    std::span<const std::int32_t> stop_ids,
                                    std::span<const std::int32_t> blocked_ids) {
  HONE_TRY(CheckAbi());
  if (num_logits < 1 || num_logits > std::numeric_limits<std::int32_t>::max()) {
    return Status(Code::kInvalidArgument,
                  StrCat("a vocabulary of ", num_logits, " logits, expected at least 1"));
  }
  HONE_ASSIGN(const std::vector<std::uint32_t> ends, PlainIds(stop_ids));
  HONE_ASSIGN(const std::vector<std::uint32_t> blocked, PlainIds(blocked_ids));
  auto impl = std::make_shared<Impl>();
  impl->num_logits = num_logits;
  Buffer error;
  const int status = hb_vocab_new(static_cast<const hb_tokenizer*>(tokenizer.handle()),
                                  static_cast<std::uint32_t>(num_logits), ends.data(), ends.size(),
                                  blocked.data(), blocked.size(), &impl->handle, error.get());
  if (status != HB_OK) return ToStatus(status, error);
  Vocabulary result;
  result.impl_ = std::move(impl);
  return result;
}

std::int64_t Vocabulary::num_logits() const { return impl_ == nullptr ? 0 : impl_->num_logits; }

struct TokenMatcher::Impl {
  Impl() = default;
  ~Impl() { hb_matcher_free(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  hb_matcher* handle = nullptr;
  std::int64_t num_logits = 0;
  std::vector<std::uint32_t> mask;
};

TokenMatcher::TokenMatcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->mask.resize(static_cast<std::size_t>((impl_->num_logits + 31) / 32));
}
TokenMatcher::~TokenMatcher() = default;
TokenMatcher::TokenMatcher(TokenMatcher&&) noexcept = default;
TokenMatcher& TokenMatcher::operator=(TokenMatcher&&) noexcept = default;

Result<TokenMatcher> TokenMatcher::Compile(const Vocabulary& vocabulary, const Grammar& grammar) {
  if (vocabulary.impl_ == nullptr) {
    return Status(Code::kInvalidArgument, "the vocabulary is empty");
  }
  auto impl = std::make_unique<Impl>();
  impl->num_logits = vocabulary.num_logits();
  Buffer error;
  const int status =
      hb_matcher_new(vocabulary.impl_->handle, KindNumber(grammar.kind), grammar.text.data(),
                     grammar.text.size(), &impl->handle, error.get());
  if (status != HB_OK) return GrammarStatus(status, error);
  return TokenMatcher(std::move(impl));
}

Result<TokenMatcher> TokenMatcher::Clone() const {
  auto impl = std::make_unique<Impl>();
  impl->num_logits = impl_->num_logits;
  Buffer error;
  const int status = hb_matcher_clone(impl_->handle, &impl->handle, error.get());
  if (status != HB_OK) return MatchStatus(status, error);
  return TokenMatcher(std::move(impl));
}

Result<std::span<const std::uint32_t>> TokenMatcher::Mask() {
  Buffer error;
  const int status =
      hb_matcher_mask(impl_->handle, impl_->mask.data(), impl_->mask.size(), error.get());
  if (status != HB_OK) return MatchStatus(status, error);
  return std::span<const std::uint32_t>(impl_->mask);
}

Status TokenMatcher::Accept(std::int32_t id) {
  HONE_TRY(CheckId(id));
  const auto plain = static_cast<std::uint32_t>(id);
  Buffer error;
  const int status = hb_matcher_accept(impl_->handle, &plain, 1, error.get());
  if (status != HB_OK) return MatchStatus(status, error);
  return {};
}

Result<std::int64_t> TokenMatcher::CountAllowed(std::span<const std::int32_t> ids) {
  HONE_ASSIGN(const std::vector<std::uint32_t> plain, PlainIds(ids));
  const std::int64_t count = hb_matcher_check(impl_->handle, plain.data(), plain.size());
  if (count >= 0) return count;
  return Status(Code::kUnsupported, "the grammar has failed before");
}

Status TokenMatcher::Rollback(std::int64_t count) {
  if (count < 0) {
    return {Code::kInvalidArgument, StrCat("cannot take back ", count, " tokens")};
  }
  Buffer error;
  const int status =
      hb_matcher_rollback(impl_->handle, static_cast<std::size_t>(count), error.get());
  if (status != HB_OK) return MatchStatus(status, error);
  return {};
}

Result<std::vector<std::int32_t>> TokenMatcher::Forced() {
  Buffer bytes;
  Buffer error;
  const int status = hb_matcher_forced(impl_->handle, bytes.get(), error.get());
  if (status != HB_OK) return MatchStatus(status, error);
  std::vector<std::int32_t> ids(bytes.size() / sizeof(std::int32_t));
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

bool TokenMatcher::MayEnd() { return (hb_matcher_state(impl_->handle) & HB_MATCHER_MAY_END) != 0; }

bool TokenMatcher::HasEnded() { return (hb_matcher_state(impl_->handle) & HB_MATCHER_ENDED) != 0; }

std::vector<std::string> TokenMatcher::Warnings() const {
  std::vector<std::string> lines;
  Buffer text;
  Buffer error;
  if (hb_matcher_warnings(impl_->handle, text.get(), error.get()) != HB_OK) return {error.str()};
  std::string_view rest = text.text();
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lines;
}

std::int64_t TokenMatcher::num_logits() const { return impl_->num_logits; }

}  // namespace hone::bridge
