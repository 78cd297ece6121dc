// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What each family's calls become. All through OutputParser, which adds the rules for white space.
#include "chat/tool_call_parser.h"

#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "chat/json_scanner.h"
#include "chat/output_test_util.h"

namespace hone::chat {
namespace {

constexpr std::string_view kTokyo = "call 0: get_weather\nend 0: {\"city\":\"Tokyo\"}\n";

// The reason of the first kMalformed event.
std::string Reason(std::string_view family, std::string_view text) {
  for (const Event& event : ParsePieces({std::string(family), std::string(text)}, {text})) {
    if (event.kind == EventKind::kMalformed) return event.text;
  }
  return "none";
}

TEST(MiniCpm5Calls, AreRead) {
  const auto parse = [](std::string_view text) { return Parse("minicpm5", text); };
  EXPECT_EQ(parse(R"(<function name="get_weather"><param name="city">Tokyo</param></function>)"),
            kTokyo);
  EXPECT_EQ(parse("<function name='get_weather'> \n<param name='city'>Tokyo</param>\n</function>"),
            kTokyo);
  EXPECT_EQ(parse(R"(<function name="get_weather"><param name="city">A</param></function>)"
                  "\n"
                  R"(<function name="now"></function>)"),
            "call 0: get_weather\nend 0: {\"city\":\"A\"}\ncall 1: now\nend 1: {}\n");
  EXPECT_EQ(parse(R"(Let me look.
<function name="get_weather"><param name="city">Tokyo</param></function>)"),
            StrCat("content: Let me look.\n", kTokyo));
  EXPECT_EQ(parse("<function name=\"run\"><param name=\"code\"><![CDATA[if (a<b) {\n x&&y "
                  "}]]></param></function>"),
            "call 0: run\nend 0: {\"code\":\"if (a<b) {\\n x&&y }\"}\n");
  EXPECT_EQ(parse(R"(<function name="run"><param name="code">R&amp;D</param></function>)"),
            "call 0: run\nend 0: {\"code\":\"R&D\"}\n");
  EXPECT_EQ(parse(R"(<function name="now"/>)"), "call 0: now\nend 0: {}\n");
  EXPECT_EQ(parse(R"(<function name="run"><param name="code"/></function>)"),
            "call 0: run\nend 0: {\"code\":\"\"}\n");
}

TEST(MiniCpm5Calls, HoldTagsInsideCdata) {
  EXPECT_EQ(
      Parse("minicpm5",
            "<function name=\"run\"><param name=\"code\"><![CDATA[</param></function><function "
            "name=\"now\"></function>]]></param></function>"),
      "call 0: run\nend 0: {\"code\":\"</param></function><function "
      "name=\\\"now\\\"></function>\"}\n");
  // What the template writes for a value that holds the end of CDATA.
  EXPECT_EQ(
      Parse("minicpm5",
            "<function name=\"run\"><param name=\"code\"><![CDATA[a[b[0]]>c]]></param></function>"),
      "call 0: run\nend 0: {\"code\":\"a[b[0]]>c\"}\n");
}

TEST(MiniCpm5Calls, AreTypedByTheSchema) {
  const auto parse = [](std::string_view params) {
    return Parse("minicpm5", StrCat("<function name=\"run\">", params, "</function>"));
  };
  EXPECT_EQ(
      Parse(
          "minicpm5",
          R"(<function name="get_weather"><param name="city">007</param><param name="days">3</param><param name="metric">true</param></function>)"),
      "call 0: get_weather\nend 0: {\"city\":\"007\",\"days\":3,\"metric\":true}\n");
  // As the template prints Python values.
  EXPECT_EQ(
      parse(
          R"(<param name="x">1.5</param><param name="list">[1, 'a']</param><param name="map">{'k': True}</param><param name="none">None</param>)"),
      "call 0: run\nend 0: {\"x\":1.5,\"list\":[1,\"a\"],\"map\":{\"k\":true},\"none\":null}\n");
  EXPECT_EQ(
      parse(
          R"(<param name="maybe">null</param><param name="free">3</param><param name="unit">7</param>)"),
      "call 0: run\nend 0: {\"maybe\":null,\"free\":3,\"unit\":\"7\"}\n");
  EXPECT_EQ(parse(R"(<param name="map"><![CDATA[{"a": "<&"}]]></param>)"),
            "call 0: run\nend 0: {\"map\":{\"a\": \"<&\"}}\n");
}

TEST(MiniCpm5Calls, ThatAreWrongStayText) {
  const std::string texts[] = {
      R"(<function name="nope"><param name="a">1</param></function>)",
      R"(<function name="get_weather"><param name="city">A</param><param name="city">B</param></function>)",
      R"(<function name="get_weather"><param name="city">A</param><param name="town">B</param></function>)",
      R"(<function name="get_weather"><param name="days">3</param></function>)",
      R"(<function name="get_weather"><param name="city">A</param><param name="days">soon</param></function>)",
      R"(<function name="get_weather"><param name="city">A</param>)",
      R"(<function name="get_weather"><param name="city">A)",
      R"(<function name="get_wea)",
      R"(<function name="get_weather">city=A</function>)",
      R"(<function id="get_weather"></function>)",
      R"(<function name="get_weather"><param name="city">A</function>)",
      R"(<function name="get_weather"<param name="city">A</param></function>)",
  };
  for (const std::string& text : texts) {
    EXPECT_EQ(Parse("minicpm5", text), StrCat("malformed -1\ncontent!: ", text, "\n"));
  }
  EXPECT_EQ(Reason("minicpm5", texts[0]), "no tool is named \"nope\"");
  EXPECT_EQ(Reason("minicpm5", texts[1]), "the parameter \"city\" comes twice");
  EXPECT_EQ(Reason("minicpm5", texts[2]), "the tool has no parameter \"town\"");
  EXPECT_EQ(Reason("minicpm5", texts[3]), "the parameter \"city\" is missing");
  EXPECT_EQ(Reason("minicpm5", texts[4]),
            "the parameter \"days\": found \"soon\", expected integer");
  EXPECT_EQ(Reason("minicpm5", texts[5]), "the text ends inside the call");
}

TEST(MiniCpm5Calls, AfterAWrongOneAreRead) {
  EXPECT_EQ(
      Parse("minicpm5", R"(<function name="nope"></function> <function name="now"></function>)"),
      "malformed -1\ncontent!: <function name=\"nope\"></function>\ncall 0: now\nend 0: {}\n");
  EXPECT_EQ(
      Parse(
          "minicpm5",
          R"(<function name="run">?<function name="now"></function><function name="now"></function>ok)"),
      "malformed -1\ncontent!: <function name=\"run\">?<function name=\"now\"></function>\n"
      "call 0: now\nend 0: {}\ncontent: ok\n");
}

TEST(MiniCpm5Calls, InProseAndCodeAreText) {
  for (const std::string text :
       {"Use <functional> and <function>.", "```xml\n<function name=\"now\"></function>\n```\ndone",
        "  ~~~\n<function name=\"now\"></function>", "a < b, <func", "<"}) {
    EXPECT_EQ(Parse("minicpm5", text), StrCat("content: ", text, "\n"));
  }
  EXPECT_EQ(Parse("minicpm5", "```\ncode\n```\n<function name=\"now\"></function>"),
            "content: ```\ncode\n```\ncall 0: now\nend 0: {}\n");
  EXPECT_EQ(Parse("minicpm5", "`x` ```y``` <function name=\"now\"></function>"),
            "content: `x` ```y```\ncall 0: now\nend 0: {}\n");
  EXPECT_EQ(
      Parse("minicpm5",
            "````\n```\n<function name=\"now\"></function>\n````\n<function "
            "name=\"now\"></function>"),
      "content: ````\n```\n<function name=\"now\"></function>\n````\ncall 0: now\nend 0: {}\n");
}

// The golden renders are what jinja2 makes of the real template.
TEST(MiniCpm5Calls, OfTheRealTemplateComeBack) {
  const auto text = ReadFile(HONE_TESTDATA "/templates/minicpm5.json");
  ASSERT_TRUE(text.ok()) << text.message();
  const auto golden = ParseJson(*text);
  ASSERT_TRUE(golden.ok()) << golden.message();
  const auto tools = ParseJson(R"json([
    {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}},
    {"name": "f", "parameters": {"properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "n": {"type": "null"},
      "x": {"type": "number"}, "l": {"type": "array"}, "d": {"type": "object"}}}},
    {"name": "g", "parameters": {"properties": {"x": {"type": "string"}}}}, {"name": "h"}])json");
  int seen = 0;
  for (const Json& entry : golden->Find("cases")->AsArray()) {
    const Json* uses = entry.Find("uses");
    if (uses == nullptr || !uses->AsString().starts_with("calls") ||
        entry.Find("expect") == nullptr)
      continue;
    const std::string& render = entry.Find("expect")->AsString();
    const std::string_view begin = "<|im_start|>assistant\n";
    const std::size_t at = render.find(begin) + begin.size();
    OutputOptions options{"<think>", "</think>", false, FindToolFamily("minicpm5"), {}};
    OutputParser parser(options, *ToolSet::Parse(*tools));
    auto events =
        parser.Push(std::string_view(render).substr(at, render.find("<|im_end|>", at) - at));
    for (Event& event : parser.Finish()) events.push_back(std::move(event));
    const Json::Array& messages =
        golden->Find("contexts")->Find(uses->AsString())->Find("messages")->AsArray();
    std::string expect;
    for (const Json& call : messages[1].Find("tool_calls")->AsArray()) {
      const Json* function = call.Find("function");
      if (function == nullptr) function = &call;
      const Json* arguments = function->FindNonNull("arguments");
      expect += StrCat(function->Find("name")->AsString(), " ",
                       arguments == nullptr ? "{}" : arguments->Dump(), "\n");
    }
    std::string found;
    for (const Event& event : events) {
      if (event.kind == EventKind::kCallBegin) found += event.text + " ";
      if (event.kind == EventKind::kCallEnd) found += event.text + "\n";
      EXPECT_NE(event.kind, EventKind::kMalformed) << event.text;
    }
    EXPECT_EQ(found, expect) << render;
    ++seen;
  }
  EXPECT_GT(seen, 10);
}

