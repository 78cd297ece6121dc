// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Family, flags, how to cut, then the text of a model; a NUL byte may divide it from the JSON of
// tools in front of it. However the text is cut the events are the same; the arguments of every
// call are a JSON object, and equal to their pieces; the tools' grammars can be written.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "chat/output_parser.h"
#include "chat/python_literal.h"
#include "chat/tool_grammar.h"

namespace {

using namespace hone;
using namespace hone::chat;

constexpr std::string_view kTools = R"json([
  {"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "i": {"type": "integer"},
    "b": {"type": "boolean"}, "o": {"type": "object"}, "a": {"type": "array"}, "x": {}}, "required": ["s"]}},
  {"name": "g"}])json";

ToolSet ReadTools(std::string_view text) {
  const auto json = ParseJson(text);
  if (!json.ok()) return ToolSet();
  auto tools = ToolSet::Parse(*json);
  return tools.ok() ? *std::move(tools) : ToolSet();
}

std::vector<Event> Parse(const OutputOptions& options, const ToolSet& tools, std::string_view text,
                         std::uint32_t cut) {
  OutputParser parser(options, tools);
  std::vector<Event> events;
  const auto add = [&](std::vector<Event> more) {
    for (Event& event : more) AddEvent(std::move(event), events);
  };
  while (!text.empty()) {
    cut = cut * 1664525 + 1013904223;  // Numerical Recipes
    const std::size_t size = cut == 0 ? text.size() : 1 + (cut >> 24) % 7;
    add(parser.Push(text.substr(0, size)));
    text.remove_prefix(std::min(size, text.size()));
  }
  add(parser.Finish());
  return events;
}

std::vector<Event> ParseWhole(const OutputOptions& options, const ToolSet& tools,
                              std::string_view text) {
  OutputParser parser(options, tools);
  std::vector<Event> events = parser.Push(text);
  for (Event& event : parser.Finish()) AddEvent(std::move(event), events);
  return JoinEvents(events);
}

void CheckCalls(const std::vector<Event>& events) {
  std::string arguments;
  int call = -1;
  for (const Event& event : events) {
    if (event.kind == EventKind::kCallBegin) {
      HONE_CHECK(event.call == call + 1);
      call = event.call;
      arguments.clear();
    } else if (event.kind == EventKind::kCallArguments) {
      HONE_CHECK(event.call == call);
      arguments += event.text;
    } else if (event.kind == EventKind::kCallEnd) {
      HONE_CHECK(event.call == call && event.text == arguments);
      const auto json = ParseJson(arguments);
      HONE_CHECK(json.ok() && json->IsObject());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const auto families = ToolFamilies();
  const ToolFamily& family = families[data[0] % families.size()];
  const unsigned flags = data[1];
  std::string_view text(reinterpret_cast<const char*>(data + 3), size - 3);
  ToolSet tools = ReadTools(kTools);
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    tools = ReadTools(text.substr(0, nul));
    text.remove_prefix(nul + 1);
  }
  OutputOptions options{"<think>", "</think>", (flags & 1) != 0, &family, {(flags & 2) != 0}};
  const std::vector<Event> whole = ParseWhole(options, tools, text);
  CheckCalls(whole);
  HONE_CHECK(Parse(options, tools, text, data[2]) == whole);

  ToolGrammarOptions grammar;
  grammar.choice = static_cast<ToolChoice>((flags >> 2) & 3);
  grammar.parallel = (flags & 16) != 0;
  const auto lark = BuildToolGrammar(family, tools, grammar);
  HONE_CHECK(!lark.ok() || lark->starts_with("start: "));
  DetectToolFamily(text);
  const auto literal = JsonFromPythonLiteral(text);
  // Duplicate keys are the one thing that Python takes and JSON does not.
  if (literal.ok() && !ParseJson(*literal).ok()) {
    HONE_CHECK(ParseJson(*literal).message().find("appears twice") != std::string_view::npos);
  }
  return 0;
}
