// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <utility>

#include "serve/openai/common_fields.h"
#include "serve/openai/messages.h"
#include "serve/openai/read_request.h"
#include "serve/openai/tools.h"

namespace hone::serve::openai {
namespace {

constexpr std::string_view kLogprobsInclude = "message.output_text.logprobs";

Json MakeMessage(std::string_view role) { return Json(Json::Object{{"role", role}}); }

// Items become messages: what one answer was made of (reasoning, text, calls) is one message again.
class ItemReader {
 public:
  explicit ItemReader(Json::Array& messages) : messages_(messages) {}

  ApiStatus Add(ReadContext& context, const Json& json, const std::string& path) {
    std::string type = "message";
    if (const Json* found = json.FindNonNull("type"); found != nullptr) {
      if (!found->IsString()) {
        return InvalidField(path + ".type", StrCat("found ", Found(*found), ", expected a string"));
      }
      type = found->AsString();
    }
    for (const Kind& kind : kKinds) {
      if (type != kind.type) continue;
      HONE_ASSIGN(const ObjectReader item, ObjectReader::Open(context, json, path));
      HONE_TRY(CheckKeys(item, kind));
      return (this->*kind.read)(item);
    }
    if (type == "item_reference") {
      return UnsupportedField(path + ".type",
                              "answers are not stored: send the items themselves, not references");
    }
    return InvalidField(path + ".type",
                        StrCat("found ", Found(Json(type)),
                               ", expected message, function_call, function_call_output or "
                               "reasoning"));
  }

 private:
  struct Kind {
    std::string_view type;
    std::string_view foreign_keys;  // of other kinds, with spaces around them
    ApiStatus (ItemReader::*read)(const ObjectReader& item);
  };
  static const Kind kKinds[4];

  static ApiStatus CheckKeys(const ObjectReader& item, const Kind& kind) {
    for (const char* key : {"role", "content", "call_id", "name", "arguments", "output"}) {
      if (item.Find(key) == nullptr) continue;
      if (kind.foreign_keys.find(StrCat(" ", key, " ")) == std::string_view::npos) continue;
      return InvalidField(item.PathOf(key),
                          StrCat("does not belong to an item of type ", kind.type));
    }
    return ApiStatus();
  }

  ApiStatus ReadMessageItem(const ObjectReader& item) {
    HONE_ASSIGN(std::string role, item.NeedString("role"));
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant") {
      return item.Wrong("role", "system, developer, user or assistant");
    }
    const Json* content = item.Find("content");
    if (content == nullptr) return item.Wrong("content", "a string or a list of parts");
    HONE_ASSIGN(Json text, ReadTextParts(item.context(), *content, item.PathOf("content"),
                                         {"input_text", "output_text"}));
    const bool after_reasoning = role == "assistant" && !messages_.empty() &&
                                 messages_.back().Find("reasoning_content") != nullptr &&
                                 messages_.back().Find("content") == nullptr &&
                                 messages_.back().Find("tool_calls") == nullptr;
    if (!after_reasoning) messages_.push_back(MakeMessage(role));
    messages_.back().Set("content", std::move(text));
    return ApiStatus();
  }

  ApiStatus ReadCallItem(const ObjectReader& item) {
    HONE_ASSIGN(std::string id, item.NeedString("call_id"));
    if (id.empty()) return item.Wrong("call_id", "a string that is not empty");
    HONE_ASSIGN(std::string name, item.NeedString("name"));
    if (name.empty()) return item.Wrong("name", "a string that is not empty");
    HONE_ASSIGN(Json arguments, ReadArguments(item.Find("arguments"), item.PathOf("arguments"),
                                              item.context().options));
    Json::Object function = {{"name", std::move(name)}, {"arguments", std::move(arguments)}};
    Json call(Json::Object{
        {"id", std::move(id)}, {"type", "function"}, {"function", Json(std::move(function))}});
    const bool goes_on =
        !messages_.empty() && messages_.back().Find("role")->AsString() == "assistant";
    if (!goes_on) messages_.push_back(MakeMessage("assistant"));
    const Json* earlier = messages_.back().Find("tool_calls");
    Json::Array calls = earlier != nullptr ? earlier->AsArray() : Json::Array{};
    calls.push_back(std::move(call));
    messages_.back().Set("tool_calls", Json(std::move(calls)));
    return ApiStatus();
  }

