// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// From logits to the next token of one answer: sampler, penalties, suppressed ids and a grammar.
// Generate and whoever drives a Batcher choose with it, so that both give the same answers.
//
//   TokenChooser chooser(engine.text(), sampler, {.matcher = &matcher});
//   request.choose = [&](auto logits, auto history) -> std::optional<std::int32_t> {
//     auto next = chooser.Choose(logits, history);
//     ...                                     // keep the error, a stop id, what has been chosen
//     return chooser.done() ? std::nullopt : *next;
//   };
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bridge/grammar.h"
#include "runtime/engine.h"
#include "runtime/sampler.h"

namespace hone::runtime {

// What an answer must look like.
struct Constraint {
  // The caller's, who must keep it and leave it alone until the answer has ended; it then has taken
  // the answer's tokens, so use a clone for the next one. Null: no constraint.
  bridge::TokenMatcher* matcher = nullptr;
  // A part in front that the grammar does not see, such as thinking: up to this token, or up to
  // this text (with white space that comes in the same token). Without both there is no such part.
  // Stop tokens are not chosen in it: an answer that ends has a text of the grammar.
  std::optional<std::int32_t> free_until_id = {};
  std::string free_until_text = {};
  // The token that opens the free part. If given, the answer may begin with it, or at once with
  // what the grammar allows; else the free part begins with the answer (the prompt opened it).
  std::optional<std::int32_t> free_from_id = {};
};

// The tokens of an engine's model as a grammar for its answers needs them: stop tokens end an
// answer, but not those that bring text of their own (".<|im_end|>"); suppressed ids are blocked.
// Make one for a loaded model. kUnsupported without a tokenizer.
Result<bridge::Vocabulary> MakeVocabulary(const Engine& engine);

// One thread at a time. The text must outlive it.
class TokenChooser {
 public:
  TokenChooser(const TextSetup& text, const SamplerOptions& sampler, Constraint constraint);

  // The answer's next token, which may be a stop token. What the grammar does not allow is taken
  // away first; temperature, top-k and top-p see what is left. history: the tokens before it, for
  // the penalties. Nothing if the answer is complete without another token: the grammar allows
  // none. kDataLoss: no usable logit is left; kInvalidArgument: the vocabulary of the grammar is
  // not the one of the logits; kUnsupported: the grammar cannot go on, or needs a tokenizer.
  Result<std::optional<std::int32_t>> Choose(std::span<const float> logits,
                                             std::span<const std::int32_t> history);
  // As if Choose had given this token: the caller puts it into the answer by force, such as the end
  // of a thinking that is too long. kInvalidArgument: the grammar does not allow it here.
  Status Take(std::int32_t id);
  // The last chosen token completed the answer: by the grammar only a stop token can follow.
  bool done() const { return done_; }
  // Tokens that Choose will give next whatever the logits are, as far as the grammar says so; they
  // may be fed together. Valid until the next call.
  std::span<const std::int32_t> Forced();

 private:
  enum class Phase : std::uint8_t { kPlain, kOpening, kFree, kBound };

  Result<std::optional<std::int32_t>> ChooseBound(std::span<const float> logits,
                                                  std::span<const std::int32_t> history);
  Result<std::optional<std::int32_t>> ChooseFree(std::span<const float> logits,
                                                 std::span<const std::int32_t> history);
  // Goes on with a token of the free part. False: it closes the part and brings text behind it,
  // which the grammar has not seen; nothing has changed then.
  bool FollowFree(std::int32_t id);
  Status AcceptBound(std::int32_t id);
  Result<std::int32_t> Sample(std::span<const float> logits, std::span<const std::int32_t> history,
                              std::span<const std::uint32_t> allowed);
  Status CheckWidth(std::size_t num_logits) const;

  const TextSetup& text_;
  Sampler sampler_;
  Constraint constraint_;
  Phase phase_ = Phase::kPlain;
  bool done_ = false;
  std::string free_tail_;            // the end of the free text, where the marker may have begun
  std::vector<std::uint32_t> mask_;  // scratch
  std::vector<std::int32_t> forced_;
};

}  // namespace hone::runtime
