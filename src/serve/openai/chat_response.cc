// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Responses of /v1/chat/completions: one object, or chunks.
#include <utility>

#include "serve/openai/wire.h"

namespace hone::serve::openai {
namespace {

// Where the thinking goes if the client wants it inside the content.
constexpr const char* kThinkOpen = "<think>\n";
constexpr const char* kThinkClose = "\n</think>\n\n";

const char* FinishName(EndReason reason, bool called) {
  if (reason == EndReason::kLength) return "length";
  return called ? "tool_calls" : "stop";
}

// Turns thinking into content, if wanted. One for each choice.
class InlineThinking {
 public:
  explicit InlineThinking(bool enabled) : enabled_(enabled) {}

  // What the reader of the content sees for this event.
  Event Translate(const Event& event) {
    if (!enabled_) return event;
    if (const auto* thinking = std::get_if<ThinkingDelta>(&event.what)) {
      if (thinking->text.empty()) return event;
      std::string text = open_ ? thinking->text : kThinkOpen + thinking->text;
      open_ = true;
      return {event.choice, ContentDelta{std::move(text)}};
    }
    if (const auto* content = std::get_if<ContentDelta>(&event.what)) {
      if (!open_ || content->text.empty()) return event;
      open_ = false;
      return {event.choice, ContentDelta{kThinkClose + content->text, content->tokens}};
    }
    return event;
  }
  // Text that comes before a tool call, which is not content itself.
  std::string CloseBeforeCall() {
    if (!enabled_ || !open_) return "";
    open_ = false;
    return kThinkClose;
  }

 private:
  bool enabled_;
  bool open_ = false;
};

Json CallJson(const std::string& id, const std::string& name, const std::string& arguments) {
  Json function(Json::Object{{"name", name}, {"arguments", arguments}});
  return Json(Json::Object{{"id", id}, {"type", "function"}, {"function", std::move(function)}});
}

Json LogprobsJson(Json::Array content) {
  return Json(Json::Object{{"content", Json(std::move(content))}, {"refusal", Json()}});
}

Json HeadJson(const ReplyHead& head, const char* object) {
  return Json(Json::Object{
      {"id", head.id},
      {"object", object},
      {"created", Json(head.created)},
      {"model", head.model},
      {"system_fingerprint", head.fingerprint.empty() ? Json() : Json(head.fingerprint)}});
}

class ChatWriter : public ReplyWriter {
 public:
  ChatWriter(const GenerateCall& call, ReplyHead head, IdMaker ids)
      : ReplyWriter(std::move(head)),
        ids_(std::move(ids)),
        logprobs_(call.generate.logprobs),
        top_logprobs_(call.generate.top_logprobs),
        notices_(call.reply) {
    thinking_.assign(static_cast<std::size_t>(call.generate.NumChoices()),
                     InlineThinking(call.reply.inline_thinking));
  }

  std::string Add(const Event& event) final {
    if (const auto* warning = std::get_if<Warning>(&event.what)) {
      notices_.Add(*warning);
      return "";
    }
    if (const auto* progress = std::get_if<Progress>(&event.what)) return AddProgress(*progress);
    InlineThinking& thinking = thinking_[static_cast<std::size_t>(event.choice)];
    std::string out;
    if (std::holds_alternative<ToolCallBegin>(event.what)) {
      std::string text = thinking.CloseBeforeCall();
      if (!text.empty()) out = AddPart({event.choice, ContentDelta{std::move(text)}});
    }
    return out + AddPart(thinking.Translate(event));
  }

 protected:
  virtual std::string AddPart(const Event& event) = 0;
  virtual std::string AddProgress(const Progress& progress) = 0;

  IdMaker ids_;
  bool logprobs_;
  std::int64_t top_logprobs_;
  Notices notices_;

