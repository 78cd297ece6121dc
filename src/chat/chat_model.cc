// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/chat_model.h"

#include <algorithm>
#include <utility>

#include "runtime/chat.h"
#include "runtime/token_chooser.h"

namespace hone::chat {
namespace {

// Tags that stand inside calls and that tokenizers have as tokens of their own.
constexpr std::string_view kInnerTags[] = {"<function",    "</function>", "<param",
                                           "</param>",     "<function=",  "<parameter=",
                                           "</parameter>", "[ARGS]",      "[CALL_ID]"};

bool IsOneCharacter(std::string_view text) {
  std::size_t characters = 0;
  for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return characters <= 1;
}

Json ProbeMessages() {
  return Json(Json::Array{Json(Json::Object{{"role", Json("user")}, {"content", Json("a")}})});
}

Json ProbeTools() {
  const Json parameters(
      Json::Object{{"type", Json("object")}, {"properties", Json(Json::Object{})}});
  const Json function(Json::Object{
      {"name", Json("probe")}, {"description", Json("Probes.")}, {"parameters", parameters}});
  return Json(Json::Array{Json(Json::Object{{"type", Json("function")}, {"function", function}})});
}

}  // namespace

ChatModel::ChatModel(const runtime::Engine& engine, std::string_view tool_family)
    : engine_(engine),
      text_(engine.text()),
      vocab_(engine.spec().vocab),
      context_(engine.spec().max_positions),
      family_(FindToolFamily(tool_family)),
      stop_ids_(text_.stop_ids.begin(), text_.stop_ids.end()) {
  if (family_ == nullptr) family_ = DetectToolFamily(text_.template_source);
  FindMarkers();
  ProbeTemplate();
}

void ChatModel::FindMarkers() {
  if (!text_.tokenizer) return;
  const auto whole_id = [&](const std::string& mark) -> std::optional<std::int32_t> {
    if (mark.empty()) return std::nullopt;
    const auto ids = text_.tokenizer->Encode(mark);
    if (!ids.ok() || ids->size() != 1) return std::nullopt;
    return (*ids)[0];
  };
  think_start_id_ = whole_id(text_.think_start);
  think_end_id_ = whole_id(text_.think_end);
  if (!text_.think_end.empty()) {
    auto ids = text_.tokenizer->Encode(text_.think_end);
    if (ids.ok()) think_end_ids_ = *std::move(ids);
  }
  think_key_id_ = think_start_id_;
  for (const bridge::AddedToken& token : text_.tokenizer->added_tokens()) {
    const std::string& content = token.content;
    const bool begins_mark = !content.empty() && text_.think_start.starts_with(content);
    if (token.special && begins_mark && !think_key_id_) think_key_id_ = token.id;
    if ((token.special || IsStop(token.id)) && !IsOneCharacter(content)) {
      control_texts_.Add(content, IsAnswerMark(content) ? kAnswerMark : kControl);
    }
    if (!token.special || IsStop(token.id)) continue;
    // A mark of the thinking may be made of several tokens: "<|channel>" and "thought".
    if (has_thinking() && (text_.think_start.find(content) != std::string::npos ||
                           text_.think_end.find(content) != std::string::npos)) {
      think_shown_ids_.insert(token.id);
    }
    if (IsAnswerMark(content)) tool_shown_ids_.insert(token.id);
  }
  tool_shown_ids_.insert(think_shown_ids_.begin(), think_shown_ids_.end());
}

bool ChatModel::IsAnswerMark(std::string_view text) const {
  if (!text.empty() && has_thinking() &&
      (text_.think_start.find(text) != std::string::npos ||
       text_.think_end.find(text) != std::string::npos)) {
    return true;
  }
  if (family_ == nullptr) return false;
  return text == family_->open || text == family_->close ||
         std::find(std::begin(kInnerTags), std::end(kInnerTags), text) != std::end(kInnerTags);
}

void ChatModel::ProbeTemplate() {
  if (!has_template()) return;
  runtime::RenderOptions options;
  const auto render = [&] { return runtime::RenderChat(text_, ProbeMessages(), options); };
  const auto plain = render();
  options.tools = ProbeTools();
  const auto with_tools = render();
  uses_tools_ = with_tools.ok() && (!plain.ok() || *plain != *with_tools);
  options.tools = Json();
  options.think = runtime::Think::kOff;
  const auto off = render();
  options.think = runtime::Think::kOn;
  const auto on = render();
  template_switches_thinking_ = off.ok() && on.ok() && *off != *on;
}

std::optional<std::int32_t> ChatModel::SpecialId(std::string_view marker) const {
  if (!text_.tokenizer) return std::nullopt;
  for (const bridge::AddedToken& token : text_.tokenizer->added_tokens()) {
    if (token.special && token.content == marker) return token.id;
  }
  return std::nullopt;
}

Result<bridge::Vocabulary> ChatModel::vocabulary() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!vocabulary_) {
    HONE_ASSIGN(bridge::Vocabulary made, runtime::MakeVocabulary(engine_));
    vocabulary_.emplace(std::move(made));
  }
  return *vocabulary_;
}

}  // namespace hone::chat