  ApiStatus ReadOutputItem(const ObjectReader& item) {
    HONE_ASSIGN(std::string id, item.NeedString("call_id"));
    if (id.empty()) return item.Wrong("call_id", "a string that is not empty");
    const Json* output = item.Find("output");
    if (output == nullptr) return item.Wrong("output", "a string or a list of input_text parts");
    HONE_ASSIGN(Json text,
                ReadTextParts(item.context(), *output, item.PathOf("output"), {"input_text"}));
    Json message = MakeMessage("tool");
    message.Set("content", std::move(text));
    message.Set("tool_call_id", Json(std::move(id)));
    messages_.push_back(std::move(message));
    return ApiStatus();
  }

  ApiStatus ReadReasoningItem(const ObjectReader& item) {
    const Json* content = item.Find("content");
    if (content == nullptr || (content->IsArray() && content->AsArray().empty())) {
      return ApiStatus();
    }
    if (!content->IsArray()) return item.Wrong("content", "a list of reasoning_text parts");
    HONE_ASSIGN(const Json text, ReadTextParts(item.context(), *content, item.PathOf("content"),
                                               {"reasoning_text"}));
    Json message = MakeMessage("assistant");
    message.Set("reasoning_content", Json(JoinText(text)));
    messages_.push_back(std::move(message));
    return ApiStatus();
  }

