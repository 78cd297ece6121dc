// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Whole turns: tools, formats, and a conversation with MiniCPM5's template.
#include <algorithm>

#include "chat/conversation_test_util.h"

namespace hone::chat {
namespace {

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}},
  {"type": "function", "function": {"name": "now", "parameters": {"type": "object",
    "properties": {}}}}])";
constexpr const char* kCall =
    "<function name=\"get_weather\"><param name=\"city\">Tokyo</param></function>";
constexpr const char* kTokyo = "get_weather{\"city\":\"Tokyo\"}";

ChatRequest AskWithTools(ToolChoice choice = ToolChoice::kAuto) {
  ChatRequest request = AskHello();
  request.tools_json = MustParse(kTools).AsArray();
  request.tool_choice = choice;
  return request;
}

ChatRequest AskFor(FormatKind kind, const std::string& text) {
  ChatRequest request = AskHello();
  request.format.kind = kind;
  if (kind == FormatKind::kJsonSchema || (kind == FormatKind::kJsonObject && !text.empty())) {
    request.format.schema = MustParse(text);
  } else {
    request.format.text = text;
  }
  return request;
}

constexpr const char* kSchema = R"({"type": "object", "properties": {"a": {"type": "integer"}},
    "required": ["a"], "additionalProperties": false})";

// ---- tools

TEST(Conversation, ReadsCallsThatTheModelIsFreeToMake) {
  const TestModel model(MiniCpmText());
  const ChatRequest request = AskWithTools();
  EXPECT_EQ(MustPrompt(model, request).plan.matcher, nullptr);
  EXPECT_EQ(Show(Say(model, request, kCall)), StrCat("||", kTokyo, "|stop"));
  EXPECT_EQ(Show(Say(model, request, StrCat("Let me look.\n", kCall, "\n", kCall))),
            StrCat("|Let me look.|", kTokyo, " ", kTokyo, "|stop"));
  EXPECT_EQ(Show(Say(model, request, "<function name=\"now\"></function>")), "||now{}|stop");
  EXPECT_EQ(Show(Say(model, request, StrCat("<think>", kCall, "</think>No"))),
            StrCat(kCall, "|No||stop"));
  EXPECT_EQ(Show(Say(model, request, "Just text")), "|Just text||stop");
}

TEST(Conversation, ShowsNoFragmentOfACallAndAllOfWhatIsNone) {
  const TestModel model(MiniCpmText());
  const Prompt prompt = MustPrompt(model, AskWithTools());
  const Reply reply = Say(model, prompt, model.EncodeCharacters(StrCat("Look: ", kCall)));
  EXPECT_EQ(Show(reply), StrCat("|Look:|", kTokyo, "|stop"));
  for (const std::string& piece : reply.pieces) EXPECT_EQ(piece.find('<'), std::string::npos);
  const std::string cut = "<function name=\"get_weather\"><param name=\"city\">Tokyo</par";
  EXPECT_EQ(Show(Say(model, prompt, model.Encode(cut))), StrCat("|", cut, "||stop"));
  const std::string unknown = "<function name=\"rm\"></function>";
  EXPECT_EQ(Show(Say(model, prompt, model.Encode(unknown))), StrCat("|", unknown, "||stop"));
  const std::string missing = "<function name=\"get_weather\"></function>";
  EXPECT_EQ(Show(Say(model, prompt, model.Encode(missing))), StrCat("|", missing, "||stop"));
}

TEST(Conversation, TypesArgumentsByTheSchema) {
  const TestModel model(MiniCpmText());
  EXPECT_EQ(Show(Say(model, AskWithTools(),
                     "<function name='get_weather'><param name='city'>007</param>"
                     "<param name='days'>3</param></function>")),
            R"(||get_weather{"city":"007","days":3}|stop)");
}

