// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_arguments.h"

#include <utility>

namespace hone::chat {
namespace {

Status Wrong(std::string_view where, const Json* found, std::string_view expected) {
  return Status(Code::kInvalidArgument,
                StrCat(where, ": found ", found == nullptr ? "nothing" : found->TypeName(),
                       ", expected ", expected));
}

// function: what has the members name and arguments.
Status DecodeFunction(Json& function, const std::string& where) {
  const Json* name = function.Find("name");
  if (name == nullptr || !name->IsString() || name->AsString().empty()) {
    return Wrong(StrCat(where, ".name"), name, "the name of a tool");
  }
  const Json* arguments = function.Find("arguments");
  auto object = ObjectFromText(arguments == nullptr ? Json() : *arguments);
  if (!object.ok()) return std::move(object).status().Context(StrCat(where, ".arguments"));
  function.Set("arguments", *std::move(object));
  return Status();
}

Status DecodeCalls(Json& calls, const std::string& where) {
  if (!calls.IsArray()) return Wrong(where, &calls, "an array of tool calls");
  std::size_t index = 0;
  for (Json& call : calls.AsArray()) {
    const std::string here = StrCat(where, "[", index++, "]");
    if (!call.IsObject()) return Wrong(here, &call, "an object");
    const Json* function = call.FindNonNull("function");
    if (function == nullptr) {
      HONE_TRY(DecodeFunction(call, here));
      continue;
    }
    if (!function->IsObject()) return Wrong(here + ".function", function, "an object");
    Json changed = *function;
    HONE_TRY(DecodeFunction(changed, here + ".function"));
    call.Set("function", std::move(changed));
  }
  return Status();
}

}  // namespace

Result<Json> DecodeToolArguments(const Json& messages) {
  Json decoded = messages;
  if (!decoded.IsArray()) return decoded;
  std::size_t index = 0;
  for (Json& message : decoded.AsArray()) {
    const std::string where = StrCat("messages[", index++, "].tool_calls");
    const Json* calls = message.FindNonNull("tool_calls");
    if (calls == nullptr) continue;
    Json changed = *calls;
    HONE_TRY(DecodeCalls(changed, where));
    message.Set("tool_calls", std::move(changed));
  }
  return decoded;
}

}  // namespace hone::chat
