// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs the parsers of this folder in tests, and shows what they make of a text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "chat/output_parser.h"

namespace hone::chat {

// Tools that the tests of all families use.
inline ToolSet TestTools() {
  const auto json = ParseJson(R"json([
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
      "type": "object",
      "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"}},
      "required": ["city"]}}},
    {"type": "function", "function": {"name": "run", "parameters": {
      "type": "object",
      "properties": {"code": {"type": "string"}, "x": {"type": "number"}, "list": {"type": "array"},
        "map": {"type": "object"}, "maybe": {"type": ["string", "null"]}, "none": {"type": "null"},
        "free": {}, "unit": {"enum": ["c", "7"]}}}}},
    {"type": "function", "function": {"name": "now"}}])json");
  auto tools = ToolSet::Parse(*json);
  EXPECT_TRUE(tools.ok()) << tools.message();
  return *std::move(tools);
}

// One line an event: "content: text", "content!: text of a malformed call", "call 0: name",
// "end 0: {...}", "malformed -1". Arguments are shown by their end; that the pieces are equal to
// it, and JSON, is checked here.
inline std::string Show(const std::vector<Event>& events) {
  std::string out;
  std::string arguments;
  for (const Event& event : JoinEvents(events)) {
    switch (event.kind) {
      case EventKind::kThinking:
        out += StrCat("thinking: ", event.text, "\n");
        break;
      case EventKind::kContent:
        out += StrCat("content", event.malformed ? "!: " : ": ", event.text, "\n");
        break;
      case EventKind::kCallBegin:
        out += StrCat("call ", event.call, ": ", event.text, "\n");
        arguments.clear();
        break;
      case EventKind::kCallArguments:
        arguments += event.text;
        break;
      case EventKind::kCallEnd: {
        out += StrCat("end ", event.call, ": ", event.text, "\n");
        EXPECT_EQ(arguments, event.text);
        const auto json = ParseJson(event.text);
        EXPECT_TRUE(json.ok() && json->IsObject()) << event.text;
        break;
      }
      case EventKind::kMalformed:
        EXPECT_FALSE(event.text.empty());
        out += StrCat("malformed ", event.call, "\n");
        break;
    }
  }
  return out;
}

struct TestOutput {
  std::string family;  // "" for none
  std::string text;
  bool starts_in_thinking = false;
  bool early = false;
};

inline std::vector<Event> ParsePieces(const TestOutput& output,
                                      const std::vector<std::string_view>& pieces) {
  OutputOptions options;
  options.think_start = "<think>";
  options.think_end = "</think>";
  options.starts_in_thinking = output.starts_in_thinking;
  options.family = FindToolFamily(output.family);
  EXPECT_EQ(options.family == nullptr, output.family.empty()) << output.family;
  options.tools.early = output.early;
  OutputParser parser(options, TestTools());
  std::vector<Event> events;
  for (const std::string_view piece : pieces) {
    for (Event& event : parser.Push(piece)) {
      // Each piece that goes out alone is whole UTF-8.
      EXPECT_EQ(OpenUtf8Bytes(event.text), 0U) << event.text;
      events.push_back(std::move(event));
    }
  }
  for (Event& event : parser.Finish()) events.push_back(std::move(event));
  return JoinEvents(events);
}

inline std::string Parse(const TestOutput& output) {
  return Show(ParsePieces(output, {output.text}));
}
inline std::string Parse(std::string_view family, std::string_view text) {
  return Parse(TestOutput{std::string(family), std::string(text)});
}

// Any single cut, any two bytes alone, and byte by byte: the same events.
inline void ExpectSplitsDoNotMatter(const TestOutput& output) {
  const std::string_view text = output.text;
  const std::vector<Event> whole = ParsePieces(output, {text});
  const auto expect_same = [&](const std::vector<std::string_view>& pieces) {
    const std::vector<Event> events = ParsePieces(output, pieces);
    ASSERT_EQ(events == whole, true) << output.family << ": [" << Join(pieces, "|") << "]\ngives\n"
                                     << Show(events) << "but in one piece\n"
                                     << Show(whole);
  };
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bytes.push_back(text.substr(i, 1));
    expect_same({text.substr(0, i), text.substr(i)});
    expect_same({text.substr(0, i), text.substr(i, 1), text.substr(i + 1)});
  }
  expect_same(bytes);
}

}  // namespace hone::chat