TEST(Conversation, ReadsCallsWhoseTagsAreSpecialTokens) {
  const TestModel model(WithSpecialTokens(
      MiniCpmText(), {"<function", "</function>", "<param", "</param>", "<think>", "</think>"}));
  for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired}) {
    const Reply reply = Say(model, AskWithTools(choice), StrCat("<think>hm</think>", kCall));
    EXPECT_EQ(Show(reply), StrCat("hm||", kTokyo, "|stop"));
  }
  // Without tools they are special tokens like others, which nobody sees.
  EXPECT_EQ(Say(model, AskHello(), "a<param>b").content, "a>b");
}

TEST(Conversation, ScoresContentAroundCalls) {
  const TestModel model(MiniCpmText());
  const Prompt prompt = MustPrompt(model, AskWithTools());
  const Reply reply = Say(
      model, prompt, model.EncodeCharacters(StrCat("<think>x</think>\n\nfun\n", kCall, "\nc b")),
      {.logprobs = true});
  EXPECT_EQ(Show(reply), StrCat("x|fun\n\nc b|", kTokyo, "|stop"));
  std::string bytes;
  for (const TokenScore& token : reply.tokens) bytes += token.bytes;
  EXPECT_EQ(bytes, reply.content);
}

TEST(Conversation, DoesNotMatchStopStringsInCalls) {
  const TestModel model(MiniCpmText());
  EXPECT_EQ(Show(Say(model, AskWithTools(), StrCat("a", kCall, "b stop c"),
                     {.stop = {"Tokyo", "city", "stop"}})),
            StrCat("|ab |", kTokyo, "|stop"));
}

TEST(Conversation, MatchesNoStopStringAcrossACall) {
  const TestModel model(MiniCpmText());
  Reply reply = Say(model, AskWithTools(), StrCat("Let me check.", kCall), {.stop = {"..."}});
  EXPECT_EQ(Show(reply), StrCat("|Let me check.|", kTokyo, "|stop"));
  EXPECT_EQ(reply.before_calls, "Let me check.");
  for (const bool logprobs : {false, true}) {
    reply = Say(model, AskWithTools(), StrCat("xa", kCall, "b and ab."),
                {.stop = {"ab"}, .logprobs = logprobs});
    EXPECT_EQ(Show(reply), StrCat("|xab and |", kTokyo, "|stop"));
    EXPECT_EQ(reply.before_calls, "xa");
  }
}

TEST(Conversation, MakesTheModelCallWhatIsRequired) {
  const TestModel model(MiniCpmText());
  const Reply reply = Say(model, AskWithTools(ToolChoice::kRequired), kCall);
  EXPECT_EQ(Show(reply), StrCat("||", kTokyo, "|stop"));
  // It wants to say something else, and cannot.
  ChatRequest named = AskWithTools(ToolChoice::kNamed);
  named.tool_name = "now";
  named.parallel_tool_calls = false;
  for (const char* wish : {"No.", kCall}) {
    EXPECT_EQ(Show(Say(model, named, wish)), "||now{}|stop") << wish;
  }
}

TEST(Conversation, LetsTheModelThinkBeforeARequiredCall) {
  const TestModel model(MiniCpmText());
  ChatRequest request = AskWithTools(ToolChoice::kRequired);
  EXPECT_EQ(Show(Say(model, request, StrCat("<think>free {text}</think>\n", kCall))),
            StrCat("free {text}||", kTokyo, "|stop"));
  request.thinking = {ThinkingMode::kOn, 3};
  const Prompt prompt = MustPrompt(model, request);
  EXPECT_TRUE(prompt.opens_thinking);
  Ids script = model.EncodeCharacters("abc");
  const Ids call = model.Encode(kCall);
  script.insert(script.end(), call.begin(), call.end());
  // The budget closes the channel, and the grammar begins behind it.
  EXPECT_EQ(Show(Say(model, prompt, script)), StrCat("abc||", kTokyo, "|stop"));
}

TEST(Conversation, HoldsBackFromCallsWithChoiceNone) {
  const TestModel model(MiniCpmText());
  const Reply reply =
      Say(model, AskWithTools(ToolChoice::kNone), StrCat("Well. ", kCall), {.max_tokens = 300});
  EXPECT_TRUE(reply.calls.empty());
  EXPECT_TRUE(reply.content.starts_with("Well. ")) << reply.content;
  EXPECT_EQ(reply.content.find("<function name"), std::string::npos) << reply.content;
}

