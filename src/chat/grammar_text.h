// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Pieces of Lark text, and the rules for arguments, that tool grammars are made of.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/tool_set.h"

namespace hone::chat {

// A text as a Lark string: "\"a\\n\"".
std::string LarkString(std::string_view text);
// A text as part of a regular expression between slashes.
std::string LarkRegex(std::string_view text);
// Between two JSON tokens, where a schema does not say it: weak models else write white space for
// ever. The bridge does the same for schemas that are a whole grammar.
inline constexpr const char* kJsonSpace = R"(( {1,2}|\t|\r?\n[ \t]{0,40}))";
// schema with kJsonSpace in its "x-guidance".
Json WithBoundedSpace(Json schema);
// "%json {...}" WithBoundedSpace; definitions of root that a $ref of schema may name go with it.
std::string LarkJson(const Json& schema, const Json& root);

// Rules, one a line, each added once.
class LarkRules {
 public:
  // Adds "name: body" unless there is a rule of that name already. Returns the name.
  std::string Add(std::string_view name, std::string_view body);
  const std::string& text() const { return text_; }

 private:
  std::vector<std::string> names_;
  std::string text_;
};

// One argument of a tool, as the rules for it see it.
struct Argument {
  std::string name;
  const Json* schema;
  unsigned types;  // SchemaTypes
  bool required;
};
// In the order of the schema's properties, then required ones that are no properties.
std::vector<Argument> ArgumentsOf(const Tool& tool);

// The strings of the argument's enum or const, if it takes nothing else.
std::vector<std::string> StringChoices(const Argument& argument, const Json& root);

// Adds rules for the arguments, and returns the body of a rule that admits them in their order;
// those that are not required may be left out. separator is a Lark expression between two of them,
// or empty. one gives the expression of a single argument.
std::string ArgumentList(const std::vector<Argument>& arguments, std::string_view rule,
                         std::string_view separator,
                         const std::function<std::string(std::size_t)>& one, LarkRules& rules);

// Values of arguments in a call: expressions, whose rules are added.
std::string XmlValue(const Argument& argument, const Json& root, LarkRules& rules);
std::string PythonValue(const Argument& argument, const Json& root, LarkRules& rules);
// With the closing tag of the parameter.
std::string FunctionXmlValue(const Argument& argument, const Json& root, LarkRules& rules);

}  // namespace hone::chat