TEST(HermesCalls, AreRead) {
  const auto parse = [](std::string_view text) { return Parse("hermes", text); };
  const std::string tokyo = "call 0: get_weather\nend 0: {\"city\": \"Tokyo\"}\n";
  EXPECT_EQ(parse("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
                  "\"Tokyo\"}}\n</tool_call>"),
            tokyo);
  EXPECT_EQ(parse("<tool_call>{\"arguments\": {\"city\": \"Tokyo\"}, \"name\": "
                  "\"get_weather\"}</tool_call>"),
            tokyo);
  EXPECT_EQ(parse("Sure.\n\n<tool_call>{\"name\": \"now\"}</tool_call>\n<tool_call>\n{\"name\": "
                  "\"now\", \"arguments\": null}</tool_call>\n"),
            "content: Sure.\ncall 0: now\nend 0: {}\ncall 1: now\nend 1: {}\n");
  // The arguments as JSON in a string are decoded once; more members are passed over.
  EXPECT_EQ(
      parse(
          R"(<tool_call>{"id": [1, {"x": 2}], "name": "run", "arguments": "{\"code\": \"a\\nb\"}"}</tool_call>)"),
      "call 0: run\nend 0: {\"code\": \"a\\nb\"}\n");
  // A list, and several objects in one tag.
  EXPECT_EQ(
      parse(
          R"(<tool_call>[{"name": "now", "arguments": {}}, {"name": "now", "arguments": {}}]</tool_call>)"),
      "call 0: now\nend 0: {}\ncall 1: now\nend 1: {}\n");
  EXPECT_EQ(parse("<tool_call>{\"name\": \"now\", \"arguments\": {}}\n{\"name\": \"now\", "
                  "\"arguments\": {}}</tool_call>"),
            "call 0: now\nend 0: {}\ncall 1: now\nend 1: {}\n");
  // The marker inside a string is text; numbers keep their digits; line ends in strings are
  // escaped.
  EXPECT_EQ(
      parse("<tool_call>{\"name\": \"run\", \"arguments\": {\"code\": \"</tool_call>\n\\\"\", "
            "\"x\": 123456789012345678901234}}</tool_call>"),
      "call 0: run\nend 0: {\"code\": \"</tool_call>\\n\\\"\", \"x\": 123456789012345678901234}\n");
  // The call is whole where its object is; the tag behind it may be missing at the end.
  EXPECT_EQ(parse("<tool_call>{\"name\": \"now\"}\n</tool"), "call 0: now\nend 0: {}\n");
}

