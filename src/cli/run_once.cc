// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone run -p: one answer.
#include <cstdio>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cli/answer_reader.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/run_options.h"
#include "runtime/decode_loop.h"
#include "runtime/engine_words.h"

namespace hone::cli {
namespace {

Result<std::vector<std::int32_t>> EncodeRaw(const RunArgs& args, const runtime::TextSetup& text) {
  if (text.tokenizer) return text.tokenizer->Encode(*args.prompt);
  return Status(Code::kUnsupported, StrCat("no tokenizer: ", text.tokenizer_error));
}

// Takes out of the conversation what does not fit.
Result<ChatPrompt> MakePrompt(const RunArgs& args, const chat::ChatModel& model,
                              Json::Array& messages) {
  PromptOptions options;
  options.think = ThinkFromWord(args.think);
  options.on_full = OnFullFromWord(args.on_full);
  options.reserve = AnswerReserve(model.context(), args.sampling.max_tokens);
  HONE_ASSIGN(ChatPrompt prompt, MakeChatPrompt(model, messages, options));
  if (!prompt.full.empty()) return Status(Code::kInvalidArgument, prompt.full);
  DropMessages(messages, prompt.dropped_messages);
  if (prompt.dropped_messages > 0) {
    PrintNote(StrCat("the context is full: the ", prompt.dropped_messages,
                     " oldest messages are left out"));
  }
  return prompt;
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
  const runtime::EngineWords words = runtime::WordsOf(engine);
  out.Set("engine", Json(words.engine));
  if (!engine.runs_graph()) {
    out.Set("compute", Json(words.compute));
    out.Set("kv", Json(words.kv));
    const std::vector<std::string> names = engine.KernelNames();
    out.Set("kernels", Json(Json::Array(names.begin(), names.end())));
  }
  out.Set("threads", Json(engine.num_threads()));
  out.Set("seed", Json(sampler.seed));
  return out;
}

}  // namespace

Status AnswerOnce(const RunArgs& args, const std::optional<bridge::Grammar>& grammar,
                  runtime::Engine& engine, Conversation conversation) {
  std::optional<bridge::TokenMatcher> matcher;
  if (grammar) {
    HONE_ASSIGN(bridge::TokenMatcher compiled, CompileGrammar(engine, *grammar));
    matcher.emplace(std::move(compiled));
  }
  ChatPrompt prompt;
  if (args.raw) {
    conversation.messages.clear();
    HONE_ASSIGN(prompt.ids, EncodeRaw(args, engine.text()));
  } else {
    conversation.messages.push_back(Message("user", *args.prompt));
    HONE_ASSIGN(prompt, MakePrompt(args, chat::ChatModel(engine), conversation.messages));
  }
  runtime::GenerateOptions options;
  options.sampler = MakeSampler(args.sampling, engine.text());
  NoteGreedy(args.sampling, options.sampler);
  options.max_tokens = args.sampling.max_tokens.value_or(0);
  options.speculation = SpeculationFromWord(args.speculate);
  options.cancel = CancelFlag();
  if (matcher) {
    options.constraint = AnswerConstraint(*matcher, engine.text(), prompt.opens_thinking,
                                          !args.raw && args.think != "off");
  }
  AnswerReader reader(engine.text(), prompt.opens_thinking, {});
  options.on_text = [&](std::string_view text) {
    reader.Text(text);
    if (args.json) return;
    PrintText(text);
    std::fflush(stdout);  // at once, also into a pipe
  };
  options.on_token = [&](std::int32_t id) { reader.Token(id); };
  auto answer = runtime::Generate(engine, *conversation.sequence, prompt.ids, options);
  if (!answer.ok()) return std::move(answer).status();
  reader.Finish();
  if (args.json) {
    PrintJson(AnswerJson(engine, prompt.ids, *answer, options.sampler));
  } else {
    PrintText("\n");
  }
  if (answer->finish == runtime::FinishReason::kCancelled) {
    return Status(Code::kCancelled, "cancelled");
  }
  if (matcher && !matcher->MayEnd()) {
    PrintNote("the answer was cut before it was complete: it does not follow the grammar yet");
  }
  if (!args.raw) EndTurn(conversation.messages, answer, reader.Message());
  return SaveConversation(engine, conversation, args.save_state);
}

}  // namespace hone::cli