TEST(Conversation, MakesOneCallIfCallsMustNotBeParallel) {
  const TestModel model(MiniCpmText());
  ChatRequest request = AskWithTools();
  request.parallel_tool_calls = false;
  EXPECT_NE(MustPrompt(model, request).plan.matcher, nullptr);
  const Reply reply = Say(model, request, StrCat("I ", kCall, kCall), {.max_tokens = 300});
  ASSERT_EQ(reply.calls.size(), 1U);
  EXPECT_EQ(reply.calls[0], kTokyo);
  EXPECT_EQ(Show(Say(model, request, "No call")), "|No call||stop");
}

TEST(Conversation, BindsTheArgumentsOfStrictTools) {
  const TestModel model(MiniCpmText());
  ChatRequest request = AskWithTools();
  request.tools_json = MustParse(R"([{"type": "function", "function": {"name": "f", "strict": true,
      "parameters": {"type": "object", "properties": {"n": {"type": "integer"}},
        "required": ["n"], "additionalProperties": false}}}])")
                           .AsArray();
  EXPECT_TRUE(MustPrompt(model, request).plan.calls_are_bound);
  EXPECT_EQ(
      Show(Say(model, request, "<function name=\"f\"><param name=\"n\">12</param></function>")),
      "||f{\"n\":12}|stop");
  const Reply reply =
      Say(model, request, "<function name=\"f\"><param name=\"n\">many</param></function>",
          {.max_tokens = 200});
  ASSERT_EQ(reply.calls.size(), 1U);
  const Json arguments = MustParse(reply.calls[0].substr(1));
  ASSERT_NE(arguments.Find("n"), nullptr) << reply.calls[0];
  EXPECT_TRUE(arguments.Find("n")->IsInt()) << reply.calls[0];
}

TEST(Conversation, EndsACallThatIsCutInTheMiddle) {
  const TestModel model(MiniCpmText());
  const Prompt prompt = MustPrompt(model, AskWithTools(ToolChoice::kRequired));
  const Ids script = model.Encode(kCall);
  bool begun = false;
  for (std::size_t most = 1; most < script.size(); ++most) {
    const Reply reply = Say(model, prompt, script, {.max_tokens = static_cast<std::int64_t>(most)});
    EXPECT_EQ(reply.end, "length") << most;  // Say checks that a call which begins ends, too
    begun = begun || !reply.calls.empty();
    if (reply.calls.empty()) continue;
    EXPECT_EQ(reply.content, "") << most;
  }
  EXPECT_TRUE(begun);
}

TEST(Conversation, RefusesChoicesThatCannotBe) {
  const TestModel model(MiniCpmText());
  ChatRequest request = AskHello();
  request.tool_choice = ToolChoice::kRequired;
  EXPECT_TRUE(PromptErrorText(model, request).starts_with("tool_choice: "));
  request = AskWithTools(ToolChoice::kNamed);
  request.tool_name = "other";
  EXPECT_TRUE(PromptErrorText(model, request).starts_with("tool_choice: "));
  request = AskWithTools();
  request.tools_json.push_back(request.tools_json[0]);
  EXPECT_TRUE(PromptErrorText(model, request).starts_with("tools: "));
}

// ---- formats

TEST(Conversation, BindsTheContentToASchema) {
  const TestModel model(TestText());
  const ChatRequest request = AskFor(FormatKind::kJsonSchema, kSchema);
  EXPECT_EQ(Show(Say(model, request, R"({"a": 12})")), R"(|{"a": 12}||stop)");
  EXPECT_EQ(Show(Say(model, request, R"({"a": "no"})", {.max_tokens = 8})).find("no"),
            std::string::npos);
}

