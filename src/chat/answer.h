// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// One answer while it is generated: chooses tokens, and makes text, thinking and calls of them.
//
//   auto answer = Answer::Make(model, {.plan = prompt.plan, .sampler = sampler}, sink);
//   request.choose = [&](auto logits, auto history) { return (*answer)->Next(logits, history); };
//   request.done = [&](const Result<FinishReason>& end) { (*answer)->Finish(end); };
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "chat/answer_event.h"
#include "chat/chat_model.h"
#include "chat/prompt.h"
#include "chat/request_error.h"
#include "runtime/decode_loop.h"
#include "runtime/sampler.h"

namespace hone::chat {

struct AnswerOptions {
  AnswerPlan plan = {};
  runtime::SamplerOptions sampler = {};
  std::map<std::int32_t, double> logit_bias = {};  // added to the logits; ids of the vocabulary
  // Absent: as many as the context holds. 0 is a real limit.
  std::optional<std::int64_t> max_tokens = {};
  std::vector<std::string> stop = {};  // in the content only; none is empty
  bool logprobs = false;
  std::int64_t top_logprobs = 0;  // candidates for each token
};

// What is wrong with the options, as far as it can be known without the plan: ids of logit_bias
// outside the vocabulary, a bias that is not finite, stop strings that are empty or have no
// tokenizer.
RequestStatus CheckAnswerOptions(const ChatModel& model, const AnswerOptions& options);

// One thread at a time. The model must outlive it.
class Answer {
 public:
  using Sink = std::function<void(AnswerEvent event)>;

  // The errors of CheckAnswerOptions, and of a plan's grammar that cannot be copied.
  static RequestResult<std::unique_ptr<Answer>> Make(const ChatModel& model, AnswerOptions options,
                                                     Sink sink);
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // The next token, to be fed back, from the logits behind history (prompt and answer so far).
  // Nothing: the answer has ended, and AnswerEnd was sent. The last token of an answer is not given
  // back: nobody needs the logits behind it.
  std::optional<std::int32_t> Next(std::span<const float> logits,
                                   std::span<const std::int32_t> history);
  // Something else has ended the answer: the context is full (kLength), a cancel, an error. What
  // was held back comes out, then AnswerEnd. Nothing happens if it has ended already.
  void Finish(const Result<runtime::FinishReason>& end);
  // max_tokens is 0: it will end with kLength at once, so the prompt need not run. Call Finish.
  bool wants_nothing() const;

  bool ended() const;
  AnswerEndReason end_reason() const;  // once it has ended
  // Of kError.
  const Status& error() const;
  // Generated tokens, without the stop token; those of the thinking, with its marks.
  std::int64_t completion_tokens() const;
  std::int64_t reasoning_tokens() const;
  // Ids in order, without the stop token.
  std::span<const std::int32_t> ids() const;

 private:
  class Impl;
  explicit Answer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::chat
