// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_set.h"

#include <cmath>
#include <utility>

#include "base/text.h"
#include "chat/char_class.h"
#include "chat/python_literal.h"

namespace hone::chat {
namespace {

constexpr int kMaxSchemaDepth = 16;  // of $ref, anyOf and so on; a deeper schema counts as anything

Status Wrong(std::size_t entry, std::string_view key, const Json* found,
             std::string_view expected) {
  return Status(Code::kInvalidArgument,
                StrCat("tools[", entry, "]", key.empty() ? "" : ".", key, ": found ",
                       found == nullptr ? "nothing" : found->TypeName(), ", expected ", expected));
}

Result<Tool> ParseTool(const Json& entry, std::size_t index) {
  if (!entry.IsObject()) return Wrong(index, "", &entry, "an object");
  const Json* type = entry.FindNonNull("type");
  if (type != nullptr && !(type->IsString() && type->AsString() == "function")) {
    return Status(Code::kUnsupported, StrCat("tools[", index, "].type: found ", type->Dump(),
                                             ", only \"function\" is supported"));
  }
  const Json* function = entry.FindNonNull("function");
  if (function == nullptr) function = &entry;
  if (!function->IsObject()) return Wrong(index, "function", function, "an object");
  const Json* name = function->Find("name");
  if (name == nullptr || !name->IsString() || name->AsString().empty()) {
    return Wrong(index, function == &entry ? "name" : "function.name", name, "a name");
  }
  Tool tool{name->AsString(), Json(Json::Object{})};
  if (const Json* parameters = function->FindNonNull("parameters")) {
    if (!parameters->IsObject()) {
      return Wrong(index, "function.parameters", parameters, "a JSON schema");
    }
    tool.parameters = *parameters;
  }
  return tool;
}

// The part of root that "#/a/b" names, or null.
const Json* FollowRef(std::string_view ref, const Json& root) {
  if (!ref.starts_with('#')) return nullptr;
  ref.remove_prefix(1);
  const Json* at = &root;
  while (at != nullptr && !ref.empty()) {
    if (ref[0] != '/') return nullptr;
    ref.remove_prefix(1);
    const std::string_view part = ref.substr(0, ref.find('/'));
    ref.remove_prefix(part.size());
    std::string key;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool escaped = part[i] == '~' && i + 1 < part.size();
      if (escaped) ++i;
      key.push_back(!escaped ? part[i] : part[i] == '1' ? '/' : '~');
    }
    at = at->Find(key);
  }
  return at;
}

unsigned TypeBit(const Json& name) {
  if (!name.IsString()) return 0;
  const std::string& text = name.AsString();
  if (text == "string") return kStringBit;
  if (text == "integer") return kIntegerBit;
  if (text == "number") return kNumberBit;
  if (text == "boolean") return kBooleanBit;
  if (text == "null") return kNullBit;
  if (text == "object") return kObjectBit;
  if (text == "array") return kArrayBit;
  return 0;
}

unsigned ValueBit(const Json& value) {
  if (value.IsNull()) return kNullBit;
  if (value.IsBool()) return kBooleanBit;
  if (value.IsInt()) return kIntegerBit;
  if (value.IsNumber()) return kNumberBit;
  if (value.IsString()) return kStringBit;
  return value.IsArray() ? kArrayBit : kObjectBit;
}

unsigned TypesAt(const Json& schema, const Json& root, int depth);

// The types of anyOf or oneOf: all of their branches'. A branch that takes anything makes it 0.
unsigned UnionTypes(const Json& branches, const Json& root, int depth) {
  unsigned types = 0;
  for (const Json& branch : branches.AsArray()) {
    const unsigned bits = TypesAt(branch, root, depth + 1);
    if (bits == 0) return 0;
    types |= bits;
  }
  return types;
}

// What the keyword "type" says, or else the values listed.
unsigned OwnTypes(const Json& schema) {
  unsigned types = 0;
  if (const Json* type = schema.Find("type")) {
    if (!type->IsArray()) return TypeBit(*type);
    for (const Json& name : type->AsArray()) {
      if (TypeBit(name) == 0) return 0;
      types |= TypeBit(name);
    }
    return types;
  }
  if (const Json* value = schema.Find("const")) return ValueBit(*value);
  const Json* values = schema.Find("enum");
  if (values == nullptr || !values->IsArray()) return 0;
  for (const Json& value : values->AsArray()) types |= ValueBit(value);
  return types;
}

unsigned TypesAt(const Json& schema, const Json& root, int depth) {
  if (!schema.IsObject() || depth > kMaxSchemaDepth) return 0;
  if (const Json* ref = schema.Find("$ref")) {
    const Json* target = ref->IsString() ? FollowRef(ref->AsString(), root) : nullptr;
    return target == nullptr ? 0 : TypesAt(*target, root, depth + 1);
  }
  unsigned types = OwnTypes(schema);
  for (const char* key : {"anyOf", "oneOf"}) {
    const Json* branches = schema.Find(key);
    if (types == 0 && branches != nullptr && branches->IsArray()) {
      types = UnionTypes(*branches, root, depth);
    }
  }
  const Json* parts = schema.Find("allOf");
  if (types == 0 && parts != nullptr && parts->IsArray()) {
    for (const Json& part : parts->AsArray()) {
      const unsigned bits = TypesAt(part, root, depth + 1);
      types = types == 0 ? bits : bits == 0 ? types : types & bits;
    }
  }
  if (types == 0 && schema.Find("properties") != nullptr) types = kObjectBit;
  const Json* nullable = schema.Find("nullable");
  if (types != 0 && nullable != nullptr && nullable->IsBool() && nullable->AsBool()) {
    types |= kNullBit;
  }
  return types;
}

bool IsIntegral(std::string_view number) {
  if (number.find_first_of(".eE") == std::string_view::npos) return true;
  const auto value = ParseJson(number);
  return value.ok() && std::trunc(value->AsDouble()) == value->AsDouble();
}

// A JSON object or array, as JSON or as a Python literal.
Result<std::string> NestedFromText(std::string_view text, unsigned types) {
  std::string json(text);
  auto value = ParseJson(json);
  if (!value.ok()) {
    HONE_ASSIGN(json, JsonFromPythonLiteral(text));
    value = ParseJson(json);
  }
  if (value.ok() && (ValueBit(*value) & types) != 0) return json;
  return Status(Code::kInvalidArgument, "no object or array");
}

}  // namespace

