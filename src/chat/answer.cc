// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/answer.h"

#include <cmath>
#include <deque>
#include <limits>
#include <utility>

#include "chat/reply_reader.h"
#include "chat/token_score.h"
#include "runtime/token_chooser.h"

namespace hone::chat {
namespace {

// Thinking in front of what the grammar sees.
runtime::Constraint MakeConstraint(const ChatModel& model, const AnswerPlan& plan,
                                   bridge::TokenMatcher* matcher) {
  runtime::Constraint constraint;
  constraint.matcher = matcher;
  const bool may_open =
      plan.is_chat && model.has_thinking() && !plan.thinking_off && model.think_start_id();
  if (matcher == nullptr || (!plan.starts_in_thinking && !may_open)) return constraint;
  // The text too: a mark that is one token may also come in pieces.
  constraint.free_until_id = model.think_end_id();
  constraint.free_until_text = model.text().think_end;
  if (!plan.starts_in_thinking) constraint.free_from_id = model.think_start_id();
  return constraint;
}

}  // namespace

class Answer::Impl {
 public:
  Impl(const ChatModel& model, AnswerOptions options, Sink sink,
       std::optional<bridge::TokenMatcher> matcher)
      : model_(model),
        options_(std::move(options)),
        sink_(std::move(sink)),
        matcher_(std::move(matcher)),
        chooser_(model.text(), options_.sampler,
                 MakeConstraint(model, options_.plan, matcher_ ? &*matcher_ : nullptr)),
        reader_(model, options_.plan, options_.stop, sink_) {}

  std::optional<std::int32_t> Next(std::span<const float> logits,
                                   std::span<const std::int32_t> history) {
    if (ended_) return std::nullopt;
    auto next = Step(logits, history);
    if (next.ok()) return *next;
    Fail(std::move(next).status());
    return std::nullopt;
  }

  void Finish(const Result<runtime::FinishReason>& end) {
    if (ended_) return;
    if (!end.ok()) return Fail(Status(end.code(), std::string(end.message())));
    switch (*end) {
      case runtime::FinishReason::kStop:
        return End(AnswerEndReason::kStop);
      case runtime::FinishReason::kLength:
        return End(AnswerEndReason::kLength);
      case runtime::FinishReason::kCancelled:
        return End(AnswerEndReason::kCancelled);
    }
  }

  bool wants_nothing() const { return options_.max_tokens && *options_.max_tokens <= 0; }
  bool ended() const { return ended_; }
  AnswerEndReason reason() const { return reason_; }
  const Status& error() const { return error_; }
  std::int64_t reasoning_tokens() const { return reasoning_tokens_; }
  const std::vector<std::int32_t>& ids() const { return ids_; }

 private:
  Result<std::optional<std::int32_t>> Step(std::span<const float> logits,
                                           std::span<const std::int32_t> history) {
    using Token = std::optional<std::int32_t>;
    if (IsFull()) {
      End(AnswerEndReason::kLength);
      return Token();
    }
    HONE_ASSIGN(const Token id, Choose(logits, history));
    if (!id) {  // the grammar has an end, and the model has no stop token
      End(AnswerEndReason::kStop);
      return Token();
    }
    if (model_.IsStop(*id)) {
      const auto kept = model_.text().stop_kept_text.find(*id);
      const bool has_text = kept != model_.text().stop_kept_text.end();
      End(AnswerEndReason::kStop, has_text ? kept->second : std::string());
      return Token();
    }
    HONE_TRY(Take(*id, logits));
    if (reader_.stopped() || chooser_.done()) {
      End(AnswerEndReason::kStop);
      return Token();
    }
    if (IsFull()) {
      End(AnswerEndReason::kLength);
      return Token();
    }
    return id;
  }

  bool IsFull() const {
    return options_.max_tokens && static_cast<std::int64_t>(ids_.size()) >= *options_.max_tokens;
  }

  Result<std::optional<std::int32_t>> Choose(std::span<const float> logits,
                                             std::span<const std::int32_t> history) {
    if (!forced_.empty()) {
      const std::int32_t id = forced_.front();
      forced_.pop_front();
      HONE_TRY(chooser_.Take(id));
      return std::optional(id);
    }
    // Thinking that is off, or was closed by force, must not begin (again).
    const bool ban_thinking = (options_.plan.thinking_off || closed_by_force_) &&
                              !reader_.begun() && !reader_.in_thinking() && model_.think_key_id();
    if (options_.logit_bias.empty() && !ban_thinking) return chooser_.Choose(logits, history);
    changed_.assign(logits.begin(), logits.end());
    for (const auto& [id, bias] : options_.logit_bias) {
      if (static_cast<std::size_t>(id) < changed_.size()) {
        changed_[static_cast<std::size_t>(id)] += static_cast<float>(bias);
      }
    }
    if (ban_thinking) {
      changed_[static_cast<std::size_t>(*model_.think_key_id())] =
          -std::numeric_limits<float>::infinity();
    }
    return chooser_.Choose(changed_, history);
  }

