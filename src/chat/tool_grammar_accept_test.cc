// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the tool grammars admit and refuse, token by token, with a real byte-level tokenizer: once
// with the markers as ordinary text, once as special tokens.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "base/file.h"
#include "bridge/grammar.h"
#include "bridge/tokenizer.h"
#include "chat/output_test_util.h"
#include "chat/tool_grammar.h"

namespace hone::chat {
namespace {

constexpr std::int32_t kFirstMarkerId = 645;  // the tokenizer has 645 pieces
constexpr std::int64_t kLogits = 704;
constexpr std::int32_t kEnd = 3;

const ToolSet& Tools() {
  static const ToolSet tools = [] {
    const auto json = ParseJson(R"json([
      {"name": "get_weather", "parameters": {"type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}},
      {"name": "now"}])json");
    return *ToolSet::Parse(*json);
  }();
  return tools;
}

// A tokenizer with a vocabulary, and the markers that are special tokens in it.
struct Text {
  bridge::Tokenizer tokenizer;
  bridge::Vocabulary vocabulary;
  std::map<std::string, std::int32_t, std::less<>> special;
};

// What may be a special token in a family's tokenizer, but the marks of the thinking.
std::vector<std::string> Markers(const ToolFamily& family) {
  std::vector<std::string> markers = {std::string(family.open)};
  if (!family.close.empty()) markers.emplace_back(family.close);
  if (family.shape == CallShape::kNamedJson) markers.emplace_back("[ARGS]");
  if (family.shape == CallShape::kParamXml) {
    markers.emplace_back("<param");
    markers.emplace_back("</param>");
  }
  return markers;
}

Json::Array& Member(Json& object, std::string_view key) {
  for (Json::Member& member : object.AsObject()) {
    if (member.first == key) return member.second.AsArray();
  }
  ADD_FAILURE() << "no member " << key;
  std::abort();
}

// Without a family no marker is special.
Text MakeText(const ToolFamily* family) {
  auto file = ReadFile(HONE_SHARED_DATA "/golden/families/llama-gqa8/hf/tokenizer.json");
  EXPECT_TRUE(file.ok()) << file.message();
  Json json = *ParseJson(*file);
  Text text;
  if (family != nullptr) {
    Json::Array& added = Member(json, "added_tokens");
    for (Json& token : added) {
      const std::string& content = token.Find("content")->AsString();
      if (content != "<think>" && content != "</think>") continue;
      token.Set("special", true);
      text.special[content] = static_cast<std::int32_t>(token.Find("id")->AsInt());
    }
    std::int32_t id = kFirstMarkerId;
    for (const std::string& marker : Markers(*family)) {
      added.emplace_back(Json::Object{{"id", id},
                                      {"content", marker},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false},
                                      {"special", true}});
      text.special[marker] = id++;
    }
    EXPECT_LE(id, kLogits);
  }
  auto tokenizer = bridge::Tokenizer::FromJson(json.Dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.message();
  text.tokenizer = *std::move(tokenizer);
  const std::int32_t stop[] = {kEnd};
  auto vocabulary = bridge::Vocabulary::Make(text.tokenizer, kLogits, stop, {});
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.message();
  text.vocabulary = *std::move(vocabulary);
  return text;
}

struct Call {
  std::string name;
  // JSON of values, in this order.
  std::vector<std::pair<std::string, std::string>> arguments;
};

std::string Written(const ToolFamily& family, const Call& call) {
  std::string json;
  std::string python;
  std::string xml;
  std::string function_xml;
  for (const auto& [name, value] : call.arguments) {
    const std::string plain = *value.begin() == '"' ? value.substr(1, value.size() - 2) : value;
    json += StrCat(json.empty() ? "" : ", ", "\"", name, "\": ", value);
    python += StrCat(python.empty() ? "" : ", ", name, "=", value);
    xml += StrCat("<param name=\"", name, "\">", plain, "</param>");
    function_xml += StrCat("<parameter=", name, ">\n", plain, "\n</parameter>\n");
  }
  switch (family.shape) {
    case CallShape::kParamXml:
      return StrCat("<function name=\"", call.name, "\">", xml, "</function>");
    case CallShape::kFunctionXml:
      return StrCat(family.open, "\n<function=", call.name, ">\n", function_xml, "</function>\n",
                    family.close);
    case CallShape::kPython:
      return StrCat(call.name, "(", python, ")");
    case CallShape::kNamedJson:
      if (!family.list) return StrCat(family.open, call.name, "[ARGS]{", json, "}");
      [[fallthrough]];
    default:
      return StrCat("{\"name\": \"", call.name, "\", \"", family.arguments_key, "\": {", json,
                    "}}");
  }
}

// The calls of an answer, as the family's models write them. Bare ones without a marker.
std::string Answer(const ToolFamily& family, const std::vector<Call>& calls, bool bare = false) {
  std::vector<std::string> written;
  for (const Call& call : calls) written.push_back(Written(family, call));
  if (family.shape == CallShape::kParamXml || family.shape == CallShape::kFunctionXml ||
      (family.shape == CallShape::kNamedJson && !family.list)) {
    return Join(written, "\n");
  }
  if (family.shape == CallShape::kJson && !family.list && !family.bare) {
    for (std::string& one : written) one = StrCat(family.open, "\n", one, "\n", family.close);
    return Join(written, "\n");
  }
  const std::string list =
      family.list ? StrCat("[", Join(written, ", "), "]") : Join(written, "; ");
  return bare ? list : StrCat(family.open, list, family.close);
}

const Call kParis = {"get_weather", {{"city", "\"Paris\""}}};
const Call kParisTwoDays = {"get_weather", {{"city", "\"Paris\""}, {"days", "2"}}};
const Call kNow = {"now", {}};

struct Case {
  std::string family;
  bool special;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.family << (one.special ? ", special tokens" : ", text");
}

class ToolGrammarAccepts : public ::testing::TestWithParam<Case> {
 protected:
  const ToolFamily& family() const { return *FindToolFamily(GetParam().family); }
  const Text& text() const {
    static std::map<std::string, Text, std::less<>> texts;
    const std::string key = GetParam().special ? GetParam().family : "";
    const auto found = texts.find(key);
    if (found != texts.end()) return found->second;
    return texts.emplace(key, MakeText(FindToolFamily(key))).first->second;
  }
  ToolGrammarOptions Options(ToolChoice choice, bool parallel = true) const {
    ToolGrammarOptions options;
    options.choice = choice;
    options.name = "get_weather";
    options.parallel = parallel;
    options.special_id = [this](std::string_view marker) -> std::optional<std::int32_t> {
      const auto found = text().special.find(marker);
      if (found == text().special.end()) return std::nullopt;
      return found->second;
    };
    return options;
  }

  // "" if the grammar admits the whole answer; else where it stops: what came before "|".
  std::string Refusal(const ToolGrammarOptions& options, std::string_view answer) const {
    const auto grammar = BuildToolGrammar(family(), Tools(), options);
    EXPECT_TRUE(grammar.ok()) << grammar.message();
    if (!grammar.ok()) return "no grammar";
    auto matcher =
        bridge::TokenMatcher::Compile(text().vocabulary, {bridge::GrammarKind::kLark, *grammar});
    EXPECT_TRUE(matcher.ok()) << matcher.message() << "\n" << *grammar;
    const auto ids = text().tokenizer.Encode(answer);
    EXPECT_TRUE(ids.ok()) << ids.message();
    if (!matcher.ok() || !ids.ok()) return "no matcher";
    for (std::size_t i = 0; i < ids->size(); ++i) {
      const Status status = matcher->Accept((*ids)[i]);
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message() << "\n" << *grammar;
      const auto before = text().tokenizer.Decode(std::span(*ids).first(i), false);
      return StrCat(*before, "|");
    }
    return matcher->MayEnd() ? "" : StrCat(answer, "| may not end");
  }
  void Admits(const ToolGrammarOptions& options, std::string_view answer) const {
    EXPECT_EQ(Refusal(options, answer), "") << answer;
  }
  void Refuses(const ToolGrammarOptions& options, std::string_view answer) const {
    EXPECT_NE(Refusal(options, answer), "") << answer;
  }
};

TEST_P(ToolGrammarAccepts, CallsInEveryChoiceButNone) {
  const std::string paris = Answer(family(), {kParis});
  const std::string two_days = Answer(family(), {kParisTwoDays});
  const std::string now = Answer(family(), {kNow});
  const std::string both = Answer(family(), {kParisTwoDays, kNow});
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired}) {
    for (const std::string& answer : {paris, two_days, now, both}) {
      Admits(Options(choice), answer);
      Refuses(Options(choice), answer.substr(0, answer.size() - 1));
    }
    if (family().bare) Admits(Options(choice), Answer(family(), {kParis, kNow}, /*bare=*/true));
  }
  Admits(Options(ToolChoice::kNamed), paris);
  Admits(Options(ToolChoice::kNamed), two_days);
  Refuses(Options(ToolChoice::kNamed), now);
  for (const std::string& answer : {paris, now, both}) Refuses(Options(ToolChoice::kNone), answer);
}

// Weak models else write white space for ever where they must write a call.
TEST_P(ToolGrammarAccepts, LittleWhiteSpace) {
  std::string answer = Answer(family(), {kParisTwoDays});
  const auto required = Options(ToolChoice::kRequired);
  Admits(required, StrCat("\n\n", answer));
  Refuses(required, StrCat(std::string(30, '\n'), answer));
  if (family().shape != CallShape::kJson && family().shape != CallShape::kNamedJson) return;
  const std::string between = "\"Paris\", ";
  const auto at = answer.find(between);
  ASSERT_NE(at, std::string::npos) << answer;
  for (const char* space : {"", " ", "\n    ", "\t"}) {
    std::string spaced = answer;
    Admits(required, spaced.replace(at + between.size() - 1, 1, space));
  }
  for (const char* space : {"   ", "\n\n", "\t\t"}) {
    std::string spaced = answer;
    Refuses(required, spaced.replace(at + between.size() - 1, 1, space));
  }
}

TEST_P(ToolGrammarAccepts, OneCallWithoutParallel) {
  const std::string paris = Answer(family(), {kParis});
  const std::string both = Answer(family(), {kParis, kNow});
  const std::string twice = Answer(family(), {kParis, kParisTwoDays});
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired, ToolChoice::kNamed}) {
    Admits(Options(choice, false), paris);
    Refuses(Options(choice, false), both);
    Refuses(Options(choice, false), twice);
    Admits(Options(choice, true), twice);
  }
}