Result<ToolSet> ToolSet::Parse(const Json& tools) {
  ToolSet set;
  if (tools.IsNull()) return set;
  if (!tools.IsArray()) {
    return Status(Code::kInvalidArgument,
                  StrCat("tools: found ", tools.TypeName(), ", expected an array"));
  }
  for (const Json& entry : tools.AsArray()) {
    HONE_ASSIGN(Tool tool, ParseTool(entry, set.tools_.size()));
    if (set.Find(tool.name) != nullptr) {
      return Status(Code::kInvalidArgument, StrCat("tools[", set.tools_.size(), "]: the name \"",
                                                   tool.name, "\" appears twice"));
    }
    set.tools_.push_back(std::move(tool));
  }
  return set;
}

const Tool* ToolSet::Find(std::string_view name) const {
  for (const Tool& tool : tools_) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

unsigned SchemaTypes(const Json& schema, const Json& root) { return TypesAt(schema, root, 0); }

std::string TypeNames(unsigned types) {
  static constexpr std::string_view kNames[] = {"string", "integer", "number", "boolean",
                                                "null",   "object",  "array"};
  std::vector<std::string_view> names;
  for (unsigned i = 0; i < 7; ++i) {
    if ((types >> i & 1U) != 0) names.push_back(kNames[i]);
  }
  return names.empty() ? "anything" : Join(names, " or ");
}

const Json& ArgumentsSchema(const Tool& tool) {
  const Json* schema = &tool.parameters;
  for (int i = 0; i < kMaxSchemaDepth; ++i) {
    const Json* ref = schema->Find("$ref");
    if (ref == nullptr || !ref->IsString()) return *schema;
    const Json* target = FollowRef(ref->AsString(), tool.parameters);
    if (target == nullptr) return *schema;
    schema = target;
  }
  return *schema;
}

const Json* FindParameter(const Tool& tool, std::string_view name) {
  static const Json kAnything{Json::Object{}};
  const Json& schema = ArgumentsSchema(tool);
  const Json* properties = schema.Find("properties");
  const bool declares = properties != nullptr && properties->IsObject();
  if (declares) {
    if (const Json* found = properties->Find(name)) return found;
  }
  const Json* others = schema.FindNonNull("additionalProperties");
  if (others == nullptr) {
    return declares && schema.Find("patternProperties") == nullptr ? nullptr : &kAnything;
  }
  if (others->IsObject()) return others;
  return others->IsBool() && others->AsBool() ? &kAnything : nullptr;
}

std::vector<std::string> RequiredParameters(const Tool& tool) {
  std::vector<std::string> names;
  const Json* required = ArgumentsSchema(tool).Find("required");
  if (required == nullptr || !required->IsArray()) return names;
  for (const Json& name : required->AsArray()) {
    if (name.IsString()) names.push_back(name.AsString());
  }
  return names;
}

Result<std::string> JsonFromText(std::string_view text, unsigned types) {
  const auto quoted = [&] { return Json(text).Dump(); };
  if (types == kStringBit) return quoted();
  const std::string_view word = TrimSpace(text);
  if (types == 0) return ParseJson(word).ok() ? std::string(word) : quoted();
  const bool or_string = (types & kStringBit) != 0;
  if ((types & kNullBit) != 0 && (word == "null" || (!or_string && word == "None"))) {
    return std::string("null");
  }
  if ((types & kBooleanBit) != 0) {
    const std::string lower = LowerCase(word);
    if (lower == "true" || lower == "false") return lower;
  }
  if ((types & (kIntegerBit | kNumberBit)) != 0 && IsJsonNumber(word) &&
      ((types & kNumberBit) != 0 || IsIntegral(word))) {
    return std::string(word);
  }
  if ((types & (kObjectBit | kArrayBit)) != 0 && !word.empty() &&
      (word[0] == '{' || word[0] == '[' || word[0] == '(')) {
    auto nested = NestedFromText(word, types);
    if (nested.ok()) return nested;
  }
  if (or_string) return quoted();
  return Status(Code::kInvalidArgument,
                StrCat("found ", Json(text.substr(0, 60)).Dump(), ", expected ", TypeNames(types)));
}

}  // namespace hone::chat
