// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Options of hone run.
#pragma once

#include <optional>
#include <string>

#include "cli/answer_grammar.h"
#include "cli/chat_prompt.h"
#include "cli/conversation.h"
#include "cli/model_options.h"
#include "cli/sampling_options.h"
#include "runtime/draft.h"
#include "runtime/engine.h"

namespace hone::cli {

struct RunArgs {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<std::string> system;
  std::string think = "auto", kv, compute, speculate = "auto", on_full = "error";
  bool raw = false, json = false, hide_thinking = false;
  int threads = 0;
  SamplingArgs sampling;
  std::string save_state, load_state;
  GrammarArgs grammar;
};

inline runtime::Speculation SpeculationFromWord(const std::string& word) {
  if (word == "on") return runtime::Speculation::kOn;
  return word == "off" ? runtime::Speculation::kOff : runtime::Speculation::kAuto;
}
inline chat::OnFull OnFullFromWord(const std::string& word) {
  return word == "trim" ? chat::OnFull::kTrim : chat::OnFull::kError;
}
// NoteUnusedThink, but for what the prompt can do without the template: it closes the thinking.
inline void NoteThink(const runtime::TextSetup& text, const std::string& word, bool raw) {
  if (raw || word != "off" || text.think_start.empty()) NoteUnusedThink(text, word, raw);
}
// What an answer wants of the context when older turns may leave for it: a quarter, or less if it
// will be shorter. Turns then leave several at once, since the rest has to be computed again.
inline std::int64_t AnswerReserve(std::int64_t context,
                                  const std::optional<std::int64_t>& max_tokens) {
  const std::int64_t quarter = context / 4 > 1 ? context / 4 : 1;
  return max_tokens && *max_tokens < quarter ? *max_tokens : quarter;
}

// One answer to --prompt.
Status AnswerOnce(const RunArgs& args, const std::optional<bridge::Grammar>& grammar,
                  runtime::Engine& engine, Conversation conversation);

}  // namespace hone::cli
