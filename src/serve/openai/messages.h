// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Messages of a chat, and the parts and calls that they are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/openai/field_reader.h"

namespace hone::serve::openai {

// The member "messages", as ChatInput::messages has it.
ApiResult<Json::Array> ReadMessages(const ObjectReader& body);

// A string, or a list of objects {"type": one of types, "text": ...}: a string or a list of
// {"type": "text", "text"}. An empty list is refused. path is of value.
ApiResult<Json> ReadTextParts(ReadContext& context, const Json& value, const std::string& path,
                              const std::vector<std::string_view>& types);
// The same as one string.
std::string JoinText(const Json& text_or_parts);

// Arguments of a call as an object: a JSON object, also inside a string. null, "", "null" and
// absent (value null) give {}.
ApiResult<Json> ReadArguments(const Json* value, const std::string& path,
                              const ReadOptions& options);

}  // namespace hone::serve::openai
