// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/chat.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "runtime/text_setup.h"

namespace hone::runtime {
namespace {

const std::string kFamily = HONE_SHARED_DATA "/golden/families/llama-gqa8/hf";

TextSetup WithTemplate(std::string_view source) {
  TextSetup text;
  text.template_source = source;
  auto compiled = bridge::ChatTemplate::Compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.message();
  text.chat_template = *std::move(compiled);
  return text;
}

std::string Render(const TextSetup& text, std::string_view messages,
                   const RenderOptions& options = {}) {
  auto json = ParseJson(messages);
  EXPECT_TRUE(json.ok()) << json.message();
  auto rendered = RenderChat(text, *json, options);
  return rendered.ok() ? *rendered : StrCat("ERROR ", rendered.message());
}

TEST(Chat, PassesTheVariablesOfTransformers) {
  TextSetup text = WithTemplate(
      "{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }} "
      "{{ enable_thinking is defined }} {{ bos_token }} {{ eos_token is defined }}");
  text.bos_text = "<s>";
  EXPECT_EQ(Render(text, "[]"), "True True True False <s> False");
  RenderOptions options;
  options.add_generation_prompt = false;
  options.think = Think::kOff;
  options.tools = Json(Json::Array{});
  EXPECT_EQ(Render(text, "[]", options), "False True False True <s> False");
  const TextSetup think = WithTemplate("{{ enable_thinking }}");
  EXPECT_EQ(Render(think, "[]", options), "False");
  options.think = Think::kOn;
  EXPECT_EQ(Render(think, "[]", options), "True");
}

TEST(Chat, DropsNullKeysAndDecodesArguments) {
  const TextSetup text = WithTemplate(
      "{% for m in messages %}{{ m.content is defined }} {{ m.tool_calls is defined }}"
      "{% for c in m.tool_calls %} {{ c.function.arguments is mapping }} "
      "{{ c.function.arguments }}{% endfor %};{% endfor %}");
  EXPECT_EQ(Render(text, R"([{"role": "user", "content": "x", "tool_calls": null},
      {"role": "assistant", "content": null, "tool_calls": [
        {"function": {"name": "f", "arguments": "{\"a\": 1}"}},
        {"function": {"name": "f", "arguments": "[1]"}},
        {"function": {"name": "f", "arguments": "no json"}}]}])"),
            "True False;False True True {'a': 1} False [1] False no json;");
}

// Clients send the arguments of a call as a string; newer templates want a mapping, and older ones
// would encode the string once more.
TEST(Chat, ArgumentsSentAsAStringAreAMappingForTheTemplate) {
  constexpr std::string_view kCall =
      R"([{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",
      "arguments": "{\"city\":\"Paris\",\"n\":3,\"ok\":true}"}}]}])";
  EXPECT_EQ(Render(WithTemplate("{% for k, v in messages[0].tool_calls[0].function.arguments|items"
                                " %}<param name=\"{{ k }}\">{{ v if v is string else v|tojson }}"
                                "</param>{% endfor %}"),
                   kCall),
            "<param name=\"city\">Paris</param><param name=\"n\">3</param>"
            "<param name=\"ok\">true</param>");
  EXPECT_EQ(
      Render(WithTemplate("{{ messages[0].tool_calls[0].function.arguments|tojson }}"), kCall),
      R"({"city": "Paris", "n": 3, "ok": true})");
}

TEST(Chat, AliasesReasoningFields) {
  const TextSetup text =
      WithTemplate("{{ messages[0].reasoning_content }}|{{ messages[0].thinking }}");
  EXPECT_EQ(Render(text, R"([{"role": "assistant", "reasoning": "r", "thinking": null}])"), "r|r");
  EXPECT_EQ(Render(text, R"([{"role": "assistant", "thinking": "t"}])"), "t|t");
  EXPECT_EQ(Render(text, R"([{"role": "assistant", "content": "c"}])"), "|");
}

TEST(Chat, JoinsTextPartsOnlyWhereTheTemplateCannotTakeThem) {
  constexpr std::string_view kParts =
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
  EXPECT_EQ(
      Render(WithTemplate("{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}"), kParts),
      "<a><b>");
  EXPECT_EQ(Render(WithTemplate("{{ 'u:' + messages[0].content }}"), kParts), "u:ab");
  EXPECT_EQ(Render(WithTemplate("{{ messages[0].content }}"), kParts), "ab");
  // MiniCPM5's way: what is no string is left out.
  EXPECT_EQ(Render(WithTemplate("<{% if messages[0].content is string %}{{ messages[0].content }}"
                                "{% endif %}>"),
                   kParts),
            "<ab>");
  EXPECT_EQ(Render(WithTemplate("no messages"), kParts), "no messages");
}

