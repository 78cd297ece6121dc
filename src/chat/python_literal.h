// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Python literals as JSON: what models write as arguments of a call in Python's syntax.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace hone::chat {

// Strings (all quotes, escapes, neighbours joined), numbers, True, False, None (and JSON's words
// for them), lists, tuples and dictionaries. Numbers keep their digits; keys that are no strings
// become strings. Nothing is evaluated: names, calls and operators are kInvalidArgument.
Result<std::string> JsonFromPythonLiteral(std::string_view text);

}  // namespace hone::chat
