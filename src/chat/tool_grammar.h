// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Grammars that hold a model to the calls of its family, in the Lark dialect of llguidance.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "chat/tool_family.h"
#include "chat/tool_set.h"

namespace hone::chat {

enum class ToolChoice : std::uint8_t { kNone, kAuto, kRequired, kNamed };

struct ToolGrammarOptions {
  ToolChoice choice = ToolChoice::kAuto;
  std::string name;      // of the tool, for kNamed
  bool parallel = true;  // more than one call
  // The id of a marker that the tokenizer has as a special token; nothing if it is ordinary text.
  // In a grammar text never matches a special token. Empty: no marker is special.
  std::function<std::optional<std::int32_t>(std::string_view marker)> special_id;
  // Thinking in front of the answer is free text up to think_end. Both empty: none.
  std::string think_start, think_end;
  bool starts_in_thinking = false;  // the prompt has opened it; else the answer may open it
};

// The grammar's text; its first rule is "start".
//
// kNone: text without a call. kAuto: text and calls; the answer begins with the bare form of a call
// only if it is one. kRequired and kNamed: calls, and nothing in front of them but thinking and
// white space. Calls have the form that the family's templates write, their arguments in the order
// of the schema. JSON arguments follow the whole schema (%json). XML and Python arguments follow
// names, required, types and enum, and with XML the whole schema of values that are no strings;
// what a schema says inside Python lists and dictionaries, or about strings (pattern, lengths), is
// not enforced there.
//
// kInvalidArgument: kRequired without tools, or kNamed with the name of no tool.
Result<std::string> BuildToolGrammar(const ToolFamily& family, const ToolSet& tools,
                                     const ToolGrammarOptions& options);

}  // namespace hone::chat