TEST(Chat, TakesTheToolTemplateWhenToolsAreGiven) {
  TextSetup text = WithTemplate("plain");
  text.tool_template = WithTemplate("tools: {{ tools | length }}").chat_template;
  RenderOptions options;
  EXPECT_EQ(Render(text, "[]", options), "plain");
  options.tools = Json(Json::Array{});
  EXPECT_EQ(Render(text, "[]", options), "plain");
  options.tools = Json(Json::Array{Json(Json::Object{})});
  EXPECT_EQ(Render(text, "[]", options), "tools: 1");
}

TEST(Chat, NamesTheTemplateOnce) {
  const std::string error = Render(WithTemplate("{{ missing + 'y' }}"), "[]");
  EXPECT_TRUE(error.starts_with("ERROR chat template, line 1: ")) << error;
}

TEST(Chat, SaysWhyItCannotRender) {
  EXPECT_NE(Render({}, "[]").find("no chat template"), std::string::npos);
  TextSetup broken;
  broken.template_error = "line 3: what";
  EXPECT_NE(Render(broken, "[]").find("line 3: what"), std::string::npos);
  const TextSetup text = WithTemplate("{{ raise_exception('roles must alternate') }}");
  EXPECT_NE(Render(text, "[]").find("roles must alternate"), std::string::npos);
  EXPECT_NE(Render(text, "{}").find("expected an array"), std::string::npos);
  EXPECT_NE(Render(text, "[3]").find("messages[0]"), std::string::npos);
}

// The chat of tokenizer_golden.json, made by transformers.
TEST(Chat, EqualsTheGoldenRendersAndIds) {
  auto text = LoadText(kFamily, nullptr);
  ASSERT_TRUE(text.ok()) << text.message();
  auto file = ReadFile(HONE_SHARED_DATA "/golden/tokenizer_golden.json");
  ASSERT_TRUE(file.ok()) << file.message();
  auto golden = ParseJson(*file);
  ASSERT_TRUE(golden.ok()) << golden.message();
  const Json* chats = golden->Find("chat");
  ASSERT_NE(chats, nullptr);
  ASSERT_FALSE(chats->AsArray().empty());
  for (const Json& chat : chats->AsArray()) {
    RenderOptions options;
    if (const Json* think = chat.FindNonNull("enable_thinking")) {
      options.think = think->AsBool() ? Think::kOn : Think::kOff;
    }
    auto rendered = RenderChat(*text, *chat.Find("messages"), options);
    ASSERT_TRUE(rendered.ok()) << rendered.message();
    EXPECT_EQ(*rendered, chat.Find("text")->AsString());
    auto ids = EncodePrompt(*text, *rendered);
    ASSERT_TRUE(ids.ok()) << ids.message();
    std::vector<std::int32_t> want;
    for (const Json& id : chat.Find("ids")->AsArray()) {
      want.push_back(static_cast<std::int32_t>(id.AsInt()));
    }
    EXPECT_EQ(*ids, want);
  }
}

TEST(Chat, PrependsTheStartTokenOnlyIfItIsMissing) {
  auto text = LoadText(kFamily, nullptr);
  ASSERT_TRUE(text.ok()) << text.message();
  text->start_id = 2;  // <|im_start|>
  auto ids = EncodePrompt(*text, "<|im_start|>user");
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ((*ids)[0], 2);
  EXPECT_NE((*ids)[1], 2);
  auto added = EncodePrompt(*text, "user");
  ASSERT_TRUE(added.ok());
  EXPECT_EQ(*added, *ids);
}

TEST(TextSetup, SaysOnceHowManyStopTokensNeedTheAbsentTokenizer) {
  formats::litertlm::LlmMetadata metadata;
  metadata.stop_tokens.resize(3);
  metadata.stop_tokens[0].ids = {2};
  metadata.stop_tokens[1].is_text = metadata.stop_tokens[2].is_text = true;
  metadata.stop_tokens[1].text = "<a>";
  metadata.stop_tokens[2].text = "<b>";
  std::vector<std::string> warnings;
  const auto text = MakeMetadataText(metadata, "", {}, warnings);
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(text->stop_ids, std::vector<std::int32_t>{2});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with("2 of the metadata's 3 stop tokens need")) << warnings[0];
}

TEST(TextSetup, NamesThePartOfADamagedTokenizer) {
  std::vector<std::string> warnings;
  const auto text = MakeMetadataText({}, R"({"model":1})", {}, warnings);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.code(), Code::kDataLoss);
  EXPECT_NE(text.message().find("\"model\" is an integer"), std::string_view::npos)
      << text.message();
}

}  // namespace
}  // namespace hone::runtime