TEST_P(ToolGrammarAccepts, NoCallThatTheToolDoesNotTake) {
  const std::vector<Call> wrong = {
      {"get_wether", {{"city", "\"Paris\""}}},                  // no tool
      {"get_weather", {}},                                      // a required argument is missing
      {"get_weather", {{"days", "2"}}},                         //
      {"get_weather", {{"city", "\"Paris\""}, {"days", "x"}}},  // no integer
      {"get_weather", {{"city", "\"Paris\""}, {"days", "2.5"}}},
      {"get_weather", {{"city", "\"Paris\""}, {"city", "\"Rome\""}}},  // twice
  };
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired, ToolChoice::kNamed}) {
    for (const Call& call : wrong) {
      Refuses(Options(choice), Answer(family(), {call}));
      Refuses(Options(choice), Answer(family(), {kParis, call}));
      if (family().bare) Refuses(Options(choice), Answer(family(), {call}, /*bare=*/true));
    }
  }
}

TEST_P(ToolGrammarAccepts, TextOnlyWhereNoCallIsRequired) {
  const std::string paris = Answer(family(), {kParis});
  for (const std::string_view words : {"It is sunny.", "a < b, \"c\" & [1]\n\nна улице ☀"}) {
    Admits(Options(ToolChoice::kNone), words);
    Admits(Options(ToolChoice::kAuto), words);
    for (const ToolChoice choice : {ToolChoice::kRequired, ToolChoice::kNamed}) {
      Refuses(Options(choice), words);
      Refuses(Options(choice), StrCat(words, " ", paris));
      Refuses(Options(choice), StrCat(paris, words));
    }
    Refuses(Options(ToolChoice::kNone), StrCat(words, " ", paris));
    // Families with bare calls: either calls, or text.
    if (!family().bare) Admits(Options(ToolChoice::kAuto), StrCat(words, " ", paris));
  }
  // White space is no text.
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired}) {
    Admits(Options(choice), StrCat("\n\n", paris));
    if (family().bare) Admits(Options(choice), StrCat("\n ", Answer(family(), {kParis}, true)));
  }
}

