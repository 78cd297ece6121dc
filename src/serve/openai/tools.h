// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Tools, the choice among them, and output formats, in the shapes of chat completions and of
// responses.
#pragma once

#include "serve/openai/field_reader.h"
#include "serve/openai/request.h"

namespace hone::serve::openai {

// Members "tools", "tool_choice" and "parallel_tool_calls". nested: a function is inside
// {"type": "function", "function": {...}}, as chat completions have it; else beside "type".
ApiStatus ReadTools(const ObjectReader& body, bool nested, ChatInput& chat);
// Only "tools".
ApiStatus ReadToolList(const ObjectReader& body, bool nested, ChatInput& chat);

// The member "response_format".
ApiStatus ReadResponseFormat(const ObjectReader& body, OutputFormat& format);
// text.format of responses: the schema lies beside "type".
ApiStatus ReadTextFormat(const ObjectReader& format_object, OutputFormat& format);

}  // namespace hone::serve::openai
