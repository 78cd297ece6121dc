// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How models write tool calls. A family is data; docs/tool_calls.md shows one call of each.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hone::chat {

enum class CallShape : std::uint8_t {
  kJson,         // objects with a name and arguments, alone or in a list
  kNamedJson,    // name[ARGS]{...}, or a list of objects
  kParamXml,     // <function name="f"><param name="p">value</param></function>
  kFunctionXml,  // <function=f><parameter=p>value</parameter></function>
  kPython,       // [f(p=value), g()]
};

// All texts live as long as the program.
struct ToolFamily {
  std::string_view name;  // as stored in a bundle
  CallShape shape;
  // A call begins with it; empty if only bare calls exist. A tokenizer may have markers as special
  // tokens: the text that is parsed must show them.
  std::string_view open;
  std::string_view close;  // after a call, or after the list of calls; empty if there is none
  bool bare;               // a call may begin the answer without a marker
  bool list;               // JSON: written as a list
  std::string_view arguments_key;  // JSON: the member with the arguments; readers take both in use
};

std::span<const ToolFamily> ToolFamilies();

// By the name in a bundle; null if there is no such family.
const ToolFamily* FindToolFamily(std::string_view name);

// The family whose calls a Jinja chat template writes, or teaches in its tool instructions. Null:
// the template shows none of them, so calls cannot be read from the text.
const ToolFamily* DetectToolFamily(std::string_view template_source);

}  // namespace hone::chat