TEST(HermesCalls, ThatAreWrongStayText) {
  for (const std::string text : {
           "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tok",
           "<tool_call>hello</tool_call>",
           "<tool_call></tool_call>",
           "<tool_call>",
           "<tool_call>{\"name\": \"nope\", \"arguments\": {}}</tool_call>",
           "<tool_call>{\"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": 5}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": \"[1]\"}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": \"{bad\"}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 1, \"a\": 2}}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 01}}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": tru}}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"\\x\"}}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"\\ud800\"}}</tool_call>",
           "<tool_call>{\"name\": \"now\", \"name\": \"now\"}</tool_call>",
           "<tool_call>{\"name\": \"now\" \"arguments\": {}}</tool_call>",
           "<tool_call>{'name': 'now'}</tool_call>",
       }) {
    EXPECT_EQ(Parse("hermes", text), StrCat("malformed -1\ncontent!: ", text, "\n"));
  }
}

TEST(HermesCalls, AfterAWrongOneAreRead) {
  EXPECT_EQ(
      Parse("hermes", "<tool_call>{bad}</tool_call>\n<tool_call>{\"name\": \"now\"}</tool_call>"),
      "malformed -1\ncontent!: <tool_call>{bad}</tool_call>\ncall 0: now\nend 0: {}\n");
  EXPECT_EQ(
      Parse("hermes", "<tool_call>{\"name\": \"now\"} and more</tool_call> text"),
      "call 0: now\nend 0: {}\nmalformed -1\ncontent!: and more</tool_call>\ncontent:  text\n");
  EXPECT_EQ(Parse("hermes", "<tool_call>[{\"name\": \"nope\"}, {\"name\": \"now\"}]</tool_call>"),
            "malformed -1\ncontent!: <tool_call>[{\"name\": \"nope\"}\ncall 0: now\nend 0: {}\n");
  // What a wrong call holds in its texts is never run.
  EXPECT_EQ(Parse("hermes",
                  "<tool_call>{\"name\": \"run\", \"arguments\": {\"code\": "
                  "\"<tool_call>{}\" oops}}</tool_call>"),
            "malformed -1\ncontent!: <tool_call>{\"name\": \"run\", \"arguments\": {\"code\": "
            "\"<tool_call>{}\" oops}}</tool_call>\n");
}

