// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/messages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"

namespace hone::serve::openai {
namespace {

constexpr const char* kRoles = "system, developer, user, assistant or tool";

ApiResult<Json> ReadPart(ReadContext& context, const Json& part, const std::string& path,
                         const std::vector<std::string_view>& types) {
  if (!part.IsObject()) {
    return InvalidField(
        path, StrCat("found ", Found(part), ", expected an object with \"type\" and \"text\""));
  }
  // The type first: it explains keys such as image_url.
  const Json* type = part.FindNonNull("type");
  const std::string type_path = path + ".type";
  if (type == nullptr) return MissingField(type_path, Join(types, " or "));
  if (!type->IsString()) {
    return InvalidField(type_path, StrCat("found ", Found(*type), ", expected a string"));
  }
  if (std::find(types.begin(), types.end(), type->AsString()) == types.end()) {
    return InvalidField(type_path, StrCat("found ", Found(*type), ", but the model reads only ",
                                          Join(types, " or ")));
  }
  HONE_ASSIGN(const ObjectReader reader, ObjectReader::Open(context, part, path));
  HONE_ASSIGN(std::string text, reader.NeedString("text"));
  return Json(Json::Object{{"type", "text"}, {"text", std::move(text)}});
}

ApiResult<Json> ReadCall(const ObjectReader& call) {
  HONE_ASSIGN(const auto type, call.String("type"));
  if (type && *type != "function") return call.Wrong("type", "\"function\"");
  HONE_ASSIGN(std::string id, call.NeedString("id"));
  if (id.empty()) return call.Wrong("id", "a string that is not empty");
  HONE_ASSIGN(const auto function, call.Object("function"));
  if (!function) return call.Wrong("function", "an object with \"name\" and \"arguments\"");
  HONE_ASSIGN(std::string name, function->NeedString("name"));
  if (name.empty()) return function->Wrong("name", "a string that is not empty");
  HONE_ASSIGN(Json arguments, ReadArguments(function->Find("arguments"),
                                            function->PathOf("arguments"), call.context().options));
  Json::Object inner = {{"name", std::move(name)}, {"arguments", std::move(arguments)}};
  return Json(Json::Object{
      {"id", std::move(id)}, {"type", "function"}, {"function", Json(std::move(inner))}});
}

ApiResult<Json::Array> ReadCalls(const ObjectReader& message) {
  HONE_ASSIGN(const Json::Array* calls, message.Array("tool_calls"));
  Json::Array out;
  for (std::size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
    HONE_ASSIGN(const ObjectReader call,
                ObjectReader::Open(message.context(), (*calls)[i],
                                   StrCat(message.PathOf("tool_calls"), "[", i, "]")));
    HONE_ASSIGN(Json read, ReadCall(call));
    out.push_back(std::move(read));
  }
  return out;
}

ApiResult<std::optional<std::string>> ReadReasoning(const ObjectReader& message) {
  HONE_ASSIGN(auto reasoning, message.String("reasoning_content"));
  HONE_ASSIGN(auto other, message.String("reasoning"));
  if (reasoning && other && *reasoning != *other) {
    return InvalidField(message.PathOf("reasoning"),
                        "differs from reasoning_content, which is the same field");
  }
  return reasoning ? std::move(reasoning) : std::move(other);
}

// Fields that belong to one role.
ApiStatus CheckRoleFields(const ObjectReader& message, std::string_view role) {
  constexpr struct {
    const char* key;
    std::string_view role;
  } kOwners[] = {{"tool_calls", "assistant"},
                 {"reasoning_content", "assistant"},
                 {"reasoning", "assistant"},
                 {"tool_call_id", "tool"}};
  for (const auto& owner : kOwners) {
    if (role != owner.role && message.Find(owner.key) != nullptr) {
      return InvalidField(message.PathOf(owner.key),
                          StrCat("only allowed in messages of role ", owner.role));
    }
  }
  return ApiStatus();
}

// Adds the content, if there is any. may_miss: absent and an empty list are fine.
ApiStatus ReadContent(const ObjectReader& message, bool may_miss, Json& out) {
  const Json* content = message.Find("content");
  const bool empty_list = content != nullptr && content->IsArray() && content->AsArray().empty();
  if (may_miss && (content == nullptr || empty_list)) return ApiStatus();
  if (content == nullptr) return message.Wrong("content", "a string or a list of text parts");
  HONE_ASSIGN(Json text,
              ReadTextParts(message.context(), *content, message.PathOf("content"), {"text"}));
  out.Set("content", std::move(text));
  return ApiStatus();
}

ApiResult<Json> ReadMessage(const ObjectReader& message) {
  HONE_ASSIGN(std::string role, message.NeedString("role"));
  if (role == "developer") role = "system";
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    return message.Wrong("role", role == "function" ? "tool, which replaces function" : kRoles);
  }
  HONE_TRY(CheckRoleFields(message, role));
  HONE_ASSIGN(Json::Array calls, ReadCalls(message));
  HONE_ASSIGN(const auto reasoning, ReadReasoning(message));
  Json out(Json::Object{{"role", role}});
  const bool may_miss = !calls.empty() || (reasoning && !reasoning->empty());
  HONE_TRY(ReadContent(message, may_miss, out));
  HONE_ASSIGN(const auto name, message.String("name"));
  if (name) out.Set("name", Json(*name));
  if (reasoning && !reasoning->empty()) out.Set("reasoning_content", Json(*reasoning));
  if (!calls.empty()) out.Set("tool_calls", Json(std::move(calls)));
  if (role == "tool") {
    HONE_ASSIGN(const std::string id, message.NeedString("tool_call_id"));
    if (id.empty()) return message.Wrong("tool_call_id", "a string that is not empty");
    out.Set("tool_call_id", Json(id));
  }
  return out;
}

}  // namespace

