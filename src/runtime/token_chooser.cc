// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/token_chooser.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace hone::runtime {
namespace {

constexpr std::size_t kBits = 32;

void SetBit(std::vector<std::uint32_t>& words, std::int32_t id, bool value) {
  const auto at = static_cast<std::size_t>(id);
  if (id < 0 || at / kBits >= words.size()) return;
  const std::uint32_t bit = std::uint32_t{1} << (at % kBits);
  words[at / kBits] = value ? words[at / kBits] | bit : words[at / kBits] & ~bit;
}

std::int64_t CountBits(std::span<const std::uint32_t> words) {
  std::int64_t count = 0;
  for (const std::uint32_t word : words) count += std::popcount(word);
  return count;
}

bool IsWhiteSpace(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

Result<bridge::Vocabulary> MakeVocabulary(const Engine& engine) {
  const TextSetup& text = engine.text();
  if (!text.tokenizer) {
    return Status(Code::kUnsupported,
                  StrCat("a grammar needs a tokenizer: ", text.tokenizer_error));
  }
  std::vector<std::int32_t> stops;
  std::vector<std::int32_t> blocked = text.suppress_ids;
  for (const std::int32_t id : text.stop_ids) {
    if (id < 0 || id >= engine.spec().vocab) continue;  // the model never gives it
    (text.stop_kept_text.contains(id) ? blocked : stops).push_back(id);
  }
  return bridge::Vocabulary::Make(*text.tokenizer, engine.spec().vocab, stops, blocked);
}

TokenChooser::TokenChooser(const TextSetup& text, const SamplerOptions& sampler,
                           Constraint constraint)
    : text_(text), sampler_(sampler, text.suppress_ids), constraint_(std::move(constraint)) {
  if (constraint_.matcher == nullptr) return;
  const bool has_free_part =
      constraint_.free_until_id.has_value() || !constraint_.free_until_text.empty();
  if (!has_free_part) {
    phase_ = Phase::kBound;
  } else {
    phase_ = constraint_.free_from_id ? Phase::kOpening : Phase::kFree;
  }
}

Result<std::int32_t> TokenChooser::Sample(std::span<const float> logits,
                                          std::span<const std::int32_t> history,
                                          std::span<const std::uint32_t> allowed) {
  const std::int32_t id = sampler_.Sample(logits, history, allowed);
  if (id >= 0) return id;
  if (phase_ == Phase::kPlain) {
    return Status(Code::kDataLoss,
                  StrCat("the model gave no usable logit at position ", history.size(),
                         ": all are NaN, minus infinity or suppressed; the weights are damaged"));
  }
  return Status(Code::kDataLoss,
                StrCat("no token can be chosen at position ", history.size(),
                       ": the grammar allows ", CountBits(allowed),
                       " tokens, but their logits are NaN or minus infinity or they are "
                       "suppressed"));
}

Status TokenChooser::CheckWidth(std::size_t num_logits) const {
  const std::int64_t expected = constraint_.matcher->num_logits();
  if (expected == static_cast<std::int64_t>(num_logits)) return Status();
  return Status(Code::kInvalidArgument, StrCat("the grammar's vocabulary has ", expected,
                                               " tokens, but the model scores ", num_logits));
}

Result<std::optional<std::int32_t>> TokenChooser::Choose(std::span<const float> logits,
                                                         std::span<const std::int32_t> history) {
  if (done_) return std::optional<std::int32_t>();
  if (phase_ == Phase::kPlain) {
    HONE_ASSIGN(const std::int32_t id, Sample(logits, history, {}));
    return std::optional(id);
  }
  HONE_TRY(CheckWidth(logits.size()));
  return phase_ == Phase::kFree ? ChooseFree(logits, history) : ChooseBound(logits, history);
}

Result<std::optional<std::int32_t>> TokenChooser::ChooseBound(
    std::span<const float> logits, std::span<const std::int32_t> history) {
  bridge::TokenMatcher& matcher = *constraint_.matcher;
  HONE_ASSIGN(std::span<const std::uint32_t> allowed, matcher.Mask());
  if (phase_ == Phase::kOpening) {
    mask_.assign(allowed.begin(), allowed.end());
    SetBit(mask_, *constraint_.free_from_id, true);
    allowed = mask_;
  } else if (CountBits(allowed) == 0) {
    done_ = true;  // the text is complete, and there is no stop token to say so
    return std::optional<std::int32_t>();
  }
  HONE_ASSIGN(const std::int32_t id, Sample(logits, history, allowed));
  if (phase_ == Phase::kOpening && id == *constraint_.free_from_id) {
    phase_ = Phase::kFree;
    return std::optional(id);
  }
  HONE_TRY(AcceptBound(id));
  return std::optional(id);
}

Status TokenChooser::AcceptBound(std::int32_t id) {
  phase_ = Phase::kBound;
  HONE_TRY(constraint_.matcher->Accept(id));
  done_ = constraint_.matcher->HasEnded();
  return Status();
}

Status TokenChooser::Take(std::int32_t id) {
  if (phase_ == Phase::kPlain) return Status();
  if (phase_ == Phase::kOpening && id == *constraint_.free_from_id) {
    phase_ = Phase::kFree;
    return Status();
  }
  if (phase_ != Phase::kFree) return AcceptBound(id);
  if (FollowFree(id)) return Status();
  return Status(
      Code::kInvalidArgument,
      StrCat("token ", id, " closes the part in front of a grammar, and has text behind"));
}

bool TokenChooser::FollowFree(std::int32_t id) {
  const std::string& marker = constraint_.free_until_text;
  if (id == constraint_.free_until_id) {
    phase_ = Phase::kBound;
  } else if (!marker.empty() && text_.tokenizer) {
    auto bytes = text_.tokenizer->TokenBytes(id);
    std::string tail = free_tail_ + (bytes.ok() ? *bytes : std::string());
    const std::size_t at = tail.find(marker);
    if (at == std::string::npos) {
      if (tail.size() >= marker.size()) tail.erase(0, tail.size() - (marker.size() - 1));
      free_tail_ = std::move(tail);
    } else if (IsWhiteSpace(std::string_view(tail).substr(at + marker.size()))) {
      phase_ = Phase::kBound;
    } else {
      return false;
    }
  }
  if (phase_ == Phase::kBound) done_ = constraint_.matcher->HasEnded();
  return true;
}

Result<std::optional<std::int32_t>> TokenChooser::ChooseFree(
    std::span<const float> logits, std::span<const std::int32_t> history) {
  if (!constraint_.free_until_text.empty() && !text_.tokenizer) {
    return Status(Code::kUnsupported,
                  StrCat("a part in front of a grammar that ends with a text needs a tokenizer: ",
                         text_.tokenizer_error));
  }
  mask_.assign((logits.size() + kBits - 1) / kBits, ~std::uint32_t{0});
  for (const std::int32_t id : text_.stop_ids) SetBit(mask_, id, false);
  while (true) {
    HONE_ASSIGN(const std::int32_t id, Sample(logits, history, mask_));
    if (FollowFree(id)) return std::optional(id);
    SetBit(mask_, id, false);
  }
}

std::span<const std::int32_t> TokenChooser::Forced() {
  forced_.clear();
  if (phase_ != Phase::kBound || done_) return forced_;
  auto forced = constraint_.matcher->Forced();
  if (forced.ok()) forced_ = *std::move(forced);  // an error comes again with the next mask
  return forced_;
}

}  // namespace hone::runtime
