// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/grammar_text.h"

#include <algorithm>

#include "base/text.h"

namespace hone::chat {
namespace {

constexpr unsigned kNestedBits = kObjectBit | kArrayBit;

// "a" | "b" in parentheses, each text as write has it.
std::string Choices(const std::vector<std::string>& texts,
                    const std::function<std::string(const std::string&)>& write) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) parts.push_back(LarkString(write(text)));
  return StrCat("(", Join(parts, " | "), ")");
}

// As chat templates write a string: bare, or in CDATA if it has what XML knows or a line end.
std::string XmlText(const std::string& text) {
  return text.find_first_of("<&\n") == std::string::npos ? text : StrCat("<![CDATA[", text, "]]>");
}

bool TakesText(const Argument& argument) {
  return argument.types == 0 || (argument.types & kStringBit) != 0;
}

std::string AddPythonString(LarkRules& rules) {
  return rules.Add("PY_STRING", R"RE(/"([^"\\\x00-\x1f]|\\(["\\nrtbf]|u[0-9a-fA-F]{4}))*"/)RE");
}

std::string AddPythonValue(LarkRules& rules) {
  rules.Add("py_value",
            "PY_STRING | PY_NUMBER | \"True\" | \"False\" | \"None\" | py_list | py_dict");
  rules.Add("py_list", "\"[\" (py_value (\", \" py_value)*)? \"]\"");
  rules.Add("py_dict", "\"{\" (py_pair (\", \" py_pair)*)? \"}\"");
  rules.Add("py_pair", "PY_STRING \": \" py_value");
  AddPythonString(rules);
  rules.Add("PY_NUMBER", R"(/-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/)");
  return "py_value";
}

}  // namespace

std::string LarkString(std::string_view text) { return Json(text).Dump(); }

std::string LarkRegex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    // "\<" and "\>" would be word borders, so these stay as they are.
    if (std::string_view("[](){}.*+?|^$\\/").find(c) != std::string_view::npos) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

Json WithBoundedSpace(Json schema) {
  if (!schema.IsObject()) return schema;
  const Json* given = schema.Find("x-guidance");
  Json options = given != nullptr ? *given : Json(Json::Object());
  if (!options.IsObject()) return schema;  // the compiler says what is wrong
  for (const char* key : {"whitespace_flexible", "whitespace_pattern"}) {
    if (options.Find(key) != nullptr) return schema;
  }
  options.Set("whitespace_pattern", kJsonSpace);
  schema.Set("x-guidance", std::move(options));
  return schema;
}

std::string LarkJson(const Json& schema, const Json& root) {
  Json whole = schema;
  if (whole.IsObject() && &schema != &root) {
    for (const char* key : {"$defs", "definitions"}) {
      const Json* definitions = root.Find(key);
      if (definitions != nullptr && whole.Find(key) == nullptr) whole.Set(key, *definitions);
    }
  }
  return "%json " + WithBoundedSpace(std::move(whole)).Dump();
}

std::string LarkRules::Add(std::string_view name, std::string_view body) {
  if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
    names_.emplace_back(name);
    text_ += StrCat(name, ": ", body, "\n");
  }
  return std::string(name.substr(0, name.find('[')));
}

std::vector<Argument> ArgumentsOf(const Tool& tool) {
  std::vector<Argument> arguments;
  const std::vector<std::string> required = RequiredParameters(tool);
  const auto add = [&](const std::string& name, const Json& schema) {
    const bool is_required = std::find(required.begin(), required.end(), name) != required.end();
    arguments.push_back({name, &schema, SchemaTypes(schema, tool.parameters), is_required});
  };
  const Json* properties = ArgumentsSchema(tool).Find("properties");
  if (properties != nullptr && properties->IsObject()) {
    for (const auto& [name, schema] : properties->AsObject()) add(name, schema);
  }
  for (const std::string& name : required) {
    const bool known = std::any_of(arguments.begin(), arguments.end(),
                                   [&](const Argument& a) { return a.name == name; });
    const Json* schema = FindParameter(tool, name);
    if (!known && schema != nullptr) add(name, *schema);
  }
  return arguments;
}

