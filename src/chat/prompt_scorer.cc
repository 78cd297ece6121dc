// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/prompt_scorer.h"

#include <algorithm>
#include <utility>

#include "chat/token_score.h"

namespace hone::chat {
namespace {

const bridge::Tokenizer* TokenizerOf(const ChatModel& model) {
  return model.text().tokenizer ? &*model.text().tokenizer : nullptr;
}

}  // namespace

PromptScorer::PromptScorer(const ChatModel& model, std::span<const std::int32_t> ids,
                           std::int64_t top)
    : model_(model), ids_(ids), top_(top) {
  tokens_.reserve(ids.size());
  TokenScore first{.id = ids[0]};
  if (const auto* tokenizer = TokenizerOf(model)) {
    auto bytes = tokenizer->TokenBytes(ids[0]);
    if (bytes.ok()) first.bytes = *std::move(bytes);  // else it only pads the vocabulary
  }
  tokens_.push_back(std::move(first));
}

std::int64_t PromptScorer::RowsAtOnce(std::int64_t vocab) {
  constexpr std::int64_t kLogits = (16 << 20) / static_cast<std::int64_t>(sizeof(float));
  return std::clamp<std::int64_t>(kLogits / std::max<std::int64_t>(vocab, 1), 1, 64);
}

Status PromptScorer::Advance(runtime::Engine& engine, runtime::Sequence& sequence,
                             std::int64_t max_rows, const std::atomic<bool>* cancel) {
  if (done()) return Status();
  const std::size_t first = tokens_.size() - 1;  // of the tokens to run
  const auto rows = std::min(static_cast<std::size_t>(std::max<std::int64_t>(max_rows, 1)),
                             ids_.size() - 1 - first);
  runtime::Step step;
  step.parts.push_back({.sequence = &sequence,
                        .tokens = ids_.subspan(first, rows),
                        .all_logits = true,
                        .more = static_cast<std::int64_t>(ids_.size() - first - rows)});
  HONE_TRY(engine.Run(step, &logits_, cancel));
  const auto vocab = static_cast<std::size_t>(engine.spec().vocab);
  for (std::size_t row = 0; row < rows; ++row) {
    tokens_.push_back(ScoreToken(TokenizerOf(model_),
                                 std::span(logits_).subspan(row * vocab, vocab),
                                 ids_[first + row + 1], top_));
  }
  if (done()) std::vector<float>().swap(logits_);  // many prompts may wait for their answers
  return Status();
}

}  // namespace hone::chat