TEST(Qwen3CoderCalls, AreRead) {
  EXPECT_EQ(
      Parse("qwen3_coder",
            "Look:\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nTokyo\n</parameter>\n"
            "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"),
      "content: Look:\ncall 0: get_weather\nend 0: {\"city\":\"Tokyo\",\"days\":3}\n");
  EXPECT_EQ(Parse("qwen3_coder",
                  "<function=run>\n<parameter=code>\na\n\n&lt;</function>\n</parameter>\n</"
                  "function>\n</tool_call>"),
            "call 0: run\nend 0: {\"code\":\"a\\n\\n&lt;</function>\"}\n");
  EXPECT_EQ(Parse("qwen3_coder",
                  "<tool_call><function=now></function></tool_call><tool_call><function=now></"
                  "function><function=now></function>"),
            "call 0: now\nend 0: {}\ncall 1: now\nend 1: {}\ncall 2: now\nend 2: {}\n");
  EXPECT_EQ(Parse("qwen3_coder", "<function=now></function> ok <b>"),
            "call 0: now\nend 0: {}\ncontent: ok <b>\n");
  EXPECT_EQ(Parse("seed_oss",
                  "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Tokyo</parameter>\n</"
                  "function>\n</seed:tool_call>"),
            kTokyo);
}

TEST(Qwen3CoderCalls, ThatAreWrongStayText) {
  for (const std::string text : {
           "<tool_call>\n<function=get_weather>\n<parameter=city>\nTokyo\n",
           "<tool_call>{\"name\": \"now\"}</tool_call>",
           "<tool_call><function=nope></function></tool_call>",
           "<tool_call><function=get_weather></function></tool_call>",
           "<tool_call><function=now>text</function></tool_call>",
           "<function=now\n></function></tool_call>",
       }) {
    EXPECT_EQ(Parse("qwen3_coder", text), StrCat("malformed -1\ncontent!: ", text, "\n"));
  }
}

