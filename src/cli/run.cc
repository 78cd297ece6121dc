// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone run: one answer, or a chat in the terminal.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "base/text.h"
#include "cli/answer_grammar.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/conversation.h"
#include "cli/model_options.h"
#include "runtime/chat.h"
#include "runtime/decode_loop.h"
#include "runtime/engine.h"
#include "runtime/text_stream.h"

namespace hone::cli {
namespace {

const std::vector<std::string> kSpeculateWords = {"auto", "on", "off"};

struct RunArgs {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<std::string> system;
  std::string think = "auto", kv, compute, speculate = "auto";
  bool raw = false, json = false;
  int threads = 0;
  std::optional<std::int64_t> max_tokens;
  std::optional<float> temperature, top_p, min_p;
  std::optional<std::int32_t> top_k;
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<std::int64_t> seed;
  std::string save_state, load_state;
  GrammarArgs grammar;
};

Status CheckRange(const char* option, const std::optional<float>& value, float low, float high) {
  if (!value || (*value >= low && *value <= high)) return Status();  // NaN fails both
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "found %g, expected %g to %g",
                static_cast<double>(*value), static_cast<double>(low), static_cast<double>(high));
  return Status(Code::kInvalidArgument, StrCat(option, ": ", text.data()));
}

Status CheckArgs(const RunArgs& args) {
  constexpr float kBig = 1e6F;
  HONE_TRY(CheckRange("--temperature", args.temperature, 0, 100));
  HONE_TRY(CheckRange("--top-p", args.top_p, 0, 1));
  HONE_TRY(CheckRange("--min-p", args.min_p, 0, 1));
  HONE_TRY(CheckRange("--repetition-penalty", args.repetition_penalty, 1e-3F, 1e3F));
  HONE_TRY(CheckRange("--presence-penalty", args.presence_penalty, -kBig, kBig));
  HONE_TRY(CheckRange("--frequency-penalty", args.frequency_penalty, -kBig, kBig));
  if (args.top_k && *args.top_k < 0) {
    return Status(Code::kInvalidArgument,
                  StrCat("--top-k: found ", *args.top_k, ", expected 0 (off) or more"));
  }
  if (args.max_tokens && *args.max_tokens < 1) {
    return Status(Code::kInvalidArgument,
                  StrCat("--max-tokens: found ", *args.max_tokens, ", expected 1 or more"));
  }
  if (args.seed && *args.seed < 0) {
    return Status(Code::kInvalidArgument,
                  StrCat("--seed: found ", *args.seed, ", expected 0 or more"));
  }
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

// The source's recommendation, then what the user says.
runtime::SamplerOptions MakeSampler(const RunArgs& args, const runtime::TextSetup& text) {
  runtime::SamplerOptions sampler;
  sampler.temperature = args.temperature.value_or(text.temperature);
  sampler.top_k = args.top_k.value_or(text.top_k);
  sampler.top_p = args.top_p.value_or(text.top_p);
  sampler.min_p = args.min_p.value_or(text.min_p);
  sampler.repetition_penalty = args.repetition_penalty.value_or(text.repetition_penalty);
  sampler.presence_penalty = args.presence_penalty.value_or(0.0F);
  sampler.frequency_penalty = args.frequency_penalty.value_or(0.0F);
  sampler.seed =
      args.seed ? static_cast<std::uint64_t>(*args.seed) : std::uint64_t{std::random_device{}()};
  if (sampler.temperature == 0 && (args.top_k || args.top_p || args.min_p || args.seed)) {
    PrintNote(
        "the temperature is 0, so the best token is always taken; --temperature turns "
        "sampling on");
  }
  return sampler;
}

Result<std::string> RenderMessages(const RunArgs& args, const runtime::TextSetup& text,
                                   const Json::Array& messages) {
  runtime::RenderOptions options;
  options.think = ThinkFromWord(args.think);
  options.local_now = LocalNow();
  return runtime::RenderChat(text, Json(messages), options);
}

Result<std::vector<std::int32_t>> EncodeRaw(const RunArgs& args, const runtime::TextSetup& text) {
  if (text.tokenizer) return text.tokenizer->Encode(*args.prompt);
  return Status(Code::kUnsupported, StrCat("no tokenizer: ", text.tokenizer_error));
}

// Whether a rendered prompt ends with the marker that opens the thinking part.
bool BeginsThinking(const runtime::TextSetup& text, std::string_view rendered) {
  const std::size_t last = rendered.find_last_not_of(" \r\n");
  return !text.think_start.empty() && last != std::string_view::npos &&
         rendered.substr(0, last + 1).ends_with(text.think_start);
}

// A template that opened the thinking part itself expects to find its opening marker again.
std::string BeforeAnswer(const runtime::TextSetup& text, bool begins_thinking) {
  return begins_thinking ? text.think_start + "\n" : "";
}

runtime::Speculation SpeculationFromWord(const std::string& word) {
  if (word == "on") return runtime::Speculation::kOn;
  return word == "off" ? runtime::Speculation::kOff : runtime::Speculation::kAuto;
}

Json IdsJson(std::span<const std::int32_t> ids) {
  return Json(Json::Array(ids.begin(), ids.end()));
}

double PerSecond(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

Json AnswerJson(const runtime::Engine& engine, std::span<const std::int32_t> prompt,
                const runtime::Generation& answer, const runtime::SamplerOptions& sampler) {
  const runtime::Timings& t = answer.timings;
  Json timings(Json::Object{});
  timings.Set("load_seconds", Json(engine.load_seconds()));
  timings.Set("first_token_seconds", Json(t.first_token_seconds));
  timings.Set("prefill_tokens", Json(t.prefill_tokens));
  timings.Set("prefill_seconds", Json(t.prefill_seconds));
  timings.Set("prefill_tokens_per_second", Json(PerSecond(t.prefill_tokens, t.prefill_seconds)));
  timings.Set("decode_tokens", Json(t.decode_tokens));
  timings.Set("decode_seconds", Json(t.decode_seconds));
  timings.Set("decode_tokens_per_second", Json(PerSecond(t.decode_tokens, t.decode_seconds)));
  Json out(Json::Object{});
  out.Set("text", Json(answer.text));
  out.Set("token_ids", IdsJson(answer.ids));
  out.Set("prompt_ids", IdsJson(prompt));
  out.Set("finish_reason", Json(runtime::FinishReasonName(answer.finish)));
  out.Set("timings", std::move(timings));
  Json speculation(Json::Object{});
  speculation.Set("steps", Json(answer.speculation.steps));
  speculation.Set("drafted_tokens", Json(answer.speculation.drafted));
  speculation.Set("accepted_tokens", Json(answer.speculation.accepted));
  speculation.Set("forced_tokens", Json(answer.speculation.forced));
  out.Set("speculation", std::move(speculation));
  out.Set("engine", Json(engine.runs_graph() ? "graph" : "kernels"));
  if (!engine.runs_graph()) {
    out.Set("compute", Json(engine.compute() == kernels::Compute::kQ8 ? "q8" : "f32"));
    out.Set("kv", Json(kernels::KvTypeName(engine.kv_type())));
    const std::vector<std::string> names = engine.KernelNames();
    out.Set("kernels", Json(Json::Array(names.begin(), names.end())));
  }
  out.Set("threads", Json(engine.num_threads()));
  out.Set("seed", Json(sampler.seed));
  return out;
}

// At once, also into a pipe.
void PrintNow(std::string_view text) {
  PrintText(text);
  std::fflush(stdout);
}

Status AnswerOnce(const RunArgs& args, const std::optional<bridge::Grammar>& grammar,
                  runtime::Engine& engine, Conversation conversation) {
  std::optional<bridge::TokenMatcher> matcher;
  if (grammar) {
    HONE_ASSIGN(bridge::TokenMatcher compiled, CompileGrammar(engine, *grammar));
    matcher.emplace(std::move(compiled));
  }
  std::vector<std::int32_t> prompt;
  std::string rendered;
  if (args.raw) {
    conversation.messages.clear();
    HONE_ASSIGN(prompt, EncodeRaw(args, engine.text()));
  } else {
    conversation.messages.push_back(Message("user", *args.prompt));
    HONE_ASSIGN(rendered, RenderMessages(args, engine.text(), conversation.messages));
    HONE_ASSIGN(prompt, runtime::EncodePrompt(engine.text(), rendered));
  }
  runtime::GenerateOptions options;
  options.sampler = MakeSampler(args, engine.text());
  options.max_tokens = args.max_tokens.value_or(0);
  options.speculation = SpeculationFromWord(args.speculate);
  options.cancel = CancelFlag();
  if (matcher) {
    options.constraint =
        AnswerConstraint(*matcher, engine.text(), BeginsThinking(engine.text(), rendered),
                         !args.raw && args.think != "off");
  }
  if (!args.json) options.on_text = PrintNow;
  auto answer = runtime::Generate(engine, *conversation.sequence, prompt, options);
  if (!answer.ok()) return std::move(answer).status();
  if (args.json) {
    PrintJson(AnswerJson(engine, prompt, *answer, options.sampler));
  } else {
    PrintText("\n");
  }
  if (answer->finish == runtime::FinishReason::kCancelled) {
    return Status(Code::kCancelled, "cancelled");
  }
  if (matcher && !matcher->MayEnd()) {
    PrintNote("the answer was cut before it was complete: it does not follow the grammar yet");
  }
  if (!args.raw) {
    EndTurn(conversation.messages, answer,
            BeforeAnswer(engine.text(), BeginsThinking(engine.text(), rendered)));
  }
  return SaveConversation(engine, conversation, args.save_state);
}

// Prints an answer as it comes, with the thinking part dimmed on a terminal. Markers may arrive in
// pieces as text, or as special tokens that have no text.
class AnswerPrinter {
 public:
  AnswerPrinter(const runtime::TextSetup& text, bool dim, bool begins_thinking)
      : start_(text.think_start), end_(text.think_end), dim_(dim) {
    if (text.tokenizer && !start_.empty()) {
      start_id_ = text.tokenizer->TokenId(start_);
      end_id_ = text.tokenizer->TokenId(end_);
    }
    if (begins_thinking) SetThinking(true);
  }

  void Text(std::string_view text) {
    pending_ += text;
    while (true) {
      const std::string& marker = thinking_ ? end_ : start_;
      const std::size_t at = marker.empty() ? std::string::npos : pending_.find(marker);
      if (at == std::string::npos) break;
      PrintNow(std::string_view(pending_).substr(0, at));
      pending_.erase(0, at + marker.size());
      SetThinking(!thinking_);
    }
    const std::size_t keep = OpenMarkerBytes();
    PrintNow(std::string_view(pending_).substr(0, pending_.size() - keep));
    pending_.erase(0, pending_.size() - keep);
  }

  // The marker is a token of its own and was hidden from the text.
  void Token(std::int32_t id) {
    if (thinking_ ? id == end_id_ : id == start_id_) SetThinking(!thinking_);
  }

  void Finish() {
    PrintText(pending_);
    pending_.clear();
    SetThinking(false);
    PrintNow("\n");
  }

 private:
  void SetThinking(bool thinking) {
    if (thinking == thinking_) return;
    thinking_ = thinking;
    if (dim_) PrintText(thinking ? "\x1b[2m" : "\x1b[0m");
  }

  // Bytes at the end of pending_ that may be the beginning of the next marker.
  std::size_t OpenMarkerBytes() const {
    const std::string& marker = thinking_ ? end_ : start_;
    return marker.empty() ? 0 : OpenPrefixBytes(pending_, marker);
  }

  std::string start_, end_, pending_;
  std::optional<std::int32_t> start_id_, end_id_;
  bool dim_;
  bool thinking_ = false;
};

constexpr const char* kChatHelp =
    "  /clear   forget the conversation\n"
    "  /exit    leave (also Ctrl-D)\n"
    "  /help    this text\n"
    "  Ctrl-C   stop the answer; twice: leave\n";

class Chat {
 public:
  Chat(const RunArgs& args, runtime::Engine& engine, Conversation conversation)
      : args_(args), engine_(engine), conversation_(std::move(conversation)) {
    options_.sampler = MakeSampler(args, engine.text());
    options_.max_tokens = args.max_tokens.value_or(0);
    options_.speculation = SpeculationFromWord(args.speculate);
    options_.cancel = CancelFlag();
  }

  Status Run() {
    Status ended = Talk();
    return SaveAfterChat(engine_, conversation_, args_.save_state, std::move(ended));
  }

 private:
  Status Talk() {
    const bool terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
    if (terminal) PrintText("Type a message; /help lists the commands.\n");
    std::string line;
    while (true) {
      if (terminal) PrintNow("> ");
      ResetCancelFlag();
      if (!std::getline(std::cin, line)) {
        // Ctrl-C ends the read like the end of the input does.
        if (CancelFlag()->load()) return Status(Code::kCancelled, "cancelled");
        break;
      }
      if (line == "/exit") break;
      if (line == "/clear") {
        Clear();
      } else if (line == "/help") {
        PrintText(kChatHelp);
      } else if (const Status text = CheckUtf8("the message", line); !text.ok()) {
        PrintWarning(text.message());
      } else if (line.find_first_not_of(" \t\r") != std::string::npos) {
        HONE_TRY(Answer(line, terminal));
      }
    }
    if (terminal) PrintText("\n");
    return Status();
  }

  // All but the system message.
  void Clear() {
    Json::Array& messages = conversation_.messages;
    const bool system = !messages.empty() && messages[0].Find("role")->AsString() == "system";
    messages.resize(system ? 1 : 0);
  }

  // What the user can do something about (a full context) is said and the chat goes on.
  Status Answer(const std::string& line, bool terminal) {
    Json::Array& messages = conversation_.messages;
    messages.push_back(Message("user", line));
    bool begins_thinking = false;
    bool generates = false;
    auto answer = Generate(terminal, &begins_thinking, &generates);
    const bool answered = EndTurn(messages, answer, BeforeAnswer(engine_.text(), begins_thinking));
    if (!answer.ok()) {
      if (!generates || answer.code() != Code::kInvalidArgument) return std::move(answer).status();
      PrintWarning(StrCat(answer.message(), " (/clear starts anew)"));
    } else if (!answered) {
      PrintNote("stopped before the answer began: the message is not kept");
    } else if (answer->finish == runtime::FinishReason::kLength) {
      PrintNote(args_.max_tokens ? "the answer reached --max-tokens or the end of the context"
                                 : "the context is full; /clear starts anew");
    }
    return Status();
  }

  // The answer to the messages, printed. generates: the messages could be rendered and encoded.
  Result<runtime::Generation> Generate(bool terminal, bool* begins_thinking, bool* generates) {
    HONE_ASSIGN(const std::string rendered,
                RenderMessages(args_, engine_.text(), conversation_.messages));
    HONE_ASSIGN(const std::vector<std::int32_t> prompt,
                runtime::EncodePrompt(engine_.text(), rendered));
    *begins_thinking = BeginsThinking(engine_.text(), rendered);
    *generates = true;
    AnswerPrinter printer(engine_.text(), MayDim(terminal), *begins_thinking);
    options_.on_text = [&](std::string_view text) { printer.Text(text); };
    options_.on_token = [&](std::int32_t id) { printer.Token(id); };
    auto answer = runtime::Generate(engine_, *conversation_.sequence, prompt, options_);
    printer.Finish();
    return answer;
  }

  const RunArgs& args_;
  runtime::Engine& engine_;
  Conversation conversation_;
  runtime::GenerateOptions options_;
};

Status Run(const RunArgs& args) {
  HONE_TRY(CheckArgs(args));
  HONE_ASSIGN(const std::optional<bridge::Grammar> grammar, ReadGrammar(args.grammar));
  CancelFlag();
  HONE_ASSIGN(const auto engine, OpenEngine(args.model, args.threads, args.compute, args.kv));
  if (CancelFlag()->load()) return Status(Code::kCancelled, "cancelled");
  NoteUnusedThink(engine->text(), args.think, args.raw);
  if (engine->runs_graph() && !(args.kv.empty() && args.compute.empty())) {
    PrintNote("the bundle's own graph runs, so --kv and --compute change nothing");
  }
  if (engine->runs_graph() && !args.save_state.empty()) {
    return Status(Code::kUnsupported,
                  "--save-state: the bundle's own graph runs, and its cache cannot be saved");
  }
  HONE_ASSIGN(Conversation conversation, OpenConversation(*engine, args.load_state, args.system));
  if (args.prompt) return AnswerOnce(args, grammar, *engine, std::move(conversation));
  return Chat(args, *engine, std::move(conversation)).Run();
}

}  // namespace

void RegisterRun(CLI::App& app, Command* selected) {
  auto args = std::make_shared<RunArgs>();
  CLI::App* run = app.add_subcommand("run", "Answer a prompt, or chat in the terminal");
  run->footer(
      "Examples:\n"
      "  hone run m.litertlm\n"
      "  hone run m.litertlm -p \"What is the capital of France?\" --max-tokens 64\n"
      "  hone run m.litertlm --raw -p \"Once upon a time\" --temperature 0 --json");
  run->add_option("model", args->model, kModelHelp)->required();
  run->add_option("-p,--prompt", args->prompt, "The user's message; without it a chat starts");
  run->add_option("--system", args->system, "The system message");
  run->add_flag("--raw", args->raw, "The prompt is the whole text: no template, nothing prepended");
  run->add_option("--think", args->think, "Thinking: on, off or what the template does by itself")
      ->check(CLI::IsMember(kThinkWords))
      ->capture_default_str();
  run->add_option("--max-tokens", args->max_tokens, "Most tokens of an answer (default: no limit)")
      ->check(WholeNumber);
  run->add_option("--temperature", args->temperature, "0: always the best token");
  run->add_option("--top-k", args->top_k, "Choose among the k best tokens; 0: off")
      ->check(WholeNumber);
  run->add_option("--top-p", args->top_p, "Choose among the best tokens that sum to p; 1: off");
  run->add_option("--min-p", args->min_p, "Drop tokens below p times the best; 0: off");
  run->add_option("--repetition-penalty", args->repetition_penalty, "1: off");
  run->add_option("--presence-penalty", args->presence_penalty, "0: off");
  run->add_option("--frequency-penalty", args->frequency_penalty, "0: off");
  run->add_option("--seed", args->seed, "Seed of the sampler (default: another each time)")
      ->check(WholeNumber);
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
