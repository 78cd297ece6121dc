// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/output_parser.h"

#include <gtest/gtest.h>

#include "chat/output_test_util.h"

namespace hone::chat {
namespace {

std::string Opened(std::string_view text, std::string_view family = "hermes") {
  return Parse(TestOutput{std::string(family), std::string(text), true});
}

TEST(OutputParser, SplitsThinkingThatThePromptOpened) {
  EXPECT_EQ(Opened("A</think>\n\nB"), "thinking: A\ncontent: B\n");
  EXPECT_EQ(Opened("\nA\nb\n</think>\n\nB\n"), "thinking: A\nb\ncontent: B\n\n");
  EXPECT_EQ(Opened("never closes </thin"), "thinking: never closes </thin\n");
  EXPECT_EQ(Opened("cut\n"), "thinking: cut\n");
  EXPECT_EQ(Opened(""), "");
  EXPECT_EQ(Opened("\n\n</think>\n\nB"), "content: B\n");
  EXPECT_EQ(Opened("</think>B"), "content: B\n");
  EXPECT_EQ(Opened("</think>"), "");
  EXPECT_EQ(Opened("</think>\n\n"), "");
  // Some models repeat the mark.
  EXPECT_EQ(Opened("<think>\nA</think>B"), "thinking: A\ncontent: B\n");
  EXPECT_EQ(Opened("<thin\nA</think>B"), "thinking: <thin\nA\ncontent: B\n");
  EXPECT_EQ(Opened(" </think> <b>"), "thinking:  \ncontent:  <b>\n");
}

TEST(OutputParser, SplitsThinkingThatTheModelOpens) {
  const auto parse = [](std::string_view text) { return Parse("hermes", text); };
  EXPECT_EQ(parse("<think>\nA\n</think>\n\nB"), "thinking: A\ncontent: B\n");
  EXPECT_EQ(parse("\n<think>A</think>B"), "thinking: A\ncontent: B\n");
  EXPECT_EQ(parse("<think>\n\n</think>\n\nB"), "content: B\n");
  EXPECT_EQ(parse("<think>A"), "thinking: A\n");
  EXPECT_EQ(parse("<think>"), "");
  EXPECT_EQ(parse("<thin"), "content: <thin\n");
  EXPECT_EQ(parse("<thinking>A</thinking>"), "content: <thinking>A</thinking>\n");
}

TEST(OutputParser, TakesMarksInTheAnswerAsText) {
  EXPECT_EQ(Parse("hermes", "No </think> was open"), "content: No </think> was open\n");
  EXPECT_EQ(Parse("hermes", "Say <think>x</think>"), "content: Say <think>x</think>\n");
  EXPECT_EQ(Opened("A</think>```\n</think>\n<think>x</think>\n```"),
            "thinking: A\ncontent: ```\n</think>\n<think>x</think>\n```\n");
  EXPECT_EQ(Opened("A</think>\n\n<think>B</think>"), "thinking: A\ncontent: <think>B</think>\n");
}

TEST(OutputParser, KeepsWhiteSpaceOfAnAnswerWithoutCalls) {
  EXPECT_EQ(Parse("hermes", "  a\n\n b \n"), "content:   a\n\n b \n\n");
  EXPECT_EQ(Parse("hermes", " \n"), "content:  \n\n");
  // Only line ends belong to the mark: an indent is the answer's.
  EXPECT_EQ(Opened("A</think>\r\n\n    code"), "thinking: A\ncontent:     code\n");
}

TEST(OutputParser, LeavesOutWhiteSpaceAroundCallsThatNoTextIsOnBothSidesOf) {
  const std::string call = "<tool_call>{\"name\": \"now\"}</tool_call>";
  EXPECT_EQ(Parse("hermes", "\n" + call + "\n" + call + "\n"),
            "call 0: now\nend 0: {}\ncall 1: now\nend 1: {}\n");
  EXPECT_EQ(Parse("hermes", "a\n" + call + "\nb\n"),
            "content: a\ncall 0: now\nend 0: {}\ncontent: \n\nb\n");
  EXPECT_EQ(Parse("hermes", call + " b"), "call 0: now\nend 0: {}\ncontent: b\n");
  EXPECT_EQ(Opened("A\n</think>\n\n" + call), "thinking: A\ncall 0: now\nend 0: {}\n");
}

TEST(OutputParser, TakesCallsInsideThinkingAsThinking) {
  EXPECT_EQ(Opened("x <tool_call>{\"name\": \"now\"}</tool_call> y"),
            "thinking: x <tool_call>{\"name\": \"now\"}</tool_call> y\n");
  EXPECT_EQ(
      Opened("use <function name=\"now\"></function></think>\n<function name=\"now\"></function>",
             "minicpm5"),
      "thinking: use <function name=\"now\"></function>\ncall 0: now\nend 0: {}\n");
}

TEST(OutputParser, TellsWhereItIs) {
  OutputParser parser({"<think>", "</think>", true, nullptr, {}}, ToolSet());
  EXPECT_TRUE(parser.in_thinking());
  parser.Push("a</thi");
  EXPECT_TRUE(parser.in_thinking());
  parser.Push("nk>");
  EXPECT_FALSE(parser.in_thinking());
}

TEST(OutputParser, WorksWithoutThinkingAndWithOtherMarks) {
  OutputParser plain({}, ToolSet());
  EXPECT_EQ(Show(plain.Push("<think>a</think>")), "content: <think>a</think>\n");
  OutputParser marked({"[THINK]", "[/THINK]", false, nullptr, {}}, ToolSet());
  EXPECT_EQ(Show(marked.Push("[THINK]a[/THINK]b")), "thinking: a\ncontent: b\n");
  // A model that only ever closes.
  OutputParser closes({"", "</think>", true, nullptr, {}}, ToolSet());
  EXPECT_EQ(Show(closes.Push("a</think>b")), "thinking: a\ncontent: b\n");
}

TEST(OutputParser, SendsWhatIsCertainAtOnce) {
  OutputParser parser({"<think>", "</think>", false, FindToolFamily("hermes"), {}}, TestTools());
  EXPECT_EQ(Show(parser.Push("Hello")), "content: Hello\n");
  EXPECT_EQ(Show(parser.Push(" wor")), "content:  wor\n");
  EXPECT_EQ(Show(parser.Push("ld <")), "content: ld\n");
  EXPECT_EQ(Show(parser.Push("tool")), "");
  EXPECT_EQ(Show(parser.Push("box>")), "content:  <toolbox>\n");
}

TEST(OutputParser, SeesThePromptThatOpensThinking) {
  EXPECT_TRUE(PromptOpensThinking("<|im_start|>assistant\n<think>\n", "<think>"));
  EXPECT_TRUE(PromptOpensThinking("x<think>", "<think>"));
  EXPECT_FALSE(PromptOpensThinking("<|im_start|>assistant\n<think>\n\n</think>\n\n", "<think>"));
  EXPECT_FALSE(PromptOpensThinking("<|im_start|>assistant\n", "<think>"));
  EXPECT_TRUE(PromptOpensThinking("x<think>", "<think>\n"));
  EXPECT_TRUE(PromptOpensThinking("<|channel>thought\n", "<|channel>thought\n"));
  EXPECT_FALSE(PromptOpensThinking("anything", ""));
  EXPECT_FALSE(PromptOpensThinking("anything\n", "\n"));
}

TEST(OutputParser, CountsOpenUtf8Bytes) {
  EXPECT_EQ(OpenUtf8Bytes(""), 0U);
  EXPECT_EQ(OpenUtf8Bytes("a"), 0U);
  EXPECT_EQ(OpenUtf8Bytes("\xc3\xa9"), 0U);
  EXPECT_EQ(OpenUtf8Bytes("a\xc3"), 1U);
  EXPECT_EQ(OpenUtf8Bytes("\xe2\x82"), 2U);
  EXPECT_EQ(OpenUtf8Bytes("\xf0\x9f\x98"), 3U);
  EXPECT_EQ(OpenUtf8Bytes("\xf0\x9f\x98\x8a"), 0U);
}

// One text or more for every way through the parsers.
const std::vector<std::pair<std::string, std::string>> kTexts = {
    {"", "Hello <world> \xf0\x9f\x98\x8a\n"},
    {"hermes",
     "<think>\n\xc3\xa9 </thi </think>\n\nText \xf0\x9f\x98\x8a.\n\n<tool_call>\n{\"name\": "
     "\"run\", \"arguments\": "
     "{\"code\": \"\xf0\x9f\x98\x8a\\\"\n\\u00e9\", \"x\": "
     "-1.5e3}}\n</tool_call>\n<tool_call>{\"name\": \"now\"}"},
    {"hermes",
     "a<tool_call>{\"arguments\": \"{}\", \"name\": \"now\"}{\"name\": \"no\"}</tool_call> "
     "<tool_<tool_call>x</tool_</tool_call> end"},
    {"hermes",
     "```\n<tool_call>{}</tool_call>\n``` \n<tool_call>[{\"name\": "
     "\"now\"},{\"name\":5}]oops</tool_call>"},
    {"hermes", "<tool_call>{\"name\": \"now\"}<tool_call>{\"name\": \"now\"}</tool_call>"},
    {"minicpm5",
     "</think> A <function name='get_weather'>\n<param name=\"city\">R&amp;D \xc3\xa9</param> "
     "<param name=\"days\"> 3 "
     "</param></function>\n<function name=\"run\"><param "
     "name=\"code\"><![CDATA[</param>]]]]></param></function>z"},
    {"minicpm5",
     "<functional> <function name=\"nope\"><param name=\"a\"/></function><function name=\"now\"/> "
     "<function name=\"run\">!</func</function>x"},
    {"minicpm5",
     "<function name=\"get_weather\"><param name=\"city\">A</function>B<function "
     "name=\"get_weather\"><param name=\"city\">"},
    {"qwen3_coder",
     "x\n<tool_call>\n<function=get_weather>\n<parameter=city>\nTo\nkyo\n</parameter>\n</"
     "function>\n</tool_call>\n<function=now></function>y"},
    {"qwen3_coder",
     "<tool_call><function=run><parameter=x>z</parameter></function></tool_call><tool_call><bad></"
     "tool_call>"},
    {"llama3_json",
     " {\"name\": \"get_weather\", \"parameters\": {\"city\": \"\xc3\xa9\"}}; {\"name\": \"now\", "
     "\"parameters\": {}} x <|python_tag|>{1}"},
    {"llama3_json",
     "{\"name\": \"nobody\", \"parameters\": {}}<|python_tag|>{\"name\": \"now\", \"parameters\": "
     "\"\"}<|python"},
    {"pythonic",
     "[get_weather(city='T\\'o\xc3\xa9', days=3), run(code=\"\"\"a\"b\"\"\", list=[[1]], map={'a': "
     "(1,)}), now()] ok"},
    {"pythonic", "[now(), get_weather(days='x')]<|python_start|>[now()]<|python_end|>[now()]"},
    {"lfm2",
     "<|tool_call_start|>[now(), {]<|tool_call_end|><|tool_call_start|>[{\"name\": "
     "\"now\"}]<|tool_call_end|>."},
    {"mistral",
     "a[TOOL_CALLS] [{\"name\": \"now\"}, {\"name\": \"now\", \"arguments\": {\"a\": [1]}}] "
     "[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS][TOOL_CALLS]["},
    {"mistral_args",
     "[TOOL_CALLS]now[CALL_ID]a1[ARGS]{\"a\": \"]\"}\n[TOOL_CALLS]run{\"code\": "
     "1}[TOOL_CALLS]run[ARG]"},
    {"granite", "<|tool_call|>[{\"name\": \"now\"}] b <|tool_call|>[{\"name\": \"now\"}, [TOOL"},
    {"phi4",
     "<|tool_call|>[{\"name\": \"now\"}]<|/tool_call|><|tool_call|>[{\"name\": \"now\"}] "
     "]<|/tool_call|>"},
    {"nemotron", "<TOOLCALL>[]</TOOLCALL> <TOOLCALL>[{\"name\": \"now\"}]</TOOLCALL>"},
};

TEST(OutputParser, GivesTheSameHoweverTheTextIsCut) {
  for (const auto& [family, text] : kTexts) {
    for (const bool thinking : {false, true}) {
      for (const bool early : {false, true}) {
        ExpectSplitsDoNotMatter({family, text, thinking, early});
      }
    }
    ExpectSplitsDoNotMatter({family, text + "</think>" + text, true, false});
  }
}

// No byte is lost: content and raw text of what is no call are the text. A list of no calls, and
// the marks of the thinking, are not content.
TEST(OutputParser, LosesNothingWhereThereIsNoCall) {
  for (const auto& [family, text] : kTexts) {
    for (std::size_t size = 0; size <= text.size(); ++size) {
      std::string all;
      bool any_call = false;
      for (const Event& event :
           ParsePieces({family, text.substr(0, size)}, {text.substr(0, size)})) {
        any_call = any_call || event.kind == EventKind::kCallBegin;
        if (event.kind == EventKind::kContent) all += event.text;
      }
      if (any_call || text.starts_with("<think>") || text.starts_with("<TOOLCALL>[]")) continue;
      EXPECT_EQ(all, text.substr(0, size)) << family;
    }
  }
}

// A fragment of a marker never stands in content that goes out before the marker is decided.
TEST(OutputParser, NeverSendsAFragmentOfAMarker) {
  const std::string before = "Text ";
  for (const ToolFamily& family : ToolFamilies()) {
    OutputOptions options{"", "", false, &family, {}};
    OutputParser parser(options, TestTools());
    std::string sent;
    for (const char c : before + std::string(family.open)) {
      for (const Event& event : parser.Push({&c, 1})) sent += event.text;
    }
    EXPECT_EQ(sent, "Text") << family.name;
  }
}

}  // namespace
}  // namespace hone::chat
