// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Responses of /v1/responses: one object, or events.
#include <optional>
#include <utility>

#include "serve/openai/wire.h"

namespace hone::serve::openai {
namespace {

enum class ItemKind : std::uint8_t { kMessage, kReasoning, kCall };

// An output item that still grows.
struct OpenItem {
  ItemKind kind;
  std::string id;
  std::string text;  // or the arguments of a call
  std::string call_id, name;
  Json::Array tokens;  // log-probabilities
};

const char* PartType(ItemKind kind) {
  return kind == ItemKind::kMessage ? "output_text" : "reasoning_text";
}

Json PartJson(const OpenItem& item) {
  Json part(Json::Object{{"type", PartType(item.kind)}, {"text", item.text}});
  if (item.kind == ItemKind::kMessage) {
    part.Set("annotations", Json(Json::Array{}));
    part.Set("logprobs", Json(item.tokens));
  }
  return part;
}

// with_part: false for an item that was only just added.
Json ItemJson(const OpenItem& item, const char* status, bool with_part) {
  if (item.kind == ItemKind::kCall) {
    return Json(Json::Object{{"id", item.id},
                             {"type", "function_call"},
                             {"status", status},
                             {"call_id", item.call_id},
                             {"name", item.name},
                             {"arguments", item.text}});
  }
  Json::Array parts;
  if (with_part) parts.push_back(PartJson(item));
  if (item.kind == ItemKind::kReasoning) {
    return Json(Json::Object{{"id", item.id},
                             {"type", "reasoning"},
                             {"status", status},
                             {"summary", Json(Json::Array{})},
                             {"content", Json(std::move(parts))}});
  }
  return Json(Json::Object{{"id", item.id},
                           {"type", "message"},
                           {"status", status},
                           {"role", "assistant"},
                           {"content", Json(std::move(parts))}});
}

Json ResponseUsage(const Usage& usage) {
  return Json(Json::Object{{"input_tokens", Json(usage.prompt_tokens)},
                           {"input_tokens_details",
                            // Clients want both; nothing is charged for writing the cache.
                            Json(Json::Object{{"cached_tokens", Json(usage.cached_tokens)},
                                              {"cache_write_tokens", Json(0)}})},
                           {"output_tokens", Json(usage.completion_tokens)},
                           {"output_tokens_details",
                            Json(Json::Object{{"reasoning_tokens", Json(usage.reasoning_tokens)}})},
                           {"total_tokens", Json(usage.prompt_tokens + usage.completion_tokens)}});
}

// Builds the output either way; only a stream sends the steps.
class ResponsesWriter final : public ReplyWriter {
 public:
  ResponsesWriter(const GenerateCall& call, ReplyHead head, IdMaker ids)
      : ReplyWriter(std::move(head)),
        ids_(std::move(ids)),
        stream_(call.reply.stream),
        top_logprobs_(call.generate.top_logprobs),
        notices_(call.reply),
        echo_(call.echo_members) {}

  std::string Add(const Event& event) override {
    Start();
    if (const auto* content = std::get_if<ContentDelta>(&event.what)) {
      AddContent(*content);
    } else if (const auto* thinking = std::get_if<ThinkingDelta>(&event.what)) {
      AddThinking(thinking->text);
    } else if (const auto* begin = std::get_if<ToolCallBegin>(&event.what)) {
      BeginCall(*begin);
    } else if (const auto* arguments = std::get_if<ToolCallArguments>(&event.what)) {
      AddArguments(arguments->text);
    } else if (std::holds_alternative<ToolCallEnd>(event.what)) {
      CloseItem("completed");
    } else if (const auto* end = std::get_if<ChoiceEnd>(&event.what)) {
      cut_ = end->reason == EndReason::kLength;
      CloseItem(cut_ ? "incomplete" : "completed");
    } else if (const auto* warning = std::get_if<Warning>(&event.what)) {
      notices_.Add(*warning);
    } else if (const auto* progress = std::get_if<Progress>(&event.what)) {
      if (stream_) {
        out_ += SseComment(StrCat("prompt ", progress->done_tokens, "/", progress->total_tokens));
      }
    }
    return std::exchange(out_, "");
  }

  std::string Finish(const Usage& usage) override {
    Start();
    if (items_.empty() && !cut_) {  // an answer without a word is still a message
      OpenText(ItemKind::kMessage);
      CloseItem("completed");
    }
    Json response = ResponseJson(cut_ ? "incomplete" : "completed");
    if (cut_) {
      response.Set("incomplete_details", Json(Json::Object{{"reason", "max_output_tokens"}}));
    }
    response.Set("usage", ResponseUsage(usage));
    if (!stream_) return response.Dump();
    Emit(cut_ ? "response.incomplete" : "response.completed", {{"response", std::move(response)}});
    return std::exchange(out_, "");
  }

