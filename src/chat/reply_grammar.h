// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What an answer must match: the calls of tools, a format, or both.
#pragma once

#include <memory>

#include "bridge/grammar.h"
#include "chat/chat_model.h"
#include "chat/chat_request.h"
#include "chat/request_error.h"
#include "chat/tool_set.h"

namespace hone::chat {

struct ReplyGrammar {
  std::shared_ptr<const bridge::TokenMatcher> matcher = {};  // null: the answer is free
  bool binds_calls = false;                                  // no call that is wrong gets through
};

// The rules:
// - tool_choice none: no call; with a format the answer matches it.
// - auto without a format: free, and calls are read from the text; bound if a tool is strict or
//   calls must not be parallel. With a format the answer is either calls or a text of the format;
//   families with bare calls refuse that.
// - required and named: calls. There is no text that a format could bind, but a wrong format is an
//   error all the same.
// The thinking in front is none of its business.
RequestResult<ReplyGrammar> CompileReplyGrammar(const ChatModel& model, const ChatRequest& request,
                                                const ToolSet& tools);

}  // namespace hone::chat