 private:
  std::vector<InlineThinking> thinking_;
};

class WholeChat final : public ChatWriter {
 public:
  WholeChat(const GenerateCall& call, ReplyHead head, IdMaker ids)
      : ChatWriter(call, std::move(head), std::move(ids)),
        choices_(static_cast<std::size_t>(call.generate.NumChoices())) {}

  std::string Finish(const Usage& usage) override {
    Json json = HeadJson(head_, "chat.completion");
    Json::Array choices;
    for (std::size_t i = 0; i < choices_.size(); ++i) choices.push_back(ChoiceJson(i));
    json.Set("choices", Json(std::move(choices)));
    json.Set("usage", UsageJson(usage));
    notices_.MoveTo(json);
    return json.Dump();
  }
  std::string Fail(const ApiError&) override { return ""; }

 private:
  struct Call {
    std::string id, name, arguments;
  };
  struct Choice {
    std::string content, reasoning;
    std::vector<Call> calls;
    Json::Array tokens;
    EndReason reason = EndReason::kStop;
  };

  std::string AddProgress(const Progress&) override { return ""; }
  std::string AddPart(const Event& event) override {
    Choice& choice = choices_[static_cast<std::size_t>(event.choice)];
    if (const auto* content = std::get_if<ContentDelta>(&event.what)) {
      choice.content += content->text;
      for (Json& token : TokenLogprobsJson(content->tokens, top_logprobs_)) {
        choice.tokens.push_back(std::move(token));
      }
    } else if (const auto* thinking = std::get_if<ThinkingDelta>(&event.what)) {
      choice.reasoning += thinking->text;
    } else if (const auto* begin = std::get_if<ToolCallBegin>(&event.what)) {
      choice.calls.push_back({ids_("call_"), begin->name, ""});
    } else if (const auto* part = std::get_if<ToolCallArguments>(&event.what)) {
      choice.calls.back().arguments += part->text;
    } else if (const auto* end = std::get_if<ChoiceEnd>(&event.what)) {
      choice.reason = end->reason;
    }
    return "";
  }

  Json ChoiceJson(std::size_t index) const {
    const Choice& choice = choices_[index];
    const bool no_content =
        choice.content.empty() && (!choice.calls.empty() || !choice.reasoning.empty());
    Json message(Json::Object{{"role", "assistant"},
                              {"content", no_content ? Json() : Json(choice.content)},
                              {"refusal", Json()}});
    if (!choice.reasoning.empty()) message.Set("reasoning_content", Json(choice.reasoning));
    if (!choice.calls.empty()) {
      Json::Array calls;
      for (const Call& call : choice.calls) {
        calls.push_back(CallJson(call.id, call.name, call.arguments));
      }
      message.Set("tool_calls", Json(std::move(calls)));
    }
    return Json(Json::Object{{"index", Json(static_cast<std::int64_t>(index))},
                             {"message", std::move(message)},
                             {"logprobs", logprobs_ ? LogprobsJson(choice.tokens) : Json()},
                             {"finish_reason", FinishName(choice.reason, !choice.calls.empty())}});
  }

  std::vector<Choice> choices_;
};

class ChatStream final : public ChatWriter {
 public:
  ChatStream(const GenerateCall& call, ReplyHead head, IdMaker ids)
      : ChatWriter(call, std::move(head), std::move(ids)),
        include_usage_(call.reply.include_usage),
        choices_(static_cast<std::size_t>(call.generate.NumChoices())) {}

  std::string Finish(const Usage& usage) override {
    std::string out;
    if (include_usage_ || !notices_.empty()) {
      Json chunk = HeadJson(head_, "chat.completion.chunk");
      chunk.Set("choices", Json(Json::Array{}));
      if (include_usage_) chunk.Set("usage", UsageJson(usage));
      notices_.MoveTo(chunk);
      out = SseData(chunk);
    }
    return out + std::string(kSseDone);
  }
  std::string Fail(const ApiError& error) override { return SseData(ErrorJson(error)); }