TEST(Llama3Calls, AreReadWithAndWithoutTheMarker) {
  const auto parse = [](std::string_view text) { return Parse("llama3_json", text); };
  const std::string tokyo = "call 0: get_weather\nend 0: {\"city\": \"Tokyo\"}\n";
  EXPECT_EQ(parse(R"({"name": "get_weather", "parameters": {"city": "Tokyo"}})"), tokyo);
  EXPECT_EQ(parse("\n{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": "
                  "{\"city\": \"Tokyo\"}}\n"),
            tokyo);
  EXPECT_EQ(parse(R"(<|python_tag|>{"name": "get_weather", "parameters": {"city": "Tokyo"}})"),
            tokyo);
  EXPECT_EQ(
      parse(R"(I call.<|python_tag|>{"name": "get_weather", "arguments": {"city": "Tokyo"}})"),
      "content: I call.\n" + tokyo);
  EXPECT_EQ(parse(R"({"name": "now", "parameters": {}}; {"name": "now", "parameters": {}})"),
            "call 0: now\nend 0: {}\ncall 1: now\nend 1: {}\n");
}

TEST(Llama3Calls, AreNotSeenInAnswersThatAreJson) {
  for (const std::string text : {
           R"({"answer": 42})",
           R"({"name": "Bob", "parameters": {"a": 1}} said {x})",
           R"({"name": "now"})",
           "{",
           R"({"name": "now", "age": 5})",
           "{not json}",
           "Text {\"name\": \"now\", \"parameters\": {}}",
           R"({"parameters": {"a": "<|python_tag|>{\"name\": \"now\"}"}, "name": "Bob"})",
           "[1]",
           "```json\n{\"name\": \"now\", \"parameters\": {}}\n```",
       }) {
    EXPECT_EQ(Parse("llama3_json", text), StrCat("content: ", text, "\n"));
  }
  // With the marker, or once the name of a tool is there, it was meant as a call.
  EXPECT_EQ(Parse("llama3_json", "<|python_tag|>print(1)"),
            "malformed -1\ncontent!: <|python_tag|>print(1)\n");
  EXPECT_EQ(Parse("llama3_json", R"({"name": "now", "parameters": {"a")"),
            "malformed -1\ncontent!: {\"name\": \"now\", \"parameters\": {\"a\"\n");
}

TEST(PythonicCalls, AreRead) {
  const auto parse = [](std::string_view text) { return Parse("pythonic", text); };
  EXPECT_EQ(parse("[get_weather(city=\"Tokyo\")]"), kTokyo);
  EXPECT_EQ(parse(" [ get_weather ( city = 'Tokyo' ) ] "),
            "content:  [ get_weather ( city = 'Tokyo' ) ] \n");
  EXPECT_EQ(parse("[get_weather(city='Tokyo', days=3, metric=True), now()]"),
            "call 0: get_weather\nend 0: {\"city\":\"Tokyo\",\"days\":3,\"metric\":true}\ncall 1: "
            "now\nend 1: {}\n");
  EXPECT_EQ(parse("[run(code='f(a, b)]\\n', list=[1, (2, 3)], map={'a,)': None}, x=-1.5)]"),
            "call 0: run\nend 0: {\"code\":\"f(a, "
            "b)]\\n\",\"list\":[1,[2,3]],\"map\":{\"a,)\":null},\"x\":-1.5}\n");
  EXPECT_EQ(parse("[run(code='''it's,\n''', free='')]"),
            "call 0: run\nend 0: {\"code\":\"it's,\\n\",\"free\":\"\"}\n");
  EXPECT_EQ(parse("<|python_start|>[now()]<|python_end|>"), "call 0: now\nend 0: {}\n");
  EXPECT_EQ(parse("[now()] That is all."), "call 0: now\nend 0: {}\ncontent: That is all.\n");
}

TEST(PythonicCalls, AreTypedByTheSchema) {
  EXPECT_EQ(Parse("pythonic", "[get_weather(city=90210, days='3', metric='false')]"),
            "call 0: get_weather\nend 0: {\"city\":\"90210\",\"days\":3,\"metric\":false}\n");
  EXPECT_EQ(
      Parse("pythonic", "[run(code=True, maybe=None, unit=7, free='5')]"),
      "call 0: run\nend 0: {\"code\":\"True\",\"maybe\":null,\"unit\":\"7\",\"free\":\"5\"}\n");
}

