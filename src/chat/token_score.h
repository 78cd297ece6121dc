// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of tokens.
#pragma once

#include <cstdint>
#include <span>

#include "bridge/tokenizer.h"
#include "chat/answer_event.h"

namespace hone::chat {

// The token's natural log-probability under the logits as they are (log-softmax in double), and
// those of the num_top likeliest tokens, the likeliest first, of equals the lowest id first. NaN
// counts as minus infinity. Ids without a token are not among them. tokenizer may be null: no bytes
// then, and all ids are.
TokenScore ScoreToken(const bridge::Tokenizer* tokenizer, std::span<const float> logits,
                      std::int32_t id, std::int64_t num_top);

}  // namespace hone::chat
