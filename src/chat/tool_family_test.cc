// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_family.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/file.h"
#include "base/json.h"

namespace hone::chat {
namespace {

std::string Detect(std::string_view source) {
  const ToolFamily* family = DetectToolFamily(source);
  return family == nullptr ? "none" : std::string(family->name);
}

TEST(ToolFamily, HasNamesThatDifferAndFindsThem) {
  std::set<std::string_view> names;
  for (const ToolFamily& family : ToolFamilies()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_EQ(FindToolFamily(family.name), &family);
    EXPECT_TRUE(family.bare || !family.open.empty()) << family.name;
  }
  EXPECT_EQ(FindToolFamily("no such family"), nullptr);
  EXPECT_EQ(FindToolFamily(""), nullptr);
}

TEST(ToolFamily, IsFoundFromTheRealTemplateOfMiniCpm5) {
  const auto source = ReadFile(HONE_SHARED_DATA "/data/minicpm5/chat_template.jinja");
  ASSERT_TRUE(source.ok()) << source.message();
  EXPECT_EQ(Detect(*source), "minicpm5");
}

TEST(ToolFamily, IsNoneForTemplatesWithoutCalls) {
  const auto chatml = ReadFile(HONE_SHARED_DATA "/golden/bundles/chatml_litertlm.jinja");
  ASSERT_TRUE(chatml.ok()) << chatml.message();
  EXPECT_EQ(Detect(*chatml), "none");
  const auto vectors = ReadFile(HONE_SHARED_DATA "/cases/template-and-split-vectors.json");
  ASSERT_TRUE(vectors.ok()) << vectors.message();
  EXPECT_EQ(Detect(""), "none");
  EXPECT_EQ(Detect("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"), "none");
}

// How published templates write calls, in a line each.
TEST(ToolFamily, IsFoundFromHowATemplateWritesCalls) {
  EXPECT_EQ(
      Detect(
          R"({{- '<tool_call>\n{"name": "' }}{{- c.name }}{{- '", "arguments": ' }}{{ c.arguments | tojson }}{{- '}\n</tool_call>' }})"),
      "hermes");
  EXPECT_EQ(
      Detect(
          R"({{- '<tool_call>\n<function=' + c.name + '>\n' }}{{- '<parameter=' + k + '>\n' }}{{ v }}{{ '</parameter>\n</function>\n</tool_call>' }})"),
      "qwen3_coder");
  EXPECT_EQ(Detect(R"({{ '<seed:tool_call>\n<function=' + c.name + '>\n<parameter=' }})"),
            "seed_oss");
  EXPECT_EQ(
      Detect(
          R"({{- '{"name": "' + c.name + '", "parameters": ' }}{{ "<|python_tag|>" + c.name + ".call(" }})"),
      "llama3_json");
  EXPECT_EQ(
      Detect(
          R"({{ 'in the format {"name": function name, "parameters": dictionary of argument name and its value}' }})"),
      "llama3_json");
  EXPECT_EQ(
      Detect(
          R"({{ "[func_name1(params_name1=params_value1, params_name2=params_value2), func_name2(params)]" }})"),
      "pythonic");
  EXPECT_EQ(Detect(R"({{ "List of tools: <|tool_list_start|>[" }}{{ "<|tool_call_start|>[" }})"),
            "lfm2");
  EXPECT_EQ(Detect(R"({{ "[TOOL_CALLS] [" }}{{ c.function|tojson }}{{ "]" }})"), "mistral");
  EXPECT_EQ(Detect(R"({{ "[TOOL_CALLS]" + c.name + "[ARGS]" + arguments }})"), "mistral_args");
  EXPECT_EQ(Detect(R"({{ 'respond with <|tool_call|> followed by a JSON list of tools used' }})"),
            "granite");
  EXPECT_EQ(Detect(R"({{ '<|tool_call|>' + calls|tojson + '<|/tool_call|>' }})"), "phi4");
  EXPECT_EQ(Detect(R"({{ '<TOOLCALL>[' }}{{ ']</TOOLCALL>' }})"), "nemotron");
}

TEST(ToolFamily, IsNoneForFormsThatAreLikeAKnownOne) {
  // GLM, MiniMax and Functionary: known tags with another content.
  EXPECT_EQ(
      Detect("{{ '<tool_call>' + name + '\n<arg_key>' + k + '</arg_key></tool_call>' }} arguments"),
      "none");
  EXPECT_EQ(Detect("{{ '<tool_call>' + '<invoke name=' + '</tool_call>' }} arguments"), "none");
  EXPECT_EQ(Detect("<|python_tag|> <function=example>{\"a\": 1}</function> parameters"), "none");
}

TEST(ToolFamily, DoesNotListenToComments) {
  EXPECT_EQ(Detect("{# like <tool_call> </tool_call> arguments #}{{ m.content }}"), "none");
  EXPECT_EQ(Detect("{# [TOOL_CALLS] #}{{ '<|tool_call|>' }}{# [ARGS]"), "granite");
}

}  // namespace
}  // namespace hone::chat