ApiResult<Json> ReadTextParts(ReadContext& context, const Json& value, const std::string& path,
                              const std::vector<std::string_view>& types) {
  if (value.IsString()) return value;
  if (!value.IsArray()) {
    return InvalidField(path,
                        StrCat("found ", Found(value), ", expected a string or a list of parts"));
  }
  if (value.AsArray().empty()) {
    return InvalidField(path, "found an empty list, expected a string or a list of parts");
  }
  Json::Array parts;
  for (std::size_t i = 0; i < value.AsArray().size(); ++i) {
    HONE_ASSIGN(Json part, ReadPart(context, value.AsArray()[i], StrCat(path, "[", i, "]"), types));
    parts.push_back(std::move(part));
  }
  return Json(std::move(parts));
}

std::string JoinText(const Json& text_or_parts) {
  if (text_or_parts.IsString()) return text_or_parts.AsString();
  std::string out;
  for (const Json& part : text_or_parts.AsArray()) out += part.Find("text")->AsString();
  return out;
}

ApiResult<Json> ReadArguments(const Json* value, const std::string& path,
                              const ReadOptions& options) {
  if (value == nullptr || value->IsNull()) return Json(Json::Object{});
  if (value->IsObject()) return *value;
  if (!value->IsString()) {
    return InvalidField(
        path, StrCat("found ", Found(*value), ", expected a JSON object, also in a string"));
  }
  const std::string& text = value->AsString();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return Json(Json::Object{});
  auto decoded = ParseJson(text, {.max_depth = options.max_depth});
  if (!decoded.ok()) return InvalidField(path, StrCat("the string is ", decoded.message()));
  if (decoded->IsNull()) return Json(Json::Object{});
  if (!decoded->IsObject()) {
    return InvalidField(path,
                        StrCat("the string holds ", Found(*decoded), ", expected a JSON object"));
  }
  return *std::move(decoded);
}

ApiResult<Json::Array> ReadMessages(const ObjectReader& body) {
  HONE_ASSIGN(const Json::Array* messages, body.Array("messages"));
  if (messages == nullptr) return body.Wrong("messages", "a list of messages");
  if (messages->empty()) return InvalidField("messages", "the list is empty");
  Json::Array out;
  for (std::size_t i = 0; i < messages->size(); ++i) {
    HONE_ASSIGN(const ObjectReader message,
                ObjectReader::Open(body.context(), (*messages)[i], StrCat("messages[", i, "]")));
    HONE_ASSIGN(Json read, ReadMessage(message));
    out.push_back(std::move(read));
  }
  return out;
}

}  // namespace hone::serve::openai