TEST(Conversation, BindsTheContentBehindTheThinking) {
  const TestModel model(TestText());
  ChatRequest request = AskFor(FormatKind::kJsonSchema, kSchema);
  EXPECT_EQ(Show(Say(model, request, R"(<think>{"b": free}</think>{"a": 1})")),
            R"({"b": free}|{"a": 1}||stop)");
  request.thinking.mode = ThinkingMode::kOn;
  EXPECT_EQ(Show(Say(model, request, R"(so</think>{"a": 1})")), R"(so|{"a": 1}||stop)");
  EXPECT_EQ(
      Show(Say(model, MustPrompt(model, request), model.EncodeCharacters(R"(so</think>{"a": 1})"))),
      R"(so|{"a": 1}||stop)");
  request.thinking.budget_tokens = 1;
  EXPECT_EQ(Show(Say(model, MustPrompt(model, request), model.EncodePieces({"s", R"({"a": 1})"}))),
            R"(s|{"a": 1}||stop)");
  request.thinking = {ThinkingMode::kOff, {}};
  EXPECT_EQ(Show(Say(model, request, R"({"a": 1})")), R"(|{"a": 1}||stop)");
}

TEST(Conversation, OpensAChannelOfSeveralTokensForABoundAnswer) {
  runtime::TextSetup text = WithTemplate(TestText(), "{{ messages[0].content }}:");
  text.think_start = "[[why]]";
  text.think_end = "[[so]]";
  const TestModel model(std::move(text));
  ChatRequest request = AskFor(FormatKind::kJsonSchema, kSchema);
  EXPECT_EQ(MustPrompt(model, request).text, "hello:");
  request.thinking.mode = ThinkingMode::kOn;
  EXPECT_EQ(MustPrompt(model, request).text, "hello:[[why]]");
  EXPECT_EQ(
      Show(Say(model, MustPrompt(model, request), model.EncodeCharacters(R"(hm[[so]]{"a": 1})"))),
      R"(hm|{"a": 1}||stop)");
}

TEST(Conversation, BindsTheContentToOtherFormats) {
  const TestModel model(TestText());
  EXPECT_EQ(Show(Say(model, AskFor(FormatKind::kJsonObject, ""), R"({"x": [1, {}]})")),
            R"(|{"x": [1, {}]}||stop)");
  EXPECT_EQ(Show(Say(model, AskFor(FormatKind::kJsonObject, kSchema), R"({"a": 3})")),
            R"(|{"a": 3}||stop)");
  EXPECT_EQ(Show(Say(model, MustPrompt(model, AskFor(FormatKind::kRegex, "\\d{4}")),
                     model.EncodeCharacters("19845"))),
            "|1984||stop");
  EXPECT_EQ(Show(Say(model, AskFor(FormatKind::kLark, "start: \"yes\" | \"no\""), "no")),
            "|no||stop");
}

TEST(Conversation, SaysLengthForAFormatThatIsCut) {
  const TestModel model(TestText());
  const Reply reply = Say(model, AskFor(FormatKind::kJsonObject, ""),
                          R"({"some": "text that is long"})", {.max_tokens = 5});
  EXPECT_EQ(reply.end, "length");
  EXPECT_FALSE(ParseJson(reply.content).ok());
}

