// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_grammar.h"

#include <gtest/gtest.h>

#include "chat/grammar_text.h"
#include "chat/output_test_util.h"

namespace hone::chat {
namespace {

// What every schema says about white space would hide the rest.
std::string WithoutSpaceRules(std::string grammar) {
  const std::string rules = WithBoundedSpace(Json(Json::Object())).Dump();
  const std::string member = "," + rules.substr(1, rules.size() - 2);
  for (auto at = grammar.find(member); at != std::string::npos; at = grammar.find(member)) {
    grammar.erase(at, member.size());
  }
  return grammar;
}

std::string Grammar(std::string_view family, const ToolGrammarOptions& options) {
  const auto json = ParseJson(R"json([
    {"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}, "required": ["s"]}},
    {"name": "g"}])json");
  const auto grammar = BuildToolGrammar(*FindToolFamily(family), *ToolSet::Parse(*json), options);
  return grammar.ok() ? WithoutSpaceRules(*grammar) : StrCat("ERROR ", grammar.message());
}

ToolGrammarOptions Options(ToolChoice choice, bool parallel = true) {
  ToolGrammarOptions options;
  options.choice = choice;
  options.name = "f";
  options.parallel = parallel;
  return options;
}

TEST(ToolGrammar, LetsNoCallBeginWithNone) {
  EXPECT_EQ(Grammar("hermes", Options(ToolChoice::kNone)),
            "start: FREE\nFREE: /(?s:.*)/ & ~/(?s:.*)<tool_call>(?s:.*)/\n");
  EXPECT_EQ(Grammar("minicpm5", Options(ToolChoice::kNone)),
            "start: FREE\nFREE: /(?s:.*)/ & ~/(?s:.*)<function[ \\t\\r\\n](?s:.*)/\n");
  EXPECT_EQ(Grammar("mistral", Options(ToolChoice::kNone)),
            "start: FREE\nFREE: /(?s:.*)/ & ~/(?s:.*)\\[TOOL_CALLS\\](?s:.*)/\n");
}

TEST(ToolGrammar, LeavesThinkingFree) {
  ToolGrammarOptions options = Options(ToolChoice::kRequired);
  options.think_start = "<think>";
  options.think_end = "</think>";
  const std::string may = Grammar("granite", options);
  EXPECT_TRUE(may.starts_with("start: (\"<think>\" thinking)? (SPACE? calls)\n")) << may;
  EXPECT_NE(may.find("\nthinking[lazy]: /(?s:.*)<\\/think>/\n"), std::string::npos) << may;
  options.starts_in_thinking = true;
  EXPECT_TRUE(Grammar("granite", options).starts_with("start: thinking (SPACE? calls)\n"));
  options.special_id = [](std::string_view) { return 7; };
  const std::string special = Grammar("granite", options);
  EXPECT_NE(special.find("\nthinking: /(?s:.*)/ <[7]>\n"), std::string::npos) << special;
}

TEST(ToolGrammar, AllowsOneCallWithoutParallel) {
  EXPECT_NE(Grammar("hermes", Options(ToolChoice::kAuto, false)).find("told_calls: told call\n"),
            std::string::npos);
  EXPECT_NE(
      Grammar("granite", Options(ToolChoice::kRequired, false)).find("call: \"[\" one \"]\"\n"),
      std::string::npos);
  EXPECT_NE(Grammar("llama3_json", Options(ToolChoice::kRequired, false)).find("list: one\n"),
            std::string::npos);
  EXPECT_NE(
      Grammar("llama3_json", Options(ToolChoice::kRequired)).find("list: one (\"; \" one)*\n"),
      std::string::npos);
}

TEST(ToolGrammar, WritesOneForEveryFamilyAndChoice) {
  for (const ToolFamily& family : ToolFamilies()) {
    for (const ToolChoice choice :
         {ToolChoice::kNone, ToolChoice::kAuto, ToolChoice::kRequired, ToolChoice::kNamed}) {
      const std::string text = Grammar(family.name, Options(choice));
      EXPECT_TRUE(text.starts_with("start: ")) << family.name << text;
      EXPECT_EQ(text.find("calls: ") != std::string::npos, choice != ToolChoice::kNone) << text;
    }
  }
}

TEST(ToolGrammar, RefusesChoicesThatCannotBe) {
  const ToolFamily& hermes = *FindToolFamily("hermes");
  ToolGrammarOptions options;
  options.choice = ToolChoice::kNamed;
  options.name = "nope";
  auto grammar = BuildToolGrammar(hermes, TestTools(), options);
  ASSERT_FALSE(grammar.ok());
  EXPECT_EQ(grammar.code(), Code::kInvalidArgument);
  EXPECT_EQ(grammar.message(), "tool_choice: no tool is named \"nope\"");
  options.choice = ToolChoice::kRequired;
  grammar = BuildToolGrammar(hermes, ToolSet(), options);
  ASSERT_FALSE(grammar.ok());
  EXPECT_EQ(grammar.message(), "tool_choice: a call is required, but there are no tools");
}

TEST(ToolGrammar, WritesJsonCallsBetweenFreeText) {
  EXPECT_EQ(Grammar("hermes", Options(ToolChoice::kAuto)),
            R"lark(start: (told_calls? FREE)
t0: "{\"name\": \"f\", \"arguments\": " %json {"properties":{"s":{"type":"string"},"n":{"type":"integer"}},"required":["s"]} "}"
t1: "{\"name\": \"g\", \"arguments\": " %json {"type":"object"} "}"
one: t0 | t1
call: "\n"? one "\n"? "</tool_call>"
calls: "<tool_call>" call ("\n"? "<tool_call>" call)*
FREE: /(?s:.*)/ & ~/(?s:.*)<tool_call>(?s:.*)/
told[lazy]: /(?s:.*)<tool_call>/
told_calls: (told call)+
)lark");
}

TEST(ToolGrammar, LeavesWhiteSpaceAsTheSchemaWantsIt) {
  const auto schema = [](const char* text) { return WithBoundedSpace(*ParseJson(text)).Dump(); };
  EXPECT_EQ(schema(R"({"x-guidance":{"whitespace_flexible":false}})"),
            R"({"x-guidance":{"whitespace_flexible":false}})");
  EXPECT_EQ(schema(R"({"x-guidance":{"whitespace_pattern":" "}})"),
            R"({"x-guidance":{"whitespace_pattern":" "}})");
  EXPECT_EQ(schema(R"({"x-guidance":3})"), R"({"x-guidance":3})");
  EXPECT_EQ(schema("true"), "true");
  EXPECT_EQ(
      schema(R"({"x-guidance":{"item_separator":","}})"),
      R"json({"x-guidance":{"item_separator":",","whitespace_pattern":"( {1,2}|\\t|\\r?\\n[ \\t]{0,40})"}})json");
}

TEST(ToolGrammar, WritesXmlWithTheTypesOfTheSchema) {
  EXPECT_EQ(Grammar("minicpm5", Options(ToolChoice::kNamed, false)),
            R"lark(start: (SPACE? calls)
xml_text: XML_PLAIN? | xml_cdata
XML_PLAIN: /[^<&\n]+/
xml_cdata[lazy]: /<!\[CDATA\[(?s:.*)\]\]>/
t0_p0: "<param name=\"s\">" xml_text "</param>"
t0_p1: "<param name=\"n\">" %json {"type":"integer"} "</param>"
t0_args: t0_p0 t0_p1?
t0: "f\">" t0_args "</function>"
one: t0
call: one
calls: "<function name=\"" call
SPACE: /[ \t\r\n]{1,16}/
)lark");
}

TEST(ToolGrammar, WritesPythonCalls) {
  EXPECT_EQ(Grammar("pythonic", Options(ToolChoice::kAuto)),
            R"lark(start: (first_calls | PLAIN)
PY_STRING: /"([^"\\\x00-\x1f]|\\(["\\nrtbf]|u[0-9a-fA-F]{4}))*"/
t0_p0: "s=" (PY_STRING)
PY_INTEGER: /-?(0|[1-9][0-9]*)/
t0_p1: "n=" (PY_INTEGER)
t0_r1: (", " t0_p1)?
t0_args: t0_p0 t0_r1
t0: "f(" t0_args ")"
t1_args: ""
t1: "g(" t1_args ")"
one: t0 | t1
list: "[" one (", " one)* "]"
calls: list | "<|python_start|>" list "<|python_end|>"
SPACE: /[ \t\r\n]{1,16}/
OPEN: /[ \t\r\n]*<\|python_start\|>/
first_calls: SPACE? list | OPEN list "<|python_end|>"
FREE: /(?s:.*)/ & ~/(?s:.*)<\|python_start\|>(?s:.*)/
PLAIN: /[ \t\r\n]*([^\[ \t\r\n](?s:.*))?/ & FREE
)lark");
}

TEST(ToolGrammar, NamesSpecialTokensByTheirIds) {
  ToolGrammarOptions options = Options(ToolChoice::kAuto);
  options.special_id = [](std::string_view marker) -> std::optional<std::int32_t> {
    if (marker == "[TOOL_CALLS]") return 9;
    if (marker == "[ARGS]") return 32;
    return std::nullopt;
  };
  EXPECT_EQ(Grammar("mistral_args", options),
            R"lark(start: (told_calls? FREE)
t0: "f" <[32]> %json {"properties":{"s":{"type":"string"},"n":{"type":"integer"}},"required":["s"]}
t1: "g" <[32]> %json {"type":"object"}
one: t0 | t1
call: one
calls: <[9]> call ("\n"? <[9]> call)*
FREE: /(?s:.*)/
told: /(?s:.*)/ <[9]>
told_calls: (told call)+
)lark");
}

TEST(ToolGrammar, TakesChoicesAndDefinitionsFromTheSchema) {
  const auto json = ParseJson(R"json([{"name": "f", "parameters": {
      "properties": {"e": {"enum": ["a", "<&"]}, "m": {"$ref": "#/$defs/m"}, "c": {"const": "x/y"}, "l": {"type": "array"}},
      "$defs": {"m": {"type": "object"}}}}])json");
  const ToolSet tools = *ToolSet::Parse(*json);
  const auto grammar = [&](std::string_view family) {
    return WithoutSpaceRules(
        *BuildToolGrammar(*FindToolFamily(family), tools, Options(ToolChoice::kRequired)));
  };
  const std::string xml = grammar("minicpm5");
  EXPECT_NE(xml.find(R"lark(t0_p0: "<param name=\"e\">" ("a" | "<![CDATA[<&]]>") "</param>")lark"),
            std::string::npos)
      << xml;
  EXPECT_NE(
      xml.find(
          R"lark("<![CDATA[" %json {"$ref":"#/$defs/m","$defs":{"m":{"type":"object"}}} "]]>")lark"),
      std::string::npos)
      << xml;
  EXPECT_NE(xml.find("t0_args: t0_p0? t0_p1? t0_p2? t0_p3?\n"), std::string::npos) << xml;
  const std::string coder = grammar("qwen3_coder");
  EXPECT_NE(coder.find(R"lark(t0_p2: "<parameter=c>\n" ("x/y") "\n</parameter>\n")lark"),
            std::string::npos)
      << coder;
  const std::string python = grammar("lfm2");
  EXPECT_NE(python.find(R"lark(t0_p0: "e=" ("\"a\"" | "\"<&\""))lark"), std::string::npos)
      << python;
  EXPECT_NE(python.find("t0_args: t0_p0 t0_r1 | t0_p1 t0_r2 | t0_p2 t0_r3 | t0_p3 | \"\"\n"),
            std::string::npos)
      << python;
}

}  // namespace
}  // namespace hone::chat
