// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/tools.h"

#include <algorithm>
#include <utility>

namespace hone::serve::openai {
namespace {

constexpr std::size_t kMaxNameBytes = 128;

bool IsToolName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.:/").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), allowed);
}

bool HasTool(const ChatInput& chat, std::string_view name) {
  return std::any_of(chat.tools.begin(), chat.tools.end(),
                     [&](const Tool& tool) { return tool.name == name; });
}

ApiResult<Tool> ReadFunction(const ObjectReader& function) {
  Tool tool;
  HONE_ASSIGN(tool.name, function.NeedString("name"));
  if (!IsToolName(tool.name)) {
    return function.Wrong("name", "1 to 128 letters, digits, '_', '-', '.', ':' or '/'");
  }
  HONE_ASSIGN(const auto description, function.String("description"));
  tool.description = description.value_or("");
  HONE_ASSIGN(const auto strict, function.Bool("strict"));
  tool.strict = strict.value_or(false);
  const Json* parameters = function.Find("parameters");
  if (parameters != nullptr && !parameters->IsObject()) {
    return function.Wrong("parameters", "a JSON schema, an object");
  }
  tool.parameters =
      parameters != nullptr
          ? *parameters
          : Json(Json::Object{{"type", "object"}, {"properties", Json(Json::Object{})}});
  return tool;
}

// The shape that templates know, of a function that lies beside "type".
Json NestFunction(const Json& flat) {
  Json::Object function;
  for (const auto& [key, value] : flat.AsObject()) {
    if (key != "type" && !value.IsNull()) function.emplace_back(key, value);
  }
  return Json(Json::Object{{"type", "function"}, {"function", Json(std::move(function))}});
}

ApiStatus AddTool(const ObjectReader& tool, const Json& json, bool nested, ChatInput& chat) {
  HONE_ASSIGN(const std::string type, tool.NeedString("type"));
  if (type != "function") return tool.Wrong("type", "\"function\"");
  Tool read;
  if (nested) {
    HONE_ASSIGN(const auto function, tool.Object("function"));
    if (!function) return tool.Wrong("function", "an object");
    HONE_ASSIGN(read, ReadFunction(*function));
  } else {
    HONE_ASSIGN(read, ReadFunction(tool));
  }
  if (HasTool(chat, read.name)) {
    return InvalidField(tool.PathOf(nested ? "function.name" : "name"),
                        StrCat("there are two tools \"", read.name, "\""));
  }
  chat.tools.push_back(std::move(read));
  chat.tools_json.push_back(nested ? json : NestFunction(json));
  return ApiStatus();
}

ApiStatus ReadNamedChoice(const ObjectReader& choice, bool nested, ChatInput& chat) {
  HONE_ASSIGN(const std::string type, choice.NeedString("type"));
  if (type != "function") return choice.Wrong("type", "\"function\"");
  std::string path = choice.PathOf("name");
  if (nested) {
    HONE_ASSIGN(const auto function, choice.Object("function"));
    if (!function) return choice.Wrong("function", "an object with \"name\"");
    path = function->PathOf("name");
    HONE_ASSIGN(chat.tool_name, function->NeedString("name"));
  } else {
    HONE_ASSIGN(chat.tool_name, choice.NeedString("name"));
  }
  if (!HasTool(chat, chat.tool_name)) {
    return InvalidField(path, StrCat(Found(Json(chat.tool_name)), " is not one of the tools"));
  }
  chat.tool_mode = ToolMode::kNamed;
  return ApiStatus();
}

ApiStatus ReadToolChoice(const ObjectReader& body, bool nested, ChatInput& chat) {
  chat.tool_mode = chat.tools.empty() ? ToolMode::kNone : ToolMode::kAuto;
  const Json* choice = body.Find("tool_choice");
  if (choice == nullptr) return ApiStatus();
  if (choice->IsObject()) {
    HONE_ASSIGN(const auto object, body.Object("tool_choice"));
    return ReadNamedChoice(*object, nested, chat);
  }
  const std::string name = choice->IsString() ? choice->AsString() : "";
  if (name == "none") {
    chat.tool_mode = ToolMode::kNone;
  } else if (name == "required") {
    if (chat.tools.empty()) return InvalidField("tool_choice", "\"required\" without any tools");
    chat.tool_mode = ToolMode::kRequired;
  } else if (name != "auto") {
    return body.Wrong("tool_choice", "none, auto, required or an object that names a function");
  }
  return ApiStatus();
}

// A schema as a member of object.
ApiStatus ReadSchema(const ObjectReader& object, bool needed, OutputFormat& format) {
  const Json* schema = object.Find("schema");
  if (schema == nullptr && !needed) return ApiStatus();
  if (schema == nullptr || !schema->IsObject()) {
    return object.Wrong("schema", "a JSON schema, an object");
  }
  format.schema = *schema;
  return ApiStatus();
}

// type and what belongs to it, but for the wrapper of chat completions.
ApiStatus ReadFormatType(const ObjectReader& object, OutputFormat& format) {
  HONE_ASSIGN(const std::string type, object.NeedString("type"));
  constexpr struct {
    const char* name;
    FormatKind kind;
  } kKinds[] = {{"text", FormatKind::kText},
                {"json_object", FormatKind::kJsonObject},
                {"json_schema", FormatKind::kJsonSchema},
                {"regex", FormatKind::kRegex},
                {"grammar", FormatKind::kGrammar}};
  bool found = false;
  for (const auto& row : kKinds) {
    if (type != row.name) continue;
    format.kind = row.kind;
    found = true;
  }
  if (!found) return object.Wrong("type", "text, json_object, json_schema, regex or grammar");
  // A member of another type would be ignored in silence.
  constexpr struct {
    const char* key;
    FormatKind kind;
  } kMembers[] = {{"json_schema", FormatKind::kJsonSchema},
                  {"regex", FormatKind::kRegex},
                  {"grammar", FormatKind::kGrammar}};
  for (const auto& member : kMembers) {
    if (object.Find(member.key) != nullptr && format.kind != member.kind) {
      return InvalidField(object.PathOf(member.key),
                          StrCat("does not belong to the type \"", type, "\""));
    }
  }
  const bool schema_allowed =
      format.kind == FormatKind::kJsonSchema || format.kind == FormatKind::kJsonObject;
  if (object.Find("schema") != nullptr && !schema_allowed) {
    return InvalidField(object.PathOf("schema"),
                        StrCat("does not belong to the type \"", type, "\""));
  }
  if (format.kind == FormatKind::kRegex) {
    HONE_ASSIGN(format.text, object.NeedString("regex"));
  } else if (format.kind == FormatKind::kGrammar) {
    HONE_ASSIGN(format.text, object.NeedString("grammar"));
  }
  return ApiStatus();
}

// name, description and strict: checked, and without effect on the answer.
ApiStatus CheckSchemaLabels(const ObjectReader& object) {
  HONE_TRY(object.String("name").status());
  HONE_TRY(object.String("description").status());
  return object.Bool("strict").status();
}

}  // namespace