TEST(Conversation, RefusesFormatsBeforeAnythingIsGenerated) {
  const TestModel model(MiniCpmText());
  std::vector<ChatRequest> wrong = {
      AskFor(FormatKind::kRegex, "(a"),
      AskFor(FormatKind::kRegex, "^hello\\!(?=x)$"),
      AskFor(FormatKind::kLark, "start: missing"),
      AskFor(FormatKind::kJsonSchema, R"({"type": "what"})"),
      AskFor(FormatKind::kJsonSchema, R"({"$ref": "#/$defs/none"})"),
      AskHello(),
  };
  wrong.back().format.kind = FormatKind::kJsonSchema;  // without a schema
  for (ChatRequest& request : wrong) {
    EXPECT_TRUE(PromptErrorText(model, request).starts_with("response_format: "))
        << PromptErrorText(model, request);
    // Also where the answer will be a call.
    request.tools_json = MustParse(kTools).AsArray();
    request.tool_choice = ToolChoice::kRequired;
    EXPECT_TRUE(PromptErrorText(model, request).starts_with("response_format: "));
  }
}

TEST(Conversation, AnswersInTheFormatOrCallsATool) {
  const TestModel model(MiniCpmText());
  struct Case {
    FormatKind kind;
    const char *format, *text;
  };
  const Case cases[] = {{FormatKind::kJsonSchema, kSchema, R"({"a": 1})"},
                        {FormatKind::kJsonObject, "", R"({"b": {}})"},
                        {FormatKind::kRegex, "a/b|\\d+ ?", "a/b"},
                        {FormatKind::kLark, "start: word\nword: \"yes\" | \"no\"", "yes"}};
  for (const Case& c : cases) {
    ChatRequest request = AskFor(c.kind, c.format);
    request.tools_json = MustParse(kTools).AsArray();
    EXPECT_EQ(Show(Say(model, request, c.text)), StrCat("|", c.text, "||stop"));
    EXPECT_EQ(Show(Say(model, request, kCall)), StrCat("||", kTokyo, "|stop"));
    const Reply other = Say(model, request, "Neither of them.", {.max_tokens = 3});
    EXPECT_EQ(other.content.find("Nei"), std::string::npos) << other.content;
    request.tool_choice = ToolChoice::kNone;
    EXPECT_EQ(Show(Say(model, request, c.text)), StrCat("|", c.text, "||stop"));
  }
}

// Families whose calls are JSON, as a bundle names them; the template only shows the tools.
TEST(Conversation, BindsCallsAndFormatsOfOtherFamilies) {
  const std::string source = "{{ tools | tojson if tools }}{{ messages[0].content }}";
  struct Case {
    const char *family, *call;
  };
  const Case cases[] = {
      {"hermes",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}\n"
       "</tool_call>"},
      {"llama3_json", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Tokyo\"}}"},
      {"pythonic", "[get_weather(city=\"Tokyo\")]"},
      {"mistral_args", "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Tokyo\"}"}};
  for (const bool special : {false, true}) {
    for (const Case& c : cases) {
      runtime::TextSetup text = WithTemplate(TestText(), source);
      if (special) {
        text = WithSpecialTokens(
            std::move(text), {"<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<think>"});
      }
      const TestModel model(std::move(text), /*context=*/4000, c.family);
      ChatRequest request = AskWithTools();
      const bool bare = model.chat->family()->bare;
      for (const ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired}) {
        request.tool_choice = choice;
        if (choice == ToolChoice::kRequired || !bare) {
          request.format = AskFor(FormatKind::kJsonSchema, kSchema).format;
        }
        const Reply reply = Say(model, request, StrCat("<think>hm</think>", c.call));
        ASSERT_EQ(reply.calls.size(), 1U) << c.family << " " << Show(reply);
        EXPECT_EQ(MustParse(reply.calls[0].substr(reply.calls[0].find('{'))).Dump(),
                  "{\"city\":\"Tokyo\"}")
            << c.family;
        EXPECT_EQ(reply.content, "") << c.family;
        EXPECT_EQ(reply.thinking, "hm") << c.family;
      }
      request.tool_choice = bare ? ToolChoice::kNone : ToolChoice::kAuto;
      EXPECT_EQ(Show(Say(model, request, R"({"a": 1})")), R"(|{"a": 1}||stop)") << c.family;
      if (!bare) continue;
      request.tool_choice = ToolChoice::kAuto;
      EXPECT_TRUE(PromptErrorText(model, request).starts_with("response_format: this model"));
    }
  }
}

TEST(Conversation, AnswersOfOnePlanDoNotShareItsState) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, AskFor(FormatKind::kRegex, "ab|cd"));
  EXPECT_EQ(Say(model, prompt, model.EncodeCharacters("ab")).content, "ab");
  EXPECT_EQ(Say(model, prompt, model.EncodeCharacters("cd")).content, "cd");
}