TEST(PythonicCalls, ThatAreWrongStayText) {
  for (const std::string text : {
           "[get_weather(city=\"Tokyo\"",
           "[get_weather(\"Tokyo\")]",
           "[get_weather(days=1)]",
           "[now(a=x)]",
           "[get_weather(city='a', city='b')]",
           "[now(a=)]",
           "[now(a={)]",
       }) {
    EXPECT_EQ(Parse("pythonic", text), StrCat("malformed -1\ncontent!: ", text, "\n"))
        << Reason("pythonic", text);
  }
  for (const std::string text : {"[1] is a note", "[link](http://x)", "[nope(a=1)]", "[", "[get_",
                                 "[get_weather]", "x [now()]"}) {
    EXPECT_EQ(Parse("pythonic", text), StrCat("content: ", text, "\n"));
  }
  EXPECT_EQ(Parse("pythonic", "[now(), get_weather(cit"),
            "call 0: now\nend 0: {}\nmalformed -1\ncontent!: , get_weather(cit\n");
}

TEST(Lfm2Calls, AreReadInBothForms) {
  EXPECT_EQ(
      Parse("lfm2", "<|tool_call_start|>[get_weather(city=\"Tokyo\")]<|tool_call_end|>Looking."),
      StrCat(kTokyo, "content: Looking.\n"));
  EXPECT_EQ(
      Parse("lfm2", "<|tool_call_start|>[{\"name\": \"now\", \"arguments\": {}}]<|tool_call_end|>"),
      "call 0: now\nend 0: {}\n");
  EXPECT_EQ(Parse("lfm2", "[now()]"), "content: [now()]\n");
  EXPECT_EQ(Parse("lfm2", "<|tool_call_start|>[nope()]<|tool_call_end|>"),
            "malformed -1\ncontent!: <|tool_call_start|>[nope()]<|tool_call_end|>\n");
}

TEST(MistralCalls, AreReadInBothForms) {
  for (const char* family : {"mistral", "mistral_args"}) {
    EXPECT_EQ(
        Parse(
            family,
            R"([TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Tokyo"}, "id": "abcdefghi"}])"),
        "call 0: get_weather\nend 0: {\"city\": \"Tokyo\"}\n");
    EXPECT_EQ(
        Parse(family,
              R"(Look.[TOOL_CALLS]get_weather[ARGS]{"city": "Tokyo"}[TOOL_CALLS]now[ARGS]{})"),
        "content: Look.\ncall 0: get_weather\nend 0: {\"city\": \"Tokyo\"}\ncall 1: now\nend 1: "
        "{}\n");
    EXPECT_EQ(Parse(family, R"([TOOL_CALLS]now[CALL_ID]abc123[ARGS] {"a": "[TOOL_CALLS]"})"),
              "call 0: now\nend 0: {\"a\": \"[TOOL_CALLS]\"}\n");
    EXPECT_EQ(Parse(family, R"([TOOL_CALLS]now{})"), "call 0: now\nend 0: {}\n");
    for (const std::string text :
         {"[TOOL_CALLS]nope[ARGS]{}", "[TOOL_CALLS]now[ARGS]5", "[TOOL_CALLS]now[ARG]{}",
          "[TOOL_CALLS]", "[TOOL_CALLS]now", "[TOOL_CALLS]now[ARGS]{\"a\"", "[TOOL_CALLS]5 x"}) {
      EXPECT_EQ(Parse(family, text), StrCat("malformed -1\ncontent!: ", text, "\n"));
    }
    EXPECT_EQ(Parse(family, "[TOOL] [TOOL_CALL"), "content: [TOOL] [TOOL_CALL\n");
  }
}