TEST_P(ToolGrammarAccepts, ThinkingInFrontOfEverything) {
  const std::string paris = Answer(family(), {kParis});
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired, ToolChoice::kNamed}) {
    ToolGrammarOptions options = Options(choice);
    options.think_start = "<think>";
    options.think_end = "</think>";
    Admits(options, paris);
    Admits(options, StrCat("<think>Where? {[", "</think>", paris));
    Admits(options, StrCat("<think>\nHm.\n</think>\n\n", paris));
    // With a call left to the model a mark that is text may be text of the answer, too.
    if (choice != ToolChoice::kAuto || GetParam().special) Refuses(options, "<think>Where?");
    options.starts_in_thinking = true;
    Admits(options, StrCat("Where? {[</think>", paris));
    Refuses(options, "Where?");
    if (choice == ToolChoice::kAuto) {
      Admits(options, "Hm.</think>\n\nSunny.");
    } else {
      Refuses(options, "Hm.</think>\n\nSunny.");
    }
  }
}

// The parser of the answers reads what the grammar admits.
TEST_P(ToolGrammarAccepts, WhatTheParserReads) {
  OutputOptions output;
  output.family = &family();
  for (const auto& calls : {std::vector<Call>{kParis}, {kNow}, {kParisTwoDays, kNow}}) {
    const std::string answer = Answer(family(), calls);
    Admits(Options(ToolChoice::kRequired), answer);
    OutputParser parser(output, Tools());
    std::vector<Event> events = parser.Push(answer);
    for (Event& event : parser.Finish()) events.push_back(std::move(event));
    std::vector<std::string> names;
    for (const Event& event : events) {
      EXPECT_NE(event.kind, EventKind::kMalformed) << answer;
      if (event.kind == EventKind::kCallBegin) names.push_back(event.text);
    }
    ASSERT_EQ(names.size(), calls.size()) << answer;
    for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(names[i], calls[i].name);
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const ToolFamily& family : ToolFamilies()) {
    cases.push_back({std::string(family.name), false});
    cases.push_back({std::string(family.name), true});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Families, ToolGrammarAccepts, ::testing::ValuesIn(Cases()),
                         [](const auto& one) {
                           return one.param.family + (one.param.special ? "_special" : "_text");
                         });

}  // namespace
}  // namespace hone::chat