// ---- a conversation, compared with what jinja2 renders (tools/check_templates.py)

std::string RenderOf(const TestModel& model, const Json& context, const Json::Array& messages) {
  ChatRequest request;
  request.messages = messages;
  if (const Json* tools = context.Find("tools")) request.tools_json = tools->AsArray();
  request.thinking.mode =
      context.Find("enable_thinking")->AsBool() ? ThinkingMode::kOn : ThinkingMode::kOff;
  const Prompt prompt = MustPrompt(model, request);
  EXPECT_EQ(model.Decode(prompt.ids), prompt.text);
  return prompt.text;
}

Json AnswerMessage(const Reply& reply) {
  Json message(Json::Object{{"role", Json("assistant")},
                            {"content", Json(reply.content)},
                            {"reasoning_content", Json(reply.thinking)}});
  Json::Array calls;
  for (const std::string& call : reply.calls) {
    const std::size_t name_bytes = call.find('{');
    const Json function(Json::Object{{"name", Json(call.substr(0, name_bytes))},
                                     {"arguments", Json(call.substr(name_bytes))}});
    calls.push_back(Json(Json::Object{{"type", Json("function")}, {"function", function}}));
  }
  if (!calls.empty()) message.Set("tool_calls", Json(std::move(calls)));
  return message;
}

TEST(Conversation, GoesThroughCallsAndResultsAsTheTemplateOfMiniCpm5Wants) {
  const TestModel model(MiniCpmText());
  const Json golden = MustParse(MustReadFile(HONE_TESTDATA "/templates/conversation.json"));
  const Json::Array& cases = golden.Find("cases")->AsArray();
  ASSERT_EQ(cases.size(), 4U);
  const auto context = [&](std::size_t i) -> const Json& { return *cases[i].Find("context"); };
  const auto expect = [&](std::size_t i) { return cases[i].Find("expect")->AsString(); };

  Json::Array messages = context(0).Find("messages")->AsArray();
  EXPECT_EQ(RenderOf(model, context(0), messages), expect(0));

  ChatRequest request;
  request.messages = messages;
  request.tools_json = context(0).Find("tools")->AsArray();
  request.thinking.mode = ThinkingMode::kOn;
  const Reply call =
      Say(model, request,
          "They want the weather.\nSo I call.\n</think>\n\nI will look.\n"
          "<function name=\"get_weather\"><param name=\"city\">"
          "<![CDATA[Paris & <Lyon>]]></param><param name=\"days\">3</param></function>\n"
          "<function name=\"run\"><param name=\"code\"><![CDATA[if (a<b) {\n x&&y }]]>"
          "</param><param name=\"fast\">true</param></function>");
  EXPECT_EQ(Show(call),
            "They want the weather.\nSo I call.|I will look.|"
            R"(get_weather{"city":"Paris & <Lyon>","days":3} )"
            R"(run{"code":"if (a<b) {\n x&&y }","fast":true}|stop)");
  messages.push_back(AnswerMessage(call));
  messages.push_back(MustParse(R"({"role": "tool", "tool_call_id": "c1", "content": "21 C"})"));
  messages.push_back(MustParse(R"({"role": "tool", "tool_call_id": "c2", "content": "ok"})"));
  EXPECT_EQ(RenderOf(model, context(1), messages), expect(1));

  request.messages = messages;
  const Reply answer = Say(model, request, "It is warm.</think>Yes, 21 C.");
  EXPECT_EQ(Show(answer), "It is warm.|Yes, 21 C.||stop");
  messages.push_back(AnswerMessage(answer));
  messages.push_back(MustParse(R"({"role": "user", "content": "Thanks"})"));
  // The template leaves the thinking of earlier turns out.
  EXPECT_EQ(RenderOf(model, context(2), messages), expect(2));
  EXPECT_EQ(expect(2).find("It is warm."), std::string::npos);

  EXPECT_EQ(RenderOf(model, context(3), context(3).Find("messages")->AsArray()), expect(3));
}

}  // namespace
}  // namespace hone::chat
