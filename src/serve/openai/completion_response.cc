// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Responses of /v1/completions in the classic format, which evaluation tools read.
#include <algorithm>
#include <set>
#include <utility>

#include "serve/openai/utf8.h"
#include "serve/openai/wire.h"

namespace hone::serve::openai {
namespace {

// A token's text; the classic format marks a part of a character by "bytes:".
std::string ClassicText(const std::string& bytes) {
  return IsUtf8(bytes) ? bytes : "bytes:" + EscapeInvalid(bytes);
}

// tokens, token_logprobs, top_logprobs and text_offset of one choice, while tokens come.
class ClassicLogprobs {
 public:
  // The members for the next tokens. max_top 0: top_logprobs is null.
  Json Add(std::span<const TokenScore> tokens, std::int64_t max_top) {
    Json::Array texts, logprobs, tops, offsets;
    for (const TokenScore& token : tokens) {
      texts.push_back(Json(ClassicText(token.bytes)));
      logprobs.push_back(token.logprob ? Json(WireLogprob(*token.logprob)) : Json());
      tops.push_back(token.logprob ? TopJson(token, max_top) : Json());
      offsets.push_back(Json(counter_.count()));
      counter_.Add(token.bytes);
    }
    return Json(Json::Object{{"tokens", Json(std::move(texts))},
                             {"token_logprobs", Json(std::move(logprobs))},
                             {"top_logprobs", max_top > 0 ? Json(std::move(tops)) : Json()},
                             {"text_offset", Json(std::move(offsets))}});
  }

 private:
  // Text to log-probability: the best max_top, and the token itself if it is not among them. Of
  // tokens with the same text the likeliest counts.
  static Json TopJson(const TokenScore& token, std::int64_t max_top) {
    std::vector<TokenCandidate> best = token.top;
    std::stable_sort(best.begin(), best.end(), [](const auto& a, const auto& b) {
      return WireLogprob(a.logprob) > WireLogprob(b.logprob);
    });
    if (static_cast<std::int64_t>(best.size()) > max_top) {
      best.resize(static_cast<std::size_t>(max_top));
    }
    best.push_back({token.id, token.bytes, *token.logprob});
    Json out(Json::Object{});
    for (const TokenCandidate& candidate : best) {
      const std::string text = ClassicText(candidate.bytes);
      if (out.Find(text) == nullptr) out.Set(text, Json(WireLogprob(candidate.logprob)));
    }
    return out;
  }

  CharacterCounter counter_;
};

class CompletionWriter : public ReplyWriter {
 public:
  CompletionWriter(const GenerateCall& call, ReplyHead head)
      : ReplyWriter(std::move(head)),
        logprobs_(call.generate.logprobs),
        top_logprobs_(call.generate.top_logprobs),
        notices_(call.reply) {}

 protected:
  Json Head() const {
    return Json(Json::Object{
        {"id", head_.id},
        {"object", "text_completion"},
        {"created", Json(head_.created)},
        {"model", head_.model},
        {"system_fingerprint", head_.fingerprint.empty() ? Json() : Json(head_.fingerprint)}});
  }
  static Json ChoiceJson(std::int64_t index, const std::string& text, Json logprobs, Json finish) {
    return Json(Json::Object{{"text", text},
                             {"index", Json(index)},
                             {"logprobs", std::move(logprobs)},
                             {"finish_reason", std::move(finish)}});
  }
  static const char* FinishName(EndReason reason) {
    return reason == EndReason::kLength ? "length" : "stop";
  }

  bool logprobs_;
  std::int64_t top_logprobs_;
  Notices notices_;
};

// Text and tokens of an event, if it has any. A completion has no channels: thinking is text.
struct TextPart {
  std::string text;
  std::vector<TokenScore> tokens;
};
TextPart PartOf(const Event& event) {
  if (const auto* content = std::get_if<ContentDelta>(&event.what)) {
    return {content->text, content->tokens};
  }
  if (const auto* echo = std::get_if<PromptEcho>(&event.what)) return {echo->text, echo->tokens};
  if (const auto* thinking = std::get_if<ThinkingDelta>(&event.what)) return {thinking->text, {}};
  return {};
}

class WholeCompletion final : public CompletionWriter {
 public:
  WholeCompletion(const GenerateCall& call, ReplyHead head)
      : CompletionWriter(call, std::move(head)),
        choices_(static_cast<std::size_t>(call.generate.NumChoices())) {}

