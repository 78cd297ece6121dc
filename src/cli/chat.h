// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone run without a prompt: a chat.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "cli/chat_command.h"
#include "cli/conversation.h"
#include "cli/line_source.h"
#include "cli/message_reader.h"
#include "cli/run_options.h"
#include "runtime/decode_loop.h"
#include "runtime/engine.h"

namespace hone::cli {

// How a chat looks.
struct ChatLook {
  bool prompts = false;   // a person types and reads: prompts and replies to commands
  bool terminal = false;  // answers go to a terminal
  bool dim = false;
};

// One conversation with a person, or with the lines of a pipe. In a pipe an error of an answer ends
// it; a person is told, and goes on.
class Chat {
 public:
  // args, engine and lines must outlive it.
  Chat(const RunArgs& args, runtime::Engine& engine, Conversation conversation, LineSource& lines,
       const ChatLook& look);

  // Until the input ends, /exit, or Ctrl-C twice at the prompt (kCancelled). Saves what
  // --save-state asks for.
  Status Run();

 private:
  Status Talk();
  // The next message. A Ctrl-C stays in the flag until something stops for it, this or an answer:
  // one that comes in between ends the next of them.
  MessageRead Read(const std::string& prompt, std::string_view initial = "");
  // False: the chat ends.
  Result<bool> Obey(const ChatLine& line);
  Status Say(std::string text);

  // The answer to the messages, whose last is the user's. What is in before comes back if there is
  // none.
  Status Answer(Json::Array before);
  Result<ChatPrompt> Prompt();
  void Explain(const runtime::Generation& answer, bool answered);
  void Count(const runtime::Timings& timings);

  void Think(const std::string& word);
  void System(const std::string& text);
  Status Retry();
  Status Edit(const std::string& text);
  void Undo();
  void Save(const std::string& word);
  void Load(const std::string& word);
  void Tokens();
  void Stats();
  void Set(const std::string& text);
  void Clear();
  // Index of the user's last message; -1 if there is none.
  std::int64_t LastUser() const;

  const RunArgs& args_;
  runtime::Engine& engine_;
  const chat::ChatModel model_;
  Conversation conversation_;
  LineSource& lines_;
  MessageReader reader_;
  const ChatLook look_;
  SamplingArgs sampling_;
  runtime::SamplerOptions sampler_;
  std::string think_;
  std::string on_full_;
  bool hide_thinking_;
  runtime::Timings last_, total_;
  std::int64_t num_answers_ = 0;
};

// The chat that hone run's standard input and output are for.
Status RunChat(const RunArgs& args, runtime::Engine& engine, Conversation conversation);

}  // namespace hone::cli