 private:
  struct Choice {
    bool begun = false;
    std::int64_t calls = 0;
  };

  std::string AddProgress(const Progress& progress) override {
    return SseComment(StrCat("prompt ", progress.done_tokens, "/", progress.total_tokens));
  }

  std::string AddPart(const Event& event) override {
    Choice& choice = choices_[static_cast<std::size_t>(event.choice)];
    if (const auto* content = std::get_if<ContentDelta>(&event.what)) {
      if (content->text.empty() && content->tokens.empty()) return "";
      Json::Array tokens = TokenLogprobsJson(content->tokens, top_logprobs_);
      std::string out = Begin(event.choice, Json(""));
      return out + Chunk(event.choice, Json(Json::Object{{"content", content->text}}),
                         logprobs_ ? LogprobsJson(std::move(tokens)) : Json(), Json());
    }
    if (const auto* thinking = std::get_if<ThinkingDelta>(&event.what)) {
      if (thinking->text.empty()) return "";
      std::string out = Begin(event.choice, Json());
      return out + Delta(event.choice, Json(Json::Object{{"reasoning_content", thinking->text}}));
    }
    if (const auto* begin = std::get_if<ToolCallBegin>(&event.what)) {
      Json call(Json::Object{{"index", Json(choice.calls++)}});
      const Json whole = CallJson(ids_("call_"), begin->name, "");
      for (const auto& [key, value] : whole.AsObject()) call.Set(key, value);
      std::string out = Begin(event.choice, Json());
      return out + CallDelta(event.choice, std::move(call));
    }
    if (const auto* part = std::get_if<ToolCallArguments>(&event.what)) {
      if (part->text.empty()) return "";
      Json function(Json::Object{{"arguments", part->text}});
      return CallDelta(event.choice, Json(Json::Object{{"index", Json(choice.calls - 1)},
                                                       {"function", std::move(function)}}));
    }
    if (const auto* end = std::get_if<ChoiceEnd>(&event.what)) {
      std::string out = Begin(event.choice, Json(""));
      return out + Chunk(event.choice, Json(Json::Object{}), Json(),
                         Json(FinishName(end->reason, choice.calls > 0)));
    }
    return "";
  }

  // The chunk with the role, once for each choice. It takes the notices, so that it needs a
  // statement of its own in front of the next chunk.
  std::string Begin(std::int64_t index, Json content) {
    Choice& choice = choices_[static_cast<std::size_t>(index)];
    if (choice.begun) return "";
    choice.begun = true;
    return Delta(index,
                 Json(Json::Object{
                     {"role", "assistant"}, {"content", std::move(content)}, {"refusal", Json()}}));
  }
  std::string CallDelta(std::int64_t index, Json call) {
    return Delta(index, Json(Json::Object{{"tool_calls", Json(Json::Array{std::move(call)})}}));
  }
  std::string Delta(std::int64_t index, Json delta) {
    return Chunk(index, std::move(delta), Json(), Json());
  }
  std::string Chunk(std::int64_t index, Json delta, Json logprobs, Json finish_reason) {
    Json choice(Json::Object{{"index", Json(index)},
                             {"delta", std::move(delta)},
                             {"logprobs", std::move(logprobs)},
                             {"finish_reason", std::move(finish_reason)}});
    Json chunk = HeadJson(head_, "chat.completion.chunk");
    chunk.Set("choices", Json(Json::Array{std::move(choice)}));
    if (include_usage_) chunk.Set("usage", Json());
    notices_.MoveTo(chunk);
    return SseData(chunk);
  }

  bool include_usage_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<ReplyWriter> MakeChatWriter(const GenerateCall& call, ReplyHead head, IdMaker ids) {
  if (call.reply.stream) {
    return std::make_unique<ChatStream>(call, std::move(head), std::move(ids));
  }
  return std::make_unique<WholeChat>(call, std::move(head), std::move(ids));
}

}  // namespace hone::serve::openai
