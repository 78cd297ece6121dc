// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_arguments.h"

#include <gtest/gtest.h>

namespace hone::chat {
namespace {

Result<Json> Decode(std::string_view call) {
  const auto messages = ParseJson(
      StrCat(R"([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [)",
             R"({"id": "1", "function": {"name": "g", "arguments": {}}}, )", call, "]}]"));
  EXPECT_TRUE(messages.ok()) << messages.message();
  return DecodeToolArguments(*messages);
}

std::string Arguments(std::string_view arguments) {
  const auto decoded =
      Decode(StrCat(R"({"id": "2", "function": {"name": "f")",
                    arguments.empty() ? "" : ", \"arguments\": ", arguments, "}}"));
  if (!decoded.ok()) {
    EXPECT_EQ(decoded.code(), Code::kInvalidArgument);
    return std::string(decoded.message());
  }
  const Json& call = decoded->AsArray()[1].Find("tool_calls")->AsArray()[1];
  EXPECT_EQ(call.Find("id")->AsString(), "2");
  return call.Find("function")->Find("arguments")->Dump();
}

TEST(ToolArguments, AreDecodedOnce) {
  EXPECT_EQ(Arguments(R"("{\"city\":\"Paris\",\"n\":3,\"ok\":true}")"),
            R"({"city":"Paris","n":3,"ok":true})");
  EXPECT_EQ(Arguments(R"({"a": "{\"b\": 1}"})"), R"({"a":"{\"b\": 1}"})");
  EXPECT_EQ(Arguments(R"("{\"a\": \"{\\\"b\\\": 1}\"}")"), R"({"a":"{\"b\": 1}"})");
}

TEST(ToolArguments, ThatAreEmptyBecomeAnObject) {
  for (const char* empty : {"", "null", "\"\"", "\" \\n\"", "\"null\"", "{}", "\"{}\""}) {
    EXPECT_EQ(Arguments(empty), "{}") << empty;
  }
}

TEST(ToolArguments, ThatAreNoObjectAreRefusedByMessageAndCall) {
  const std::string where = "messages[1].tool_calls[1].function.arguments: found ";
  EXPECT_EQ(Arguments("\"[1]\""), where + "an array in a text, expected a JSON object");
  EXPECT_EQ(Arguments("[1]"), where + "an array, expected a JSON object");
  EXPECT_EQ(Arguments("5"), where + "an integer, expected a JSON object");
  EXPECT_EQ(Arguments("\"\\\"{}\\\"\""), where + "a string in a text, expected a JSON object");
  EXPECT_TRUE(Arguments("\"{bad\"").starts_with(where + "text that is not valid JSON at line 1"))
      << Arguments("\"{bad\"");
}

std::string Error(std::string_view call) {
  const auto decoded = Decode(call);
  return decoded.ok() ? "ok" : std::string(decoded.message());
}

TEST(ToolArguments, WantCallsWithNames) {
  EXPECT_EQ(Error("5"), "messages[1].tool_calls[1]: found an integer, expected an object");
  EXPECT_EQ(Error(R"({"function": 5})"),
            "messages[1].tool_calls[1].function: found an integer, expected an object");
  EXPECT_EQ(Error(R"({"function": {"arguments": {}}})"),
            "messages[1].tool_calls[1].function.name: found nothing, expected the name of a tool");
  EXPECT_EQ(Error(R"({"arguments": {}})"),
            "messages[1].tool_calls[1].name: found nothing, expected the name of a tool");
  const auto other = DecodeToolArguments(*ParseJson(R"([{"tool_calls": {}}])"));
  EXPECT_EQ(other.message(),
            "messages[0].tool_calls: found an object, expected an array of tool calls");
}

TEST(ToolArguments, LeaveTheRestAlone) {
  for (const char* text : {R"([{"role":"user","content":"{}"},5])", R"({"a":1})", "[]",
                           R"([{"role":"assistant","content":null,"tool_calls":null}])"}) {
    const auto decoded = DecodeToolArguments(*ParseJson(text));
    ASSERT_TRUE(decoded.ok()) << decoded.message();
    EXPECT_EQ(decoded->Dump(), text);
  }
  // A call without "function" around it, as some clients send.
  EXPECT_EQ(
      DecodeToolArguments(*ParseJson(R"([{"tool_calls":[{"name":"f","arguments":"{\"a\":1}"}]}])"))
          ->Dump(),
      R"([{"tool_calls":[{"name":"f","arguments":{"a":1}}]}])");
}

}  // namespace
}  // namespace hone::chat