  Json::Array& messages_;
};

const ItemReader::Kind ItemReader::kKinds[4] = {
    {"message", " call_id name arguments output ", &ItemReader::ReadMessageItem},
    {"function_call", " role content output ", &ItemReader::ReadCallItem},
    {"function_call_output", " role content name arguments ", &ItemReader::ReadOutputItem},
    {"reasoning", " role call_id name arguments output ", &ItemReader::ReadReasoningItem},
};

ApiStatus ReadInput(const ObjectReader& body, ChatInput& chat) {
  HONE_ASSIGN(const auto instructions, body.String("instructions"));
  if (instructions) {
    chat.messages.push_back(MakeMessage("system"));
    chat.messages.back().Set("content", Json(*instructions));
  }
  const Json* input = body.Find("input");
  if (input != nullptr && input->IsString()) {
    chat.messages.push_back(MakeMessage("user"));
    chat.messages.back().Set("content", *input);
    return ApiStatus();
  }
  if (input == nullptr || !input->IsArray()) {
    return body.Wrong("input", "a string or a list of items");
  }
  const std::size_t before = chat.messages.size();
  ItemReader items(chat.messages);
  for (std::size_t i = 0; i < input->AsArray().size(); ++i) {
    HONE_TRY(items.Add(body.context(), input->AsArray()[i], StrCat("input[", i, "]")));
  }
  if (chat.messages.size() == before) return InvalidField("input", "there is no message in it");
  return ApiStatus();
}

ApiStatus ReadInclude(const ObjectReader& body, GenerateRequest& request) {
  HONE_ASSIGN(const Json::Array* include, body.Array("include"));
  for (std::size_t i = 0; include != nullptr && i < include->size(); ++i) {
    const Json& name = (*include)[i];
    const std::string path = StrCat("include[", i, "]");
    if (!name.IsString()) {
      return InvalidField(path, StrCat("found ", Found(name), ", expected a string"));
    }
    if (name.AsString() == kLogprobsInclude) {
      request.logprobs = true;
    } else if (body.context().options.lenient) {
      body.context().ignored.push_back(path);
    } else {
      return UnsupportedField(path, StrCat("found ", Found(name), ", expected ", kLogprobsInclude));
    }
  }
  HONE_ASSIGN(const auto top, body.Int("top_logprobs", 0, kMaxTopLogprobs));
  request.top_logprobs = top.value_or(0);
  if (top && *top > 0 && !request.logprobs) {
    return InvalidField("top_logprobs",
                        StrCat("only allowed with ", kLogprobsInclude, " in include"));
  }
  return ApiStatus();
}

ApiStatus ReadReasoning(const ObjectReader& body, ChatInput& chat) {
  HONE_ASSIGN(const auto reasoning, body.Object("reasoning"));
  if (!reasoning) return ApiStatus();
  HONE_ASSIGN(const auto effort, reasoning->String("effort"));
  if (!effort) return ApiStatus();
  ThinkingFields fields;
  HONE_TRY(fields.AddEffort("reasoning.effort", *effort));
  chat.thinking = fields.thinking();
  return ApiStatus();
}

ApiStatus ReadText(const ObjectReader& body, ChatInput& chat) {
  HONE_ASSIGN(const auto text, body.Object("text"));
  if (!text) return ApiStatus();
  HONE_ASSIGN(const auto format, text->Object("format"));
  if (!format) return ApiStatus();
  return ReadTextFormat(*format, chat.format);
}

// What the response object repeats of its request, with the defaults of what is absent.
Json::Object EchoMembers(const ObjectReader& body, const ChatInput& chat) {
  const auto given = [&](const char* key, Json fallback) {
    const Json* found = body.Find(key);
    return Json::Member(key, found != nullptr ? *found : std::move(fallback));
  };
  const Json text_format(Json::Object{{"type", "text"}});
  const Json text(Json::Object{{"format", text_format}});
  const Json no_reasoning(Json::Object{{"effort", Json()}, {"summary", Json()}});
  return {given("instructions", Json()),
          given("max_output_tokens", Json()),
          {"max_tool_calls", Json()},
          given("metadata", Json(Json::Object{})),
          {"parallel_tool_calls", Json(chat.parallel_tool_calls)},
          {"previous_response_id", Json()},
          given("reasoning", no_reasoning),
          {"store", Json(false)},
          given("temperature", Json()),
          given("text", text),
          given("tool_choice", Json("auto")),
          given("tools", Json(Json::Array{})),
          given("top_logprobs", Json(0)),
          given("top_p", Json()),
          {"truncation", "disabled"},
          given("user", Json())};
}

}  // namespace

ApiResult<GenerateCall> ReadResponsesCall(const Json& body_json, const ReadOptions& options) {
  ReadContext context{Endpoint::kResponses, options};
  HONE_ASSIGN(const ObjectReader body, ObjectReader::Open(context, body_json, ""));
  GenerateCall call;
  GenerateRequest& request = call.generate;
  ChatInput& chat = request.chat.emplace();
  HONE_ASSIGN(request.model, ReadModelName(body));
  HONE_TRY(ReadInput(body, chat));
  HONE_ASSIGN(request.max_tokens, body.Int("max_output_tokens", 0, kMaxTokensLimit));
  HONE_TRY(ReadSampling(body, request));
  HONE_TRY(ReadInclude(body, request));
  HONE_TRY(ReadStream(body, call.reply));
  HONE_TRY(ReadTools(body, /*nested=*/false, chat));
  HONE_TRY(ReadText(body, chat));
  HONE_TRY(ReadReasoning(body, chat));
  const Json* metadata = body.Find("metadata");
  if (metadata != nullptr && !metadata->IsObject()) return body.Wrong("metadata", "an object");
  call.echo_members = EchoMembers(body, chat);
  call.reply.ignored = std::move(context.ignored);
  call.reply.warnings = std::move(context.warnings);
  return call;
}

}  // namespace hone::serve::openai