std::vector<std::string> StringChoices(const Argument& argument, const Json& root) {
  std::vector<std::string> texts;
  if (SchemaTypes(*argument.schema, root) != kStringBit) return texts;
  if (const Json* value = argument.schema->Find("const")) {
    if (value->IsString()) texts.push_back(value->AsString());
    return texts;
  }
  const Json* values = argument.schema->Find("enum");
  if (values == nullptr || !values->IsArray()) return texts;
  for (const Json& value : values->AsArray()) {
    if (value.IsString()) texts.push_back(value.AsString());
  }
  return texts;
}

std::string ArgumentList(const std::vector<Argument>& arguments, std::string_view rule,
                         std::string_view separator,
                         const std::function<std::string(std::size_t)>& one, LarkRules& rules) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    names.push_back(rules.Add(StrCat(rule, "_p", i), one(i)));
  }
  if (separator.empty()) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!arguments[i].required) names[i] += "?";
    }
    return names.empty() ? "\"\"" : Join(names, " ");
  }
  // rest[i]: the arguments from i on, each with the separator in front.
  std::vector<std::string> rest(names.size() + 1);
  for (std::size_t i = names.size(); i-- > 1;) {
    const std::string next = rest[i + 1].empty() ? "" : " " + rest[i + 1];
    const std::string item = StrCat("(", separator, " ", names[i], ")");
    rest[i] =
        rules.Add(StrCat(rule, "_r", i), StrCat(item, arguments[i].required ? "" : "?", next));
  }
  // The first one that is there has no separator.
  std::vector<std::string> firsts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    firsts.push_back(StrCat(names[i], rest[i + 1].empty() ? "" : " ", rest[i + 1]));
    if (arguments[i].required) return Join(firsts, " | ");
  }
  firsts.emplace_back("\"\"");
  return Join(firsts, " | ");
}

std::string XmlValue(const Argument& argument, const Json& root, LarkRules& rules) {
  const auto choices = StringChoices(argument, root);
  if (!choices.empty()) return Choices(choices, XmlText);
  if (TakesText(argument)) {
    rules.Add("xml_text", "XML_PLAIN? | xml_cdata");
    rules.Add("XML_PLAIN", "/[^<&\\n]+/");
    rules.Add("xml_cdata[lazy]", "/<!\\[CDATA\\[(?s:.*)\\]\\]>/");
    return "xml_text";
  }
  const std::string json = LarkJson(*argument.schema, root);
  if ((argument.types & kNestedBits) == 0) return json;
  return StrCat("\"<![CDATA[\" ", json, " \"]]>\"");
}

std::string FunctionXmlValue(const Argument& argument, const Json& root, LarkRules& rules) {
  const std::string end = LarkString("\n</parameter>\n");
  const auto choices = StringChoices(argument, root);
  if (!choices.empty()) {
    return StrCat(Choices(choices, [](const std::string& text) { return text; }), " ", end);
  }
  if (!TakesText(argument)) return StrCat(LarkJson(*argument.schema, root), " ", end);
  rules.Add("function_text[lazy]", "/(?s:.*)<\\/parameter>/");
  return "function_text \"\\n\"";
}

std::string PythonValue(const Argument& argument, const Json& root, LarkRules& rules) {
  const auto choices = StringChoices(argument, root);
  if (!choices.empty()) {
    return Choices(choices, [](const std::string& text) { return Json(text).Dump(); });
  }
  if (argument.types == 0) return AddPythonValue(rules);
  std::vector<std::string> parts;
  const unsigned types = argument.types;
  if ((types & kStringBit) != 0) parts.push_back(AddPythonString(rules));
  if ((types & kNumberBit) != 0) {
    AddPythonValue(rules);
    parts.emplace_back("PY_NUMBER");
  } else if ((types & kIntegerBit) != 0) {
    parts.push_back(rules.Add("PY_INTEGER", "/-?(0|[1-9][0-9]*)/"));
  }
  if ((types & kBooleanBit) != 0) parts.emplace_back("\"True\" | \"False\"");
  if ((types & kNullBit) != 0) parts.emplace_back("\"None\"");
  if ((types & kNestedBits) != 0) AddPythonValue(rules);
  if ((types & kArrayBit) != 0) parts.emplace_back("py_list");
  if ((types & kObjectBit) != 0) parts.emplace_back("py_dict");
  return StrCat("(", Join(parts, " | "), ")");
}

}  // namespace hone::chat