ApiStatus ReadToolList(const ObjectReader& body, bool nested, ChatInput& chat) {
  HONE_ASSIGN(const Json::Array* tools, body.Array("tools"));
  if (tools == nullptr) return ApiStatus();
  const std::int64_t limit = body.context().options.max_tools;
  if (static_cast<std::int64_t>(tools->size()) > limit) {
    return InvalidField("tools",
                        StrCat("found ", tools->size(), " tools, expected at most ", limit));
  }
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const Json& json = (*tools)[i];
    const std::string path = StrCat("tools[", i, "]");
    // The type first: it explains keys such as container.
    const Json* type = json.FindNonNull("type");
    if (type != nullptr && type->IsString() && type->AsString() != "function") {
      return InvalidField(path + ".type", StrCat("found ", Found(*type),
                                                 ", but this server has only \"function\""));
    }
    HONE_ASSIGN(const ObjectReader tool, ObjectReader::Open(body.context(), json, path));
    HONE_TRY(AddTool(tool, json, nested, chat));
  }
  return ApiStatus();
}

ApiStatus ReadTools(const ObjectReader& body, bool nested, ChatInput& chat) {
  HONE_TRY(ReadToolList(body, nested, chat));
  HONE_TRY(ReadToolChoice(body, nested, chat));
  HONE_ASSIGN(const auto parallel, body.Bool("parallel_tool_calls"));
  chat.parallel_tool_calls = parallel.value_or(true);
  return ApiStatus();
}

ApiStatus ReadResponseFormat(const ObjectReader& body, OutputFormat& format) {
  HONE_ASSIGN(const auto object, body.Object("response_format"));
  if (!object) return ApiStatus();
  HONE_TRY(ReadFormatType(*object, format));
  HONE_ASSIGN(const auto wrapper, object->Object("json_schema"));
  if (wrapper && object->Find("schema") != nullptr) {
    return InvalidField(object->PathOf("schema"), "json_schema has a schema already");
  }
  if (wrapper) {
    HONE_TRY(CheckSchemaLabels(*wrapper));
    return ReadSchema(*wrapper, /*needed=*/true, format);
  }
  if (format.kind == FormatKind::kJsonSchema && object->Find("schema") == nullptr) {
    return MissingField(object->PathOf("json_schema"), "an object with \"name\" and \"schema\"");
  }
  return ReadSchema(*object, /*needed=*/false, format);
}

ApiStatus ReadTextFormat(const ObjectReader& format_object, OutputFormat& format) {
  HONE_TRY(ReadFormatType(format_object, format));
  HONE_TRY(CheckSchemaLabels(format_object));
  return ReadSchema(format_object, format.kind == FormatKind::kJsonSchema, format);
}

}  // namespace hone::serve::openai
