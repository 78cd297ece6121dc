// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Tool calls of earlier turns, made ready for a chat template.
#pragma once

#include "base/json.h"
#include "base/status.h"

namespace hone::chat {

// The messages with the arguments of every tool call as a JSON object: JSON text is decoded once;
// absent, null and empty ones become {}. Calls are read as {"function": {"name": ..., "arguments":
// ...}} or with these members in the call itself. Everything else stays as it is; messages that are
// no array and entries that are no objects too (rendering refuses them). kInvalidArgument with the
// indices of message and call if calls are no array of objects, have no name, or have arguments
// that are no object.
Result<Json> DecodeToolArguments(const Json& messages);

}  // namespace hone::chat
