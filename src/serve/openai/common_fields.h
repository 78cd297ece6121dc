// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Fields that several endpoints have.
#pragma once

#include <cstdint>
#include <string>

#include "serve/openai/field_reader.h"
#include "serve/openai/request.h"

namespace hone::serve::openai {

inline constexpr std::int64_t kMaxTokensLimit = 1'000'000'000;
inline constexpr std::int64_t kMaxTopLogprobs = 20;

// "" if it is absent: the endpoint chooses.
ApiResult<std::string> ReadModelName(const ObjectReader& body);
// temperature and its kin, seed, logit_bias and stop.
ApiStatus ReadSampling(const ObjectReader& body, GenerateRequest& request);
ApiStatus ReadStream(const ObjectReader& body, ReplyOptions& reply);
// n, and that prompts times n is not too much.
ApiStatus ReadChoiceCount(const ObjectReader& body, GenerateRequest& request);

// What the thinking fields of a request ask for. Contradictions are refused by the name of the
// later field.
class ThinkingFields {
 public:
  // effort: value of the field at path, one of those in docs/api.md.
  ApiStatus AddEffort(const std::string& path, const std::string& effort);
  ApiStatus AddSwitch(const std::string& path, bool on);
  ApiStatus AddBudget(const std::string& path, std::int64_t budget_tokens);
  const Thinking& thinking() const { return thinking_; }

 private:
  ApiStatus SetMode(const std::string& path, ThinkMode mode);

  Thinking thinking_;
  std::string effort_path_;  // the field that set an effort other than none
};

// reasoning_effort, thinking_budget, enable_thinking and chat_template_kwargs.
ApiStatus ReadThinking(const ObjectReader& body, ChatInput& chat);

}  // namespace hone::serve::openai
