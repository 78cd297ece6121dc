// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/conversation.h"

#include <utility>

#include "cli/arguments.h"
#include "cli/chat_file.h"
#include "cli/cli.h"
#include "runtime/sequence_state.h"

namespace hone::cli {
namespace {

// The array of messages that SaveConversation wrote; empty text has none.
Result<Json::Array> ReadMessages(std::string_view text) {
  if (text.empty()) return Json::Array();
  auto messages = ParseMessages(text);
  if (!messages.ok()) return std::move(messages).status().Context("the saved messages");
  return messages;
}

}  // namespace

Json Message(const char* role, std::string content) {
  return Json(Json::Object{{"role", Json(role)}, {"content", Json(std::move(content))}});
}

Status CheckStatePath(const std::string& path, const std::string& model) {
  if (path.empty()) return Status();
  HONE_TRY(CheckOutputPath(path));
  return CheckReplaces(path, model, runtime::kStateMagic, "saved conversation");
}

Result<Conversation> OpenConversation(runtime::Engine& engine, const std::string& path,
                                      const std::optional<std::string>& system) {
  Conversation conversation;
  if (path.empty()) {
    HONE_ASSIGN(conversation.sequence, engine.NewSequence());
  } else {
    HONE_ASSIGN(runtime::SavedSequence saved, engine.LoadState(path));
    auto messages = ReadMessages(saved.text);
    if (!messages.ok()) return std::move(messages).status().Context(path);
    conversation.messages = *std::move(messages);
    conversation.sequence = std::move(saved.sequence);
    PrintNote(StrCat(path, ": a conversation of ", conversation.sequence->size(), " tokens (",
                     conversation.messages.size(), " messages) goes on"));
    if (!saved.note.empty()) PrintNote(saved.note);
  }
  if (!system) return conversation;
  if (conversation.messages.empty()) {
    conversation.messages.push_back(Message("system", *system));
  } else if (conversation.messages[0].Dump() != Message("system", *system).Dump()) {
    return Status(Code::kInvalidArgument,
                  StrCat("--system: the saved conversation in ", path,
                         " does not begin with this system message; leave --system out"));
  }
  return conversation;
}

bool EndTurn(Json::Array& messages, const Result<runtime::Generation>& answer, Json reply) {
  const bool answered =
      answer.ok() && (answer->finish != runtime::FinishReason::kCancelled || !answer->ids.empty());
  if (answered) {
    messages.push_back(std::move(reply));
  } else {
    messages.pop_back();
  }
  return answered;
}

Status SaveConversation(runtime::Engine& engine, const Conversation& conversation,
                        const std::string& path) {
  if (path.empty()) return Status();
  if (conversation.sequence->size() == 0) {
    PrintNote("nothing was said, so nothing is saved");
    return Status();
  }
  const std::string text =
      conversation.messages.empty() ? "" : Json(Json::Array(conversation.messages)).Dump();
  return engine.SaveState(*conversation.sequence, text, path);
}

Status SaveAfterChat(runtime::Engine& engine, const Conversation& conversation,
                     const std::string& path, Status ended) {
  if (path.empty()) return ended;
  const Json::Array& messages = conversation.messages;
  if (messages.empty() || messages.back().Find("role")->AsString() != "assistant") {
    PrintNote("nothing was said, so nothing is saved");
    return ended;
  }
  Status saved = SaveConversation(engine, conversation, path);
  if (saved.ok()) return ended;
  if (ended.ok() || ended.code() == Code::kCancelled) return saved;
  PrintWarning(StrCat("the conversation is not saved: ", saved.message()));
  return ended;
}

}  // namespace hone::cli
