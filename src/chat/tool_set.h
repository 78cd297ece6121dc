// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The tools of a request, and what their JSON schemas say about the types of arguments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace hone::chat {

struct Tool {
  std::string name;
  Json parameters;  // a JSON schema; an empty object if the tool declares none
};

// Read-only after creation, so thread-safe.
class ToolSet {
 public:
  ToolSet() = default;

  // tools: null, or an array of {"type": "function", "function": {"name": ..., "parameters": ...}};
  // the members of "function" may also stand directly in the entry. Two tools of one name, a name
  // that is empty or no text, or parameters that are no object are kInvalidArgument with the
  // entry's index; another "type" is kUnsupported.
  static Result<ToolSet> Parse(const Json& tools);

  const Tool* Find(std::string_view name) const;  // null if there is none
  const std::vector<Tool>& tools() const { return tools_; }
  bool empty() const { return tools_.empty(); }

 private:
  std::vector<Tool> tools_;
};

// Types that a schema allows, as bits. 0: it says nothing, so anything.
enum TypeBits : unsigned {
  kStringBit = 1,
  kIntegerBit = 2,
  kNumberBit = 4,
  kBooleanBit = 8,
  kNullBit = 16,
  kObjectBit = 32,
  kArrayBit = 64,
};
// Looks at type, enum, const, nullable, anyOf, oneOf, allOf and local $ref (into root).
unsigned SchemaTypes(const Json& schema, const Json& root);
std::string TypeNames(unsigned types);  // "integer or null"; "anything" for 0

// The schema of the tool's arguments, behind a local $ref if it is one.
const Json& ArgumentsSchema(const Tool& tool);
// The schema of one argument; of an argument that the tool does not declare what
// additionalProperties says. Null: the tool takes no such argument (additionalProperties is absent
// or false).
const Json* FindParameter(const Tool& tool, std::string_view name);
std::vector<std::string> RequiredParameters(const Tool& tool);

// The JSON text of a value that was written as plain text. With only kStringBit the text is the
// string, whatever it looks like ("007"). Otherwise the first type that fits, of null, boolean,
// number, object, array; then string. With 0: strict JSON is what it says, other text is a string.
// Python's True, False, None and literals with single quotes are read where the types ask for them.
// Numbers keep their digits. kInvalidArgument if no type fits.
Result<std::string> JsonFromText(std::string_view text, unsigned types);

}  // namespace hone::chat
