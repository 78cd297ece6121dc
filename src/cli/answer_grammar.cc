// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/answer_grammar.h"

#include <utility>

#include "base/file.h"
#include "cli/cli.h"

namespace hone::cli {
namespace {

// More than a grammar may have, so that one that is too large is refused as such.
constexpr std::uint64_t kMaxFileBytes = 16 << 20;

bool IsJson(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{';
}

Result<bridge::Grammar> ReadOne(const char* option, bridge::GrammarKind kind,
                                const std::string& word, bool is_file) {
  bridge::Grammar grammar;
  grammar.kind = kind;
  if (is_file) {
    auto text = ReadFile(word, kMaxFileBytes);
    if (!text.ok()) return std::move(text).status().Context(option);
    grammar.text = *std::move(text);
  } else {
    grammar.text = word;
  }
  HONE_TRY(bridge::CheckGrammar(grammar).Context(option));
  return grammar;
}

}  // namespace

Result<std::optional<bridge::Grammar>> ReadGrammar(const GrammarArgs& args) {
  std::optional<bridge::Grammar> grammar;
  const int count = (args.json_schema ? 1 : 0) + (args.regex ? 1 : 0) + (args.grammar ? 1 : 0);
  if (count > 1) {
    return Status(Code::kInvalidArgument,
                  "--json-schema, --regex and --grammar: an answer follows only one of them");
  }
  if (args.json_schema) {
    HONE_ASSIGN(grammar, ReadOne("--json-schema", bridge::GrammarKind::kJsonSchema,
                                 *args.json_schema, !IsJson(*args.json_schema)));
  } else if (args.regex) {
    HONE_ASSIGN(grammar,
                ReadOne("--regex", bridge::GrammarKind::kRegex, *args.regex, /*is_file=*/false));
  } else if (args.grammar) {
    HONE_ASSIGN(grammar,
                ReadOne("--grammar", bridge::GrammarKind::kLark, *args.grammar, /*is_file=*/true));
  }
  return grammar;
}

Result<bridge::TokenMatcher> CompileGrammar(const runtime::Engine& engine,
                                            const bridge::Grammar& grammar) {
  HONE_ASSIGN(const bridge::Vocabulary vocabulary, runtime::MakeVocabulary(engine));
  HONE_ASSIGN(bridge::TokenMatcher matcher, bridge::TokenMatcher::Compile(vocabulary, grammar));
  for (const std::string& warning : matcher.Warnings()) PrintWarning(warning);
  return matcher;
}

runtime::Constraint AnswerConstraint(bridge::TokenMatcher& matcher, const runtime::TextSetup& text,
                                     bool begins_thinking, bool may_think) {
  runtime::Constraint constraint;
  constraint.matcher = &matcher;
  if (text.think_start.empty() || text.think_end.empty()) return constraint;
  if (begins_thinking) {
    constraint.free_until_text = text.think_end;
  } else if (may_think && text.tokenizer) {
    constraint.free_from_id = text.tokenizer->TokenId(text.think_start);
    if (constraint.free_from_id) constraint.free_until_text = text.think_end;
  }
  return constraint;
}

}  // namespace hone::cli
