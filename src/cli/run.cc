// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone run: one answer, or a chat in the terminal.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "cli/answer_grammar.h"
#include "cli/arguments.h"
#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/conversation.h"
#include "cli/model_options.h"
#include "cli/run_options.h"
#include "runtime/engine.h"

namespace hone::cli {
namespace {

const std::vector<std::string> kSpeculateWords = {"auto", "on", "off"};
const std::vector<std::string> kOnFullWords = {"error", "trim"};

Status CheckArgs(const RunArgs& args) {
  HONE_TRY(CheckSampling(args.sampling));
  HONE_TRY(CheckUtf8("--prompt", args.prompt.value_or("")));
  HONE_TRY(CheckUtf8("--system", args.system.value_or("")));
  if (args.raw && !args.prompt) return Status(Code::kInvalidArgument, "--raw needs a prompt (-p)");
  if (args.json && !args.prompt)
    return Status(Code::kInvalidArgument, "--json needs a prompt (-p)");
  if (args.grammar.any() && !args.prompt) {
    return Status(Code::kInvalidArgument,
                  "--json-schema, --regex and --grammar need a prompt (-p)");
  }
  HONE_TRY(CheckStatePath(args.save_state, args.model));
  if (args.raw && args.system) {
    return Status(Code::kInvalidArgument,
                  "--raw takes the prompt as it is; --system needs the "
                  "chat template");
  }
  return Status();
}

Status Run(const RunArgs& args) {
  HONE_TRY(CheckArgs(args));
  HONE_ASSIGN(const std::optional<bridge::Grammar> grammar, ReadGrammar(args.grammar));
  CancelFlag();
  HONE_ASSIGN(const auto engine, OpenEngine(args.model, args.threads, args.compute, args.kv));
  if (CancelFlag()->load()) return Status(Code::kCancelled, "cancelled");
  NoteThink(engine->text(), args.think, args.raw);
  if (engine->runs_graph() && !(args.kv.empty() && args.compute.empty())) {
    PrintNote("the bundle's own graph runs, so --kv and --compute change nothing");
  }
  if (engine->runs_graph() && !args.save_state.empty()) {
    return Status(Code::kUnsupported,
                  "--save-state: the bundle's own graph runs, and its cache cannot be saved");
  }
  HONE_ASSIGN(Conversation conversation, OpenConversation(*engine, args.load_state, args.system));
  if (CancelFlag()->load()) return Status(Code::kCancelled, "cancelled");
  if (args.prompt) return AnswerOnce(args, grammar, *engine, std::move(conversation));
  return RunChat(args, *engine, std::move(conversation));
}

}  // namespace

void RegisterRun(CLI::App& app, Command* selected) {
  auto args = std::make_shared<RunArgs>();
  CLI::App* run = app.add_subcommand("run", "Answer a prompt, or chat in the terminal");
  run->footer(
      "Examples:\n"
      "  hone run m.litertlm\n"
      "  hone run m.litertlm -p \"What is the capital of France?\" --max-tokens 64\n"
      "  hone run m.litertlm --raw -p \"Once upon a time\" --temperature 0 --json\n"
      "A chat lists its commands with /help; each line of a pipe is a message.");
  run->add_option("model", args->model, kModelHelp)->required();
  run->add_option("-p,--prompt", args->prompt, "The user's message; without it a chat starts");
  run->add_option("--system", args->system, "The system message");
  run->add_flag("--raw", args->raw, "The prompt is the whole text: no template, nothing prepended");
  run->add_option("--think", args->think, "Thinking: on, off or what the template does by itself")
      ->check(CLI::IsMember(kThinkWords))
      ->capture_default_str();
  run->add_flag("--hide-thinking", args->hide_thinking, "A chat does not print the thinking");
  run->add_option("--on-full", args->on_full,
                  "If the conversation does not fit into the context: error, or trim (the oldest "
                  "turns leave)")
      ->check(CLI::IsMember(kOnFullWords))
      ->capture_default_str();
  AddSamplingOptions(*run, args->sampling);
  run->add_option("--kv", args->kv,
                  "Type of the key/value cache (default: f32 for float weights, f16 else)")
      ->check(CLI::IsMember(kKvWords));
  run->add_option("--compute", args->compute,
                  "Activations (default: q8 for quantized bundles, f32 else)")
      ->check(CLI::IsMember(kComputeWords));
  run->add_option("--speculate", args->speculate,
                  "Guess tokens from the text and run several at once; the answer stays the same. "
                  "auto: while it pays")
      ->check(CLI::IsMember(kSpeculateWords))
      ->capture_default_str();
  run->add_option("--threads", args->threads, kThreadsHelp)
      ->transform(ThreadsWord)
      ->default_str("auto");
  run->add_option("--save-state", args->save_state,
                  "Write the conversation with its cache to this file at the end");
  run->add_option("--load-state", args->load_state,
                  "Go on with a conversation from --save-state; its tokens are not computed again");
  run->add_option("--json-schema", args->grammar.json_schema,
                  "The answer is JSON that follows this schema: a file, or the schema itself");
  run->add_option("--regex", args->grammar.regex,
                  "The whole answer matches this regular expression (Rust's syntax)");
  run->add_option("--grammar", args->grammar.grammar,
                  "The answer follows the Lark grammar in this file");
  run->add_flag("--json", args->json, "Print one JSON object: text, ids, timings");
  run->callback([args, selected] { *selected = [args] { return Run(*args); }; });
}

}  // namespace hone::cli