  std::string Fail(const ApiError& error) override {
    if (!stream_) return "";
    Start();
    CloseItem("incomplete");
    Json response = ResponseJson("failed");
    const std::string code = error.http_status >= 500 ? "server_error" : error.code;
    response.Set("error", Json(Json::Object{{"code", code}, {"message", error.message}}));
    Emit("response.failed", {{"response", std::move(response)}});
    return std::exchange(out_, "");
  }

 private:
  void Start() {
    if (started_) return;
    started_ = true;
    Emit("response.created", {{"response", ResponseJson("in_progress")}});
    Emit("response.in_progress", {{"response", ResponseJson("in_progress")}});
  }

  void AddContent(const ContentDelta& content) {
    if (content.text.empty() && content.tokens.empty()) return;
    OpenText(ItemKind::kMessage);
    open_->text += content.text;
    Json::Array tokens = TokenLogprobsJson(content.tokens, top_logprobs_);
    open_->tokens.insert(open_->tokens.end(), tokens.begin(), tokens.end());
    EmitPart("response.output_text.delta",
             {{"delta", content.text}, {"logprobs", Json(std::move(tokens))}});
  }
  void AddThinking(const std::string& text) {
    if (text.empty()) return;
    OpenText(ItemKind::kReasoning);
    open_->text += text;
    EmitPart("response.reasoning_text.delta", {{"delta", text}});
  }
  void BeginCall(const ToolCallBegin& begin) {
    CloseItem("completed");
    open_ = OpenItem{ItemKind::kCall, ids_("fc_"), "", ids_("call_"), begin.name, {}};
    EmitItem("response.output_item.added", ItemJson(*open_, "in_progress", false));
  }
  void AddArguments(const std::string& text) {
    if (text.empty() || !open_) return;
    open_->text += text;
    Emit("response.function_call_arguments.delta",
         {{"item_id", open_->id}, {"output_index", OutputIndex()}, {"delta", text}});
  }

  void OpenText(ItemKind kind) {
    if (open_ && open_->kind == kind) return;
    CloseItem("completed");
    open_ = OpenItem{kind, ids_(kind == ItemKind::kMessage ? "msg_" : "rs_"), "", "", "", {}};
    EmitItem("response.output_item.added", ItemJson(*open_, "in_progress", false));
    EmitPart("response.content_part.added", {{"part", PartJson(*open_)}});
  }

  void CloseItem(const char* status) {
    if (!open_) return;
    if (open_->kind == ItemKind::kCall) {
      Emit("response.function_call_arguments.done", {{"item_id", open_->id},
                                                     {"output_index", OutputIndex()},
                                                     {"name", open_->name},
                                                     {"arguments", open_->text}});
    } else if (open_->kind == ItemKind::kMessage) {
      EmitPart("response.output_text.done",
               {{"text", open_->text}, {"logprobs", Json(open_->tokens)}});
      EmitPart("response.content_part.done", {{"part", PartJson(*open_)}});
    } else {
      EmitPart("response.reasoning_text.done", {{"text", open_->text}});
      EmitPart("response.content_part.done", {{"part", PartJson(*open_)}});
    }
    const Json item = ItemJson(*open_, status, true);
    EmitItem("response.output_item.done", item);
    items_.push_back(item);
    open_.reset();
  }

  Json OutputIndex() const { return Json(static_cast<std::int64_t>(items_.size())); }

  void EmitItem(const char* type, Json item) {
    Emit(type, {{"output_index", OutputIndex()}, {"item", std::move(item)}});
  }
  void EmitPart(const char* type, Json::Object more) {
    Json::Object members = {
        {"item_id", open_->id}, {"output_index", OutputIndex()}, {"content_index", Json(0)}};
    members.insert(members.end(), more.begin(), more.end());
    Emit(type, std::move(members));
  }
  void Emit(const char* type, Json::Object more) {
    if (!stream_) return;
    Json::Object members = {{"type", type}, {"sequence_number", Json(sequence_++)}};
    members.insert(members.end(), more.begin(), more.end());
    out_ += SseData(Json(std::move(members)), type);
  }

  Json ResponseJson(const char* status) const {
    Json out(Json::Object{{"id", head_.id},
                          {"object", "response"},
                          {"created_at", Json(head_.created)},
                          {"status", status},
                          {"error", Json()},
                          {"incomplete_details", Json()},
                          {"model", head_.model},
                          {"output", Json(items_)}});
    for (const auto& [key, value] : echo_) out.Set(key, value);
    out.Set("usage", Json());
    notices_.CopyTo(out);
    return out;
  }

  IdMaker ids_;
  bool stream_;
  std::int64_t top_logprobs_;
  Notices notices_;
  Json::Object echo_;

  bool started_ = false;
  bool cut_ = false;
  std::int64_t sequence_ = 0;
  Json::Array items_;  // that are complete
  std::optional<OpenItem> open_;
  std::string out_;  // not yet returned
};

}  // namespace

std::unique_ptr<ReplyWriter> MakeResponsesWriter(const GenerateCall& call, ReplyHead head,
                                                 IdMaker ids) {
  return std::make_unique<ResponsesWriter>(call, std::move(head), std::move(ids));
}

}  // namespace hone::serve::openai
