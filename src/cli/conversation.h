// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Conversations of hone run that are kept in files (--save-state, --load-state).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "runtime/engine.h"

namespace hone::cli {

struct Conversation {
  std::unique_ptr<runtime::Sequence> sequence;
  Json::Array messages;  // with role and content; what the sequence holds, but for --raw
};

// {"role": ..., "content": ...}
Json Message(const char* role, std::string content);

// Refuses a name to save to that cannot be written, or that is another kind of file. Empty: not
// asked for.
Status CheckStatePath(const std::string& path, const std::string& model);

// The conversation in the file, which is said on stderr; a new one if path is empty. It begins with
// the system message, if one is given: a saved conversation must not have another one.
Result<Conversation> OpenConversation(runtime::Engine& engine, const std::string& path,
                                      const std::optional<std::string>& system);

// Does nothing if path is empty.
Status SaveConversation(runtime::Engine& engine, const Conversation& conversation,
                        const std::string& path);

}  // namespace hone::cli
