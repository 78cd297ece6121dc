// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/grammar.h"

#include <utility>

#include "bridge/no_bridge/not_built.h"

namespace hone::bridge {

Status CheckGrammar(const Grammar& /*grammar*/) { return NotBuilt(); }

struct Vocabulary::Impl {};

Result<Vocabulary> Vocabulary::Make(const Tokenizer& /*tokenizer*/, std::int64_t /*num_logits*/,
                                    std::span<const std::int32_t> /*stop_ids*/,
                                    std::span<const std::int32_t> /*blocked_ids*/) {
  return NotBuilt();
}

std::int64_t Vocabulary::num_logits() const { return 0; }

struct TokenMatcher::Impl {};

TokenMatcher::TokenMatcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TokenMatcher::~TokenMatcher() = default;
TokenMatcher::TokenMatcher(TokenMatcher&&) noexcept = default;
TokenMatcher& TokenMatcher::operator=(TokenMatcher&&) noexcept = default;

Result<TokenMatcher> TokenMatcher::Compile(const Vocabulary& /*vocabulary*/,
                                           const Grammar& /*grammar*/) {
  return NotBuilt();
}

Result<TokenMatcher> TokenMatcher::Clone() const { return NotBuilt(); }
Result<std::span<const std::uint32_t>> TokenMatcher::Mask() { return NotBuilt(); }
Status TokenMatcher::Accept(std::int32_t /*id*/) { return NotBuilt(); }
Result<std::int64_t> TokenMatcher::CountAllowed(std::span<const std::int32_t> /*ids*/) {
  return NotBuilt();
}
Status TokenMatcher::Rollback(std::int64_t /*count*/) { return NotBuilt(); }
Result<std::vector<std::int32_t>> TokenMatcher::Forced() { return NotBuilt(); }
bool TokenMatcher::MayEnd() { return false; }
bool TokenMatcher::HasEnded() { return false; }
std::vector<std::string> TokenMatcher::Warnings() const { return {}; }
std::int64_t TokenMatcher::num_logits() const { return 0; }

}  // namespace hone::bridge