  Status Take(std::int32_t id, std::span<const float> logits) {
    ids_.push_back(id);
    std::optional<TokenScore> score;
    if (options_.logprobs) {
      const auto* tokenizer = model_.text().tokenizer ? &*model_.text().tokenizer : nullptr;
      score = ScoreToken(tokenizer, logits, id, options_.top_logprobs);
    }
    const bool was_thinking = reader_.in_thinking();
    HONE_TRY(reader_.Push(id, std::move(score)));
    const bool is_thinking = reader_.in_thinking();
    if (was_thinking || is_thinking) ++reasoning_tokens_;
    if (was_thinking && is_thinking) ++channel_tokens_;
    if (is_thinking && forced_.empty() && MustClose()) {
      forced_.assign(model_.think_end_ids().begin(), model_.think_end_ids().end());
      closed_by_force_ = true;
    }
    return Status();
  }

  // At the budget. A model that may be writing the mark itself gets the tokens to complete it: at
  // most one for each byte.
  bool MustClose() const {
    if (!options_.plan.thinking_budget) return false;
    const std::int64_t over = channel_tokens_ - *options_.plan.thinking_budget;
    const auto grace = static_cast<std::int64_t>(model_.text().think_end.size());
    return over >= (reader_.may_close_thinking() ? grace : 0);
  }

  void End(AnswerEndReason reason, std::string_view kept = "") {
    const bool cuts_mark = !forced_.empty() && forced_.size() < model_.think_end_ids().size();
    Status status = reader_.Finish(kept, cuts_mark);
    if (!status.ok()) return Fail(std::move(status));
    SendEnd(reason);
  }
  void Fail(Status status) {
    error_ = std::move(status);
    SendEnd(AnswerEndReason::kError);
  }
  void SendEnd(AnswerEndReason reason) {
    ended_ = true;
    reason_ = reason;
    if (sink_) sink_(AnswerEnd{reason});
  }

  const ChatModel& model_;
  const AnswerOptions options_;
  const Sink sink_;
  std::optional<bridge::TokenMatcher> matcher_;
  runtime::TokenChooser chooser_;
  ReplyReader reader_;
  std::vector<std::int32_t> ids_;
  std::deque<std::int32_t> forced_;  // tokens that close the thinking
  bool closed_by_force_ = false;
  std::int64_t reasoning_tokens_ = 0;
  std::int64_t channel_tokens_ = 0;  // without the marks
  std::vector<float> changed_;       // scratch, [vocab]
  bool ended_ = false;
  AnswerEndReason reason_ = AnswerEndReason::kStop;
  Status error_;
};

RequestStatus CheckAnswerOptions(const ChatModel& model, const AnswerOptions& options) {
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0 || id >= model.vocab()) {
      return MakeRequestError(
          Status(Code::kInvalidArgument, StrCat("logit_bias: found the token id ", id,
                                                ", the model has 0 to ", model.vocab() - 1)),
          RequestPart::kLogitBias);
    }
    if (!std::isfinite(bias)) {
      return MakeRequestError(Status(Code::kInvalidArgument,
                                     StrCat("logit_bias: of token ", id, ": not a finite number")),
                              RequestPart::kLogitBias);
    }
  }
  if (!options.stop.empty() && !model.text().tokenizer) {
    return MakeRequestError(Status(Code::kUnsupported, StrCat("stop strings need a tokenizer: ",
                                                              model.text().tokenizer_error)),
                            RequestPart::kStop);
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty()) {
      return MakeRequestError(Status(Code::kInvalidArgument, "stop: a string is empty"),
                              RequestPart::kStop);
    }
  }
  return {};
}

RequestResult<std::unique_ptr<Answer>> Answer::Make(const ChatModel& model, AnswerOptions options,
                                                    Sink sink) {
  HONE_TRY(CheckAnswerOptions(model, options));
  std::optional<bridge::TokenMatcher> matcher;
  if (options.plan.matcher) {
    auto clone = options.plan.matcher->Clone();
    if (!clone.ok()) {
      return MakeRequestError(std::move(clone).status(), RequestPart::kResponseFormat);
    }
    matcher.emplace(*std::move(clone));
  }
  auto impl =
      std::make_unique<Impl>(model, std::move(options), std::move(sink), std::move(matcher));
  return std::unique_ptr<Answer>(new Answer(std::move(impl)));
}

Answer::Answer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Answer::~Answer() = default;

std::optional<std::int32_t> Answer::Next(std::span<const float> logits,
                                         std::span<const std::int32_t> history) {
  return impl_->Next(logits, history);
}
void Answer::Finish(const Result<runtime::FinishReason>& end) { impl_->Finish(end); }
bool Answer::wants_nothing() const { return impl_->wants_nothing(); }
bool Answer::ended() const { return impl_->ended(); }
AnswerEndReason Answer::end_reason() const { return impl_->reason(); }
const Status& Answer::error() const { return impl_->error(); }
std::int64_t Answer::completion_tokens() const {
  return static_cast<std::int64_t>(impl_->ids().size());
}
std::int64_t Answer::reasoning_tokens() const { return impl_->reasoning_tokens(); }
std::span<const std::int32_t> Answer::ids() const { return impl_->ids(); }

}  // namespace hone::chat