  std::string Add(const Event& event) override {
    if (const auto* warning = std::get_if<Warning>(&event.what)) {
      notices_.Add(*warning);
      return "";
    }
    if (std::holds_alternative<Progress>(event.what)) return "";
    Choice& choice = choices_[static_cast<std::size_t>(event.choice)];
    TextPart part = PartOf(event);
    choice.text += part.text;
    std::move(part.tokens.begin(), part.tokens.end(), std::back_inserter(choice.tokens));
    if (const auto* end = std::get_if<ChoiceEnd>(&event.what)) choice.reason = end->reason;
    return "";
  }
  std::string Finish(const Usage& usage) override {
    Json json = Head();
    Json::Array choices;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      ClassicLogprobs classic;
      choices.push_back(ChoiceJson(static_cast<std::int64_t>(i), choice.text,
                                   logprobs_ ? classic.Add(choice.tokens, top_logprobs_) : Json(),
                                   Json(FinishName(choice.reason))));
    }
    json.Set("choices", Json(std::move(choices)));
    json.Set("usage", UsageJson(usage));
    notices_.MoveTo(json);
    return json.Dump();
  }
  std::string Fail(const ApiError&) override { return ""; }

 private:
  struct Choice {
    std::string text;
    std::vector<TokenScore> tokens;
    EndReason reason = EndReason::kStop;
  };
  std::vector<Choice> choices_;
};

class CompletionStream final : public CompletionWriter {
 public:
  CompletionStream(const GenerateCall& call, ReplyHead head)
      : CompletionWriter(call, std::move(head)),
        include_usage_(call.reply.include_usage),
        choices_(static_cast<std::size_t>(call.generate.NumChoices())) {}

  std::string Add(const Event& event) override {
    if (const auto* warning = std::get_if<Warning>(&event.what)) {
      notices_.Add(*warning);
      return "";
    }
    if (const auto* progress = std::get_if<Progress>(&event.what)) {
      return SseComment(StrCat("prompt ", progress->done_tokens, "/", progress->total_tokens));
    }
    if (const auto* end = std::get_if<ChoiceEnd>(&event.what)) {
      return Chunk(event.choice, "", Json(), Json(FinishName(end->reason)));
    }
    const TextPart part = PartOf(event);
    if (part.text.empty() && part.tokens.empty()) return "";
    ClassicLogprobs& classic = choices_[static_cast<std::size_t>(event.choice)];
    return Chunk(event.choice, part.text,
                 logprobs_ ? classic.Add(part.tokens, top_logprobs_) : Json(), Json());
  }
  std::string Finish(const Usage& usage) override {
    std::string out;
    if (include_usage_ || !notices_.empty()) {
      Json chunk = Head();
      chunk.Set("choices", Json(Json::Array{}));
      if (include_usage_) chunk.Set("usage", UsageJson(usage));
      notices_.MoveTo(chunk);
      out = SseData(chunk);
    }
    return out + std::string(kSseDone);
  }
  std::string Fail(const ApiError& error) override { return SseData(ErrorJson(error)); }

 private:
  std::string Chunk(std::int64_t index, const std::string& text, Json logprobs, Json finish) {
    Json chunk = Head();
    Json choice = ChoiceJson(index, text, std::move(logprobs), std::move(finish));
    chunk.Set("choices", Json(Json::Array{std::move(choice)}));
    if (include_usage_) chunk.Set("usage", Json());
    notices_.MoveTo(chunk);
    return SseData(chunk);
  }

  bool include_usage_;
  std::vector<ClassicLogprobs> choices_;
};

}  // namespace

std::unique_ptr<ReplyWriter> MakeCompletionWriter(const GenerateCall& call, ReplyHead head) {
  if (call.reply.stream) return std::make_unique<CompletionStream>(call, std::move(head));
  return std::make_unique<WholeCompletion>(call, std::move(head));
}

}  // namespace hone::serve::openai