TEST(JsonListCalls, OfGranitePhiAndNemotronAreRead) {
  const std::string list =
      R"([{"name": "now", "arguments": {}}, {"name": "now", "arguments": {}}])";
  const std::string calls = "call 0: now\nend 0: {}\ncall 1: now\nend 1: {}\n";
  EXPECT_EQ(Parse("granite", "<|tool_call|>" + list), calls);
  EXPECT_EQ(Parse("granite", "<|tool_call|> " + list + " ok"), calls + "content: ok\n");
  EXPECT_EQ(Parse("phi4", "<|tool_call|>" + list + "<|/tool_call|>"), calls);
  EXPECT_EQ(Parse("nemotron", "<TOOLCALL>" + list + "</TOOLCALL>"), calls);
  EXPECT_EQ(Parse("nemotron", "<TOOLCALL>[]</TOOLCALL>"), "");
}

TEST(ToolCalls, AreTextWithoutAFamilyOrWithoutTools) {
  const std::string text = R"(<tool_call>{"name": "now"}</tool_call>)";
  EXPECT_EQ(Parse("", text), StrCat("content: ", text, "\n"));
  OutputParser parser({"", "", false, FindToolFamily("hermes"), {}}, ToolSet());
  EXPECT_EQ(Show(parser.Push(text)), StrCat("content: ", text, "\n"));
}

TEST(ToolCalls, ComeEarlyIfAsked) {
  TestOutput output{"hermes", "", false, true};
  OutputOptions options{"", "", false, FindToolFamily("hermes"), {true}};
  OutputParser parser(options, TestTools());
  EXPECT_EQ(parser.Push("a <tool_call>{\"name\": \"run\"").size(), 2U);
  EXPECT_EQ(Show(parser.Push(", \"arguments\": ")), "");
  const auto part = parser.Push("{\"code\": \"ab");
  ASSERT_EQ(part.size(), 1U);
  EXPECT_EQ(part[0], (Event{EventKind::kCallArguments, "{\"code\": \"ab", 0}));
  const auto rest = parser.Push("\"}}</tool_call>");
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[1], (Event{EventKind::kCallEnd, "{\"code\": \"ab\"}", 0}));
  // What breaks off is void, and its text is not lost.
  output.text = "<tool_call>{\"name\": \"run\", \"arguments\": {\"code\": \"ab";
  EXPECT_EQ(Parse(output), "call 0: run\nmalformed 0\ncontent!: " + output.text + "\n");
  output.text += "\", \"code\": 1}}</tool_call><tool_call>{\"name\": \"now\"}</tool_call>";
  EXPECT_EQ(Parse(output), "call 0: run\nmalformed 0\ncontent!: " +
                               output.text.substr(0, output.text.size() - 38) +
                               "\ncall 1: now\nend 1: {}\n");
}

TEST(ToolCalls, AreHeldUntilTheyAreWhole) {
  OutputParser parser({"", "", false, FindToolFamily("hermes"), {}}, TestTools());
  EXPECT_TRUE(
      parser.Push("<tool_call>{\"name\": \"run\", \"arguments\": {\"code\": \"ab\"}").empty());
  EXPECT_EQ(parser.Push("}").size(), 3U);
}

TEST(JsonScanner, AgreesWithTheJsonReader) {
  for (const std::string text : {"{}",
                                 "[]",
                                 "{\"a\": [1, -2.5e+3, true, false, null, \"x\\u00e9\\\"\"]}",
                                 " [[{}]] ",
                                 "1",
                                 "[1,]",
                                 "[,1]",
                                 "{\"a\"}",
                                 "{\"a\":}",
                                 "{,}",
                                 "{\"a\":1,}",
                                 "{a:1}",
                                 "[1 2]",
                                 "[01]",
                                 "[1.]",
                                 "[-]",
                                 "[tru]",
                                 "[nulll]",
                                 "\"\\u12g4\"",
                                 "\"\\q\"",
                                 "]",
                                 "",
                                 "\"\n\"",
                                 "[\"a]",
                                 "{\"a\":1]",
                                 "[1}"}) {
    JsonScanner scanner;
    auto state = JsonScanner::State::kMore;
    std::size_t used = 0;
    // A line end closes a number that stands alone.
    const std::string all = text + "\n";
    while (used < all.size() && state == JsonScanner::State::kMore)
      state = scanner.Push(all[used++]);
    const bool whole =
        (state == JsonScanner::State::kDone || state == JsonScanner::State::kDoneBefore) &&
        all.find_first_not_of(" \n", used) == std::string::npos;
    EXPECT_EQ(whole, ParseJson(text).ok()) << text;
  }
}

}  // namespace
}  // namespace hone::chat
