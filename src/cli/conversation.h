// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Conversations of hone run that are kept in files (--save-state, --load-state).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "runtime/decode_loop.h"
#include "runtime/engine.h"

namespace hone::cli {

struct Conversation {
  std::unique_ptr<runtime::Sequence> sequence;
  // With role and content, as ParseMessages has them; what the sequence holds, but for --raw.
  Json::Array messages;
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

// What a turn that begins with the last message, the user's, comes to: the reply is added. Without
// an answer (an error, or a cancel before its first token) the message is taken back, so that the
// conversation is what it was. Returns whether there is one.
bool EndTurn(Json::Array& messages, const Result<runtime::Generation>& answer, Json reply);

// Does nothing if path is empty. Where nothing was answered, a note says so and nothing is saved.
Status SaveConversation(runtime::Engine& engine, const Conversation& conversation,
                        const std::string& path);

// The same at the end of a chat, whatever ended it. What went wrong in the chat is returned; if
// saving goes wrong too, a warning says that.
Status SaveAfterChat(runtime::Engine& engine, const Conversation& conversation,
                     const std::string& path, Status ended);

}  // namespace hone::cli
