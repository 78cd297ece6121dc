// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Grammars over tokens: which token may come next so that a text stays in the language.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bridge/tokenizer.h"

namespace hone::bridge {

enum class GrammarKind : std::uint8_t {
  kJsonSchema,  // text is a schema; what it does not support is refused, not ignored
  kJsonObject,  // any JSON object; text is not read
  kRegex,       // the whole answer matches; Rust's syntax without look-around
  kLark,        // Lark's syntax, with llguidance's extensions
};

struct Grammar {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text;  // at most 1 MiB
};

// Whether a grammar can be used, as far as that can be said without a tokenizer: only names and ids
// of tokens in it are not looked up. kInvalidArgument with the reason: it is malformed, too large,
// uses what is not supported, or takes more than two seconds to compile.
Status CheckGrammar(const Grammar& grammar);

// A model's tokens as grammars see them. Building one takes some tenths of a second, so make one
// for a loaded model. Read-only, so thread-safe. Copies share it.
class Vocabulary {
 public:
  // num_logits: how many ids the model scores; ids without a piece are never allowed. stop_ids end
  // an answer and are allowed where the grammar may end. blocked_ids are never allowed; an id in
  // both lists is blocked. Ids outside the logits: kInvalidArgument for a stop id, no matter for a
  // blocked one. kUnsupported for a tokenizer whose tokens do not stand for fixed bytes.
  static Result<Vocabulary> Make(const Tokenizer& tokenizer, std::int64_t num_logits,
                                 std::span<const std::int32_t> stop_ids,
                                 std::span<const std::int32_t> blocked_ids);
  std::int64_t num_logits() const;

 private:
  friend class TokenMatcher;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

// A grammar with the tokens that it has taken so far: the state of one answer. One thread at a
// time. A mask takes well under a millisecond in most cases and is bounded to some 20 ms: a grammar
// that needs more ends with kUnsupported. After any error but a refused token every call gives that
// error.
class TokenMatcher {
 public:
  // kInvalidArgument as CheckGrammar, and if no token of the vocabulary can begin a text.
  static Result<TokenMatcher> Compile(const Vocabulary& vocabulary, const Grammar& grammar);
  ~TokenMatcher();
  TokenMatcher(TokenMatcher&&) noexcept;
  TokenMatcher& operator=(TokenMatcher&&) noexcept;
  // An independent matcher in the same state, for another answer or another thread.
  Result<TokenMatcher> Clone() const;

  // Which ids may come next: bit id % 32 of word id / 32. Where one token must come, one bit. All
  // words are zero if the text is complete and the vocabulary has no stop id. Valid until the next
  // call.
  Result<std::span<const std::uint32_t>> Mask();
  // Takes a token. kInvalidArgument if it is not allowed: the state stays as it was.
  Status Accept(std::int32_t id);
  // How many of these tokens could be taken one after the other.
  Result<std::int64_t> CountAllowed(std::span<const std::int32_t> ids);
  // Takes the last count tokens back. kInvalidArgument if there are fewer.
  Status Rollback(std::int64_t count);
  // The tokens that must come next; empty where there is a choice. Byte-level tokenizers only,
  // always empty for others.
  Result<std::vector<std::int32_t>> Forced();
  // The tokens so far are a text of the grammar.
  bool MayEnd();
  // And nothing but a stop token can follow.
  bool HasEnded();
  // What has no effect, or not the whole one. One line each.
  std::vector<std::string> Warnings() const;
  std::int64_t num_logits() const;

 private:
  struct Impl;
  explicit TokenMatcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::bridge
