// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/argument_builder.h"

#include <utility>

#include "chat/char_class.h"
#include "chat/python_literal.h"

namespace hone::chat {

void ArgumentBuilder::Begin(std::string_view tool) {
  names_.clear();
  out_.Begin(tool);
}

bool ArgumentBuilder::Accept(std::string_view name, unsigned& types) {
  if (out_.failed() || out_.tool() == nullptr) return false;
  if (names_.contains(name)) {
    out_.Fail(StrCat("the parameter ", Json(name).Dump(), " comes twice"));
    return false;
  }
  const Json* schema = FindParameter(*out_.tool(), name);
  if (schema == nullptr) {
    out_.Fail(StrCat("the tool has no parameter ", Json(name).Dump()));
    return false;
  }
  types = SchemaTypes(*schema, out_.tool()->parameters);
  return true;
}

void ArgumentBuilder::AddText(std::string_view name, std::string_view text) {
  unsigned types = 0;
  if (Accept(name, types)) Add(name, JsonFromText(text, types));
}

void ArgumentBuilder::AddPython(std::string_view name, std::string_view literal) {
  unsigned types = 0;
  if (!Accept(name, types)) return;
  auto json = JsonFromPythonLiteral(literal);
  if (!json.ok()) return Add(name, std::move(json));
  const bool is_string = json->starts_with('"');
  if (!is_string && types == kStringBit) {
    json = Json(TrimSpace(literal)).Dump();
  } else if (is_string && types != 0 && (types & kStringBit) == 0) {
    const auto text = ParseJson(*json);
    if (text.ok()) json = JsonFromText(text->AsString(), types);
  }
  Add(name, std::move(json));
}

void ArgumentBuilder::Add(std::string_view name, Result<std::string> json) {
  const std::string key = Json(name).Dump();
  if (!json.ok()) return out_.Fail(StrCat("the parameter ", key, ": ", json.message()));
  out_.Arguments(StrCat(names_.empty() ? "{" : ",", key, ":", *json));
  names_.emplace(name);
}

void ArgumentBuilder::End() {
  if (!out_.failed() && out_.tool() != nullptr) {
    for (const std::string& name : RequiredParameters(*out_.tool())) {
      if (!names_.contains(name))
        out_.Fail(StrCat("the parameter ", Json(name).Dump(), " is missing"));
    }
  }
  out_.Arguments(names_.empty() ? "{}" : "}");
  out_.End();
}

}  // namespace hone::chat
