// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/chat.h"

#include <algorithm>
#include <utility>

namespace hone::runtime {
namespace {

// Arguments of a tool call come from the OpenAI API as JSON text; templates want the object. A
// string that is no JSON object stays a string.
void DecodeArguments(Json& message) {
  if (!message.IsObject()) return;
  for (Json::Member& member : message.AsObject()) {
    if (member.first != "tool_calls" || !member.second.IsArray()) continue;
    for (Json& call : member.second.AsArray()) {
      const Json* function = call.Find("function");
      if (function == nullptr || !function->IsObject()) continue;
      const Json* arguments = function->Find("arguments");
      if (arguments == nullptr || !arguments->IsString()) continue;
      auto decoded = ObjectFromText(*arguments);
      if (!decoded.ok()) continue;
      Json changed = *function;
      changed.Set("arguments", *std::move(decoded));
      call.Set("function", std::move(changed));
    }
  }
}

// Transformers fills the name that templates read from the other names in use, and "thinking" in
// front, for templates that read that.
void AliasReasoning(Json& message) {
  const Json* reasoning = nullptr;
  for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
    reasoning = message.FindNonNull(key);
    if (reasoning != nullptr) break;
  }
  if (reasoning == nullptr) return;
  const Json value = *reasoning;
  if (message.Find("thinking") == nullptr) {
    Json::Object& members = message.AsObject();
    members.insert(members.begin(), {"thinking", value});
  }
  message.Set("reasoning_content", value);
}

Result<Json> PrepareMessages(const Json& messages) {
  if (!messages.IsArray()) {
    return Status(Code::kInvalidArgument,
                  StrCat("messages: found ", messages.TypeName(),
                         ", expected an array of {\"role\": ..., \"content\": ...}"));
  }
  Json::Array prepared;
  for (const Json& message : messages.AsArray()) {
    if (!message.IsObject()) {
      return Status(Code::kInvalidArgument,
                    StrCat("messages[", prepared.size(), "]: found ", message.TypeName(),
                           ", expected an object with \"role\" and \"content\""));
    }
    Json copy = message;
    std::erase_if(copy.AsObject(), [](const Json::Member& m) { return m.second.IsNull(); });
    DecodeArguments(copy);
    AliasReasoning(copy);
    prepared.push_back(std::move(copy));
  }
  return Json(std::move(prepared));
}

bool IsTextParts(const Json* content) {
  return content != nullptr && content->IsArray() &&
         std::all_of(content->AsArray().begin(), content->AsArray().end(), [](const Json& part) {
           const Json* type = part.Find("type");
           const Json* text = part.Find("text");
           return type != nullptr && type->IsString() && type->AsString() == "text" &&
                  text != nullptr && text->IsString();
         });
}

// Replaces content that is a list of text parts by the joined text. False if there is none.
bool JoinTextParts(Json& messages) {
  bool joined = false;
  for (Json& message : messages.AsArray()) {
    const Json* content = message.Find("content");
    if (!IsTextParts(content)) continue;
    std::string text;
    for (const Json& part : content->AsArray()) text += part.Find("text")->AsString();
    message.Set("content", Json(std::move(text)));
    joined = true;
  }
  return joined;
}

// A word that no template looks for.
constexpr std::string_view kProbe = "\x01probe\x01";

std::size_t CountProbes(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(kProbe); at != std::string_view::npos;
       at = text.find(kProbe, at + kProbe.size())) {
    ++count;
  }
  return count;
}

// messages with kProbe for the text of every part.
Json WithProbes(const Json& messages) {
  Json probed = messages;
  for (Json& message : probed.AsArray()) {
    const Json* content = message.Find("content");
    if (!IsTextParts(content)) continue;
    Json parts = *content;
    for (Json& part : parts.AsArray()) part.Set("text", Json(kProbe));
    message.Set("content", std::move(parts));
  }
  return probed;
}

Json MakeContext(const TextSetup& text, const Json& messages, const RenderOptions& options) {
  Json context(Json::Object{});
  context.Set("messages", messages);
  context.Set("tools", options.tools);
  context.Set("documents", Json());
  context.Set("add_generation_prompt", Json(options.add_generation_prompt));
  const auto set_token = [&](std::string_view name, const std::string& value, bool always) {
    if (always || !value.empty()) context.Set(name, Json(value));
  };
  set_token("bos_token", text.bos_text, /*always=*/text.is_bundle);
  set_token("eos_token", text.eos_text, /*always=*/text.is_bundle);
  set_token("unk_token", text.unk_text, false);
  set_token("pad_token", text.pad_text, false);
  if (options.think != Think::kAuto) {
    context.Set("enable_thinking", Json(options.think == Think::kOn));
  }
  for (const auto& [name, value] : options.variables) context.Set(name, value);
  return context;
}

}  // namespace

Result<std::string> RenderChat(const TextSetup& text, const Json& messages,
                               const RenderOptions& options) {
  const bool with_tools = options.tools.IsArray() && !options.tools.AsArray().empty();
  const auto& chat_template =
      with_tools && text.tool_template ? text.tool_template : text.chat_template;
  if (!chat_template) {
    return Status(Code::kUnsupported,
                  text.template_error.empty()
                      ? std::string("the model has no chat template; give the whole prompt as raw "
                                    "text instead")
                      : StrCat("the chat template cannot be used: ", text.template_error));
  }
  if (!options.tools.IsNull() && !options.tools.IsArray()) {
    return Status(Code::kInvalidArgument,
                  StrCat("tools: found ", options.tools.TypeName(), ", expected an array"));
  }
  HONE_ASSIGN(const Json prepared, PrepareMessages(messages));
  const auto render = [&](const Json& shown) {
    return chat_template->Render(MakeContext(text, shown, options).Dump(), options.local_now);
  };
  auto rendered = render(prepared);
  Json as_text = prepared;
  if (JoinTextParts(as_text)) {
    // A template that cannot take a list of parts fails on it, prints it as it is, or leaves it
    // out.
    const auto probed = [&](bool join) -> std::size_t {
      Json probes = WithProbes(prepared);
      if (join) JoinTextParts(probes);
      const auto shown = render(probes);
      return shown.ok() ? CountProbes(*shown) : 0;
    };
    const bool printed_list =
        rendered.ok() && rendered->find("[{'type': 'text'") != std::string::npos;
    if (!rendered.ok() || printed_list || probed(false) < probed(true)) {
      auto joined = render(as_text);
      if (joined.ok()) return joined;
    }
  }
  if (!rendered.ok() && !rendered.message().starts_with("chat template")) {
    return std::move(rendered).status().Context("chat template");
  }
  return rendered;
}

Result<std::vector<std::int32_t>> EncodePrompt(const TextSetup& text, std::string_view prompt) {
  if (!text.tokenizer) {
    return Status(Code::kUnsupported, StrCat("no tokenizer: ", text.tokenizer_error));
  }
  HONE_ASSIGN(std::vector<std::int32_t> ids, text.tokenizer->Encode(prompt));
  if (text.start_id && (ids.empty() || ids[0] != *text.start_id)) {
    ids.insert(ids.begin(), *text.start_id);
  }
  return ids;
}

}  // namespace hone::runtime
