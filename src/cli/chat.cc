// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The chat's loop and its answers; the commands are in chat_actions.cc.
#include "cli/chat.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "base/env.h"
#include "cli/answer_printer.h"
#include "cli/answer_reader.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/line_editor.h"
#include "cli/model_options.h"

namespace hone::cli {
namespace {

// At once, also into a pipe. Ctrl-C waits: it would end a write that waits for a slow terminal.
void PrintNow(std::string_view text) {
  sigset_t interrupt;
  sigset_t before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  PrintText(text);
  std::fflush(stdout);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

Chat::Chat(const RunArgs& args, runtime::Engine& engine, Conversation conversation,
           LineSource& lines, const ChatLook& look)
    : args_(args),
      engine_(engine),
      model_(engine),
      conversation_(std::move(conversation)),
      lines_(lines),
      reader_(lines),
      look_(look),
      sampling_(args.sampling),
      sampler_(MakeSampler(args.sampling, engine.text())),
      think_(args.think),
      on_full_(args.on_full),
      hide_thinking_(args.hide_thinking) {
  NoteGreedy(sampling_, sampler_);
}

Status Chat::Run() {
  if (look_.prompts) PrintText("Type a message; /help lists the commands.\n");
  Status ended = Talk();
  return SaveAfterChat(engine_, conversation_, args_.save_state, std::move(ended));
}

MessageRead Chat::Read(const std::string& prompt, std::string_view initial) {
  MessageRead read = reader_.Read(prompt, initial);
  if (read.event == LineEvent::kInterrupted) ResetCancelFlag();
  return read;
}

Status Chat::Talk() {
  bool interrupted = false;
  while (true) {
    const MessageRead read = Read("> ");
    if (read.event == LineEvent::kEnd) break;
    if (read.event == LineEvent::kInterrupted) {
      if (look_.prompts && !lines_.can_edit()) PrintText("\n");  // behind the terminal's ^C
      if (!lines_.is_terminal() || (interrupted && read.text.empty())) {
        return Status(Code::kCancelled, "cancelled");
      }
      interrupted = true;
      if (read.text.empty()) PrintNote("Ctrl-C again, Ctrl-D or /exit leaves");
      continue;
    }
    interrupted = false;
    ChatLine line;
    if (read.is_literal) {
      line.text = read.text;
    } else {
      line = ParseChatLine(read.text);
    }
    HONE_ASSIGN(const bool goes_on, Obey(line));
    if (!goes_on) return Status();
  }
  // The editor ended the line.
  if (look_.prompts && !lines_.can_edit()) PrintText("\n");
  return Status();
}

Status Chat::Say(std::string text) {
  if (const Status valid = CheckUtf8("the message", text); !valid.ok()) {
    PrintWarning(valid.message());
    return Status();
  }
  Json::Array before = conversation_.messages;
  conversation_.messages.push_back(Message("user", std::move(text)));
  return Answer(std::move(before));
}

Result<ChatPrompt> Chat::Prompt() {
  PromptOptions options;
  options.think = ThinkFromWord(think_);
  options.on_full = OnFullFromWord(on_full_);
  options.reserve = AnswerReserve(model_.context(), sampling_.max_tokens);
  return MakeChatPrompt(model_, conversation_.messages, options);
}

Status Chat::Answer(Json::Array before) {
  Json::Array& messages = conversation_.messages;
  auto prompt = Prompt();
  if (!prompt.ok() || !prompt->full.empty()) {
    messages = std::move(before);
    if (prompt.ok()) {
      PrintWarning(StrCat(prompt->full, ": the message is not kept (/undo and /clear make room, ",
                          "/set on-full trim lets the oldest turns go)"));
      return Status();
    }
    if (!lines_.is_terminal()) return std::move(prompt).status();
    PrintWarning(prompt.message());
    return Status();
  }
  if (prompt->dropped_messages > 0) {
    DropMessages(messages, prompt->dropped_messages);
    DropMessages(before, prompt->dropped_messages);
    PrintNote(StrCat("the context is full: the ", prompt->dropped_messages,
                     " oldest messages have left the conversation"));
  }
  AnswerPrinter printer({look_.terminal, look_.dim, hide_thinking_}, PrintNow);
  AnswerReader reader(engine_.text(), prompt->opens_thinking,
                      [&](const chat::Event& event) { printer.Add(event); });
  runtime::GenerateOptions options;
  options.sampler = sampler_;
  options.max_tokens = sampling_.max_tokens.value_or(0);
  options.speculation = SpeculationFromWord(args_.speculate);
  options.cancel = CancelFlag();
  options.on_text = [&](std::string_view text) { reader.Text(text); };
  options.on_token = [&](std::int32_t id) { reader.Token(id); };
  auto answer = runtime::Generate(engine_, *conversation_.sequence, prompt->ids, options);
  if (answer.ok() && answer->finish == runtime::FinishReason::kCancelled) ResetCancelFlag();
  reader.Finish();
  printer.Finish();
  std::fflush(stdout);
  const bool answered = EndTurn(messages, answer, reader.Message());
  if (!answered) messages = std::move(before);
  if (answer.ok()) {
    Explain(*answer, answered);
    Count(answer->timings);
    return Status();
  }
  if (!lines_.is_terminal()) return std::move(answer).status();
  PrintWarning(StrCat(answer.message(), ": the message is not kept"));
  return Status();
}

void Chat::Explain(const runtime::Generation& answer, bool answered) {
  if (!answered) {
    PrintNote("stopped before the answer began: the message is not kept");
  } else if (answer.finish == runtime::FinishReason::kCancelled) {
    PrintNote("stopped; what was answered so far is kept (/retry answers again)");
  } else if (answer.finish == runtime::FinishReason::kLength) {
    const bool limit = sampling_.max_tokens &&
                       static_cast<std::int64_t>(answer.ids.size()) >= *sampling_.max_tokens;
    PrintNote(limit ? StrCat("the answer reached --max-tokens, ", *sampling_.max_tokens)
                    : StrCat("the context of ", model_.context(),
                             " tokens is full, so the answer ends here; /undo and /clear make "
                             "room, /set on-full trim lets the oldest turns go"));
  }
}

void Chat::Count(const runtime::Timings& timings) {
  last_ = timings;
  total_.prefill_seconds += timings.prefill_seconds;
  total_.decode_seconds += timings.decode_seconds;
  total_.first_token_seconds += timings.first_token_seconds;
  total_.prefill_tokens += timings.prefill_tokens;
  total_.decode_tokens += timings.decode_tokens;
  ++num_answers_;
}

Status RunChat(const RunArgs& args, runtime::Engine& engine, Conversation conversation) {
  const bool reads_terminal = ::isatty(STDIN_FILENO) != 0;
  const bool writes_terminal = ::isatty(STDOUT_FILENO) != 0;
  ChatLook look;
  look.prompts = reads_terminal && writes_terminal;
  look.terminal = writes_terminal;
  look.dim = MayDim(writes_terminal) && GetEnv("TERM") != "dumb";
  std::unique_ptr<LineSource> lines;
  if (look.prompts) {
    if (GetEnv("TERM") != "dumb") GuardTerminal();
    lines = MakeLineEditor(CancelFlag());
  }
  if (lines == nullptr) {
    lines = std::make_unique<PlainLines>(STDIN_FILENO, reads_terminal, look.prompts, CancelFlag());
  }
  return Chat(args, engine, std::move(conversation), *lines, look).Run();
}

}  // namespace hone::cli
