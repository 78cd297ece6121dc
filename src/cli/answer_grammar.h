// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Options that say what an answer must look like.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "bridge/grammar.h"
#include "runtime/token_chooser.h"

namespace hone::cli {

struct GrammarArgs {
  std::optional<std::string> json_schema;  // a file, or JSON that begins with a brace
  std::optional<std::string> regex;
  std::optional<std::string> grammar;  // a file with a Lark grammar

  bool any() const { return json_schema || regex || grammar; }
};

// The grammar that the options name, checked without a model; nothing if they name none.
// kInvalidArgument with the option for more than one and for a grammar that cannot be used.
Result<std::optional<bridge::Grammar>> ReadGrammar(const GrammarArgs& args);

// Compiles it for the engine's tokens and prints its warnings.
Result<bridge::TokenMatcher> CompileGrammar(const runtime::Engine& engine,
                                            const bridge::Grammar& grammar);

// The constraint on an answer: thinking comes first, freely, if the prompt opened it or the model
// may open it. begins_thinking: the prompt ends with the marker that opens it.
runtime::Constraint AnswerConstraint(bridge::TokenMatcher& matcher, const runtime::TextSetup& text,
                                     bool begins_thinking, bool may_think);

}  // namespace hone::cli
