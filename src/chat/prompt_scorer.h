// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a model thinks of a given text: the log-probability of each token of a prompt.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "chat/answer_event.h"
#include "chat/chat_model.h"
#include "runtime/engine.h"

namespace hone::chat {

// Reads a prompt in pieces, so that others can run in between. One thread at a time. The model and
// the ids must outlive it.
class PromptScorer {
 public:
  // top: candidates for each token. The ids are at least one, all of the vocabulary.
  PromptScorer(const ChatModel& model, std::span<const std::int32_t> ids, std::int64_t top);

  // Rows that one call of Advance should have, so that their logits need no more than 16 MiB.
  static std::int64_t RowsAtOnce(std::int64_t vocab);

  // Runs the next rows, at most so many, into the sequence, which was empty at first and is the
  // caller's. In the end it holds all tokens but the last one, whose logits belong to the answer.
  // A failure of the engine leaves both as they were.
  Status Advance(runtime::Engine& engine, runtime::Sequence& sequence, std::int64_t max_rows,
                 const std::atomic<bool>* cancel = nullptr);
  bool done() const { return tokens_.size() == ids_.size(); }
  const std::vector<TokenScore>& tokens() const { return tokens_; }

 private:
  const ChatModel& model_;
  std::span<const std::int32_t> ids_;
  std::int64_t top_;
  std::vector<TokenScore> tokens_;
  std::vector<float> logits_;
};

}  // namespace hone::chat
