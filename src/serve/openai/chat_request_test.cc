// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "serve/openai/openai_test_util.h"

namespace hone::serve::openai {
namespace {

using namespace std::string_literals;

GenerateCall Read(const std::string& more) { return MustRead(ReadChatCall, Chat(more)); }
ApiError Fail(const std::string& more) { return MustFail(ReadChatCall, Chat(more)); }
std::string Param(const std::string& more) { return Fail(more).param; }

std::string Messages(const std::string& list) { return "{'messages':" + list + "}"; }
ApiError MessagesFail(const std::string& list) { return MustFail(ReadChatCall, Messages(list)); }
ChatInput MessagesRead(const std::string& list) {
  return *MustRead(ReadChatCall, Messages(list)).generate.chat;
}
// A user, an assistant message with these members and a tool's answer.
std::string AfterUser(const std::string& assistant) {
  return "[{'role':'user','content':'q'},{'role':'assistant'," + assistant +
         "},{'role':'tool','tool_call_id':'c1','content':'5'}]";
}
const char* const kCall =
    "'tool_calls':[{'id':'c1','type':'function','function':{'name':'add',"
    "'arguments':'{\\'a\\': 2, \\'b\\': 3}'}}]";

TEST(ChatRequest, TheBaseRequestNeedsNothingElse) {
  const GenerateCall call = Read("'max_tokens':16");
  const GenerateRequest& request = call.generate;
  EXPECT_EQ(request.model, "m");
  ASSERT_TRUE(request.chat);
  EXPECT_EQ(Json(request.chat->messages).Dump(), R"([{"role":"user","content":"Say hi"}])");
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.n, 1);
  EXPECT_FALSE(request.sampling.top_p || request.sampling.seed || request.sampling.top_k);
  EXPECT_EQ(request.chat->tool_mode, ToolMode::kNone);
  EXPECT_FALSE(call.reply.stream);
}

TEST(ChatRequest, S1AnAssistantMessageWithCallsMayHaveNoContent) {
  for (const char* content : {"'content':null,", "", "'content':'',", "'content':[],"}) {
    const ChatInput chat = MessagesRead(AfterUser(content + std::string(kCall)));
    ASSERT_EQ(chat.messages.size(), 3U) << content;
    const Json& assistant = chat.messages[1];
    EXPECT_EQ(TextAt(assistant, "tool_calls[0].function.arguments"), R"({"a":2,"b":3})");
    EXPECT_EQ(TextAt(assistant, "tool_calls[0].id"), "c1");
    const Json* text = assistant.Find("content");
    EXPECT_TRUE(text == nullptr || text->AsString().empty()) << content;
    EXPECT_EQ(TextAt(chat.messages[2], "tool_call_id"), "c1");
  }
}

TEST(ChatRequest, S1WhatTheServerSentComesBack) {
  // Thinking cut by max_tokens: content null. Members that SDKs add are null.
  const ChatInput chat = MessagesRead(
      "[{'role':'user','content':'q'},{'role':'assistant','content':null,'refusal':null,"
      "'annotations':[],'audio':null,'function_call':null,'tool_calls':null,"
      "'reasoning_content':'hm'},{'role':'user','content':'go on'}]");
  EXPECT_EQ(chat.messages[1].Dump(), R"({"role":"assistant","reasoning_content":"hm"})");
  // Streamed calls have an index.
  MessagesRead(
      AfterUser("'tool_calls':[{'index':0,'id':'c1','type':'function','function':"
                "{'name':'f','arguments':''}}]"));
}

TEST(ChatRequest, ReadsWhatLmEvalSends) {
  const GenerateCall call = MustRead(
      ReadChatCall,
      "{'messages':[{'role':'user','content':'2+3?','type':'text'}],'model':'m','max_tokens':256,"
      "'temperature':0,'stop':['Question:','</s>','<|im_end|>'],'seed':1234}");
  EXPECT_EQ(Json(call.generate.chat->messages).Dump(), R"([{"role":"user","content":"2+3?"}])");
  EXPECT_EQ(call.generate.stop.size(), 3U);
}

TEST(ChatRequest, ContentThatIsMissingOrOfAnotherTypeIsNamed) {
  EXPECT_EQ(MessagesFail("[{'role':'user'}]").param, "messages[0].content");
  EXPECT_EQ(MessagesFail("[{'role':'user','content':null}]").code, "missing_required_parameter");
  EXPECT_EQ(MessagesFail("[{'role':'assistant','content':null}]").param, "messages[0].content");
  for (const char* content : {"[]", "{}", "5", "true"}) {
    EXPECT_EQ(MessagesFail(StrCat("[{'role':'user','content':", content, "}]")).param,
              "messages[0].content")
        << content;
  }
  EXPECT_EQ(MessagesFail("[{'role':'user','content':['a']}]").param, "messages[0].content[0]");
  EXPECT_EQ(MessagesFail("[{'role':'user','content':[{'text':'a'}]}]").param,
            "messages[0].content[0].type");
  EXPECT_EQ(MessagesFail("[{'role':'user','content':[{'type':'text'}]}]").param,
            "messages[0].content[0].text");
  EXPECT_EQ(MessagesFail("[{'role':'user','content':[{'type':'text','text':5}]}]").param,
            "messages[0].content[0].text");
}

TEST(ChatRequest, S12TextPartsStayAListAndImagesAreRefusedByTheirPath) {
  const ChatInput chat = MessagesRead(
      "[{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':'b'}]}]");
  EXPECT_EQ(chat.messages[0].Find("content")->Dump(),
            R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])");
  const ApiError error = MessagesFail(
      "[{'role':'system','content':'s'},{'role':'user','content':'a'},{'role':'user','content':"
      "[{'type':'image_url','image_url':{'url':'data:,'}},{'type':'text','text':'b'}]}]");
  EXPECT_EQ(error.param, "messages[2].content[0].type");
  EXPECT_NE(error.message.find("image_url"), std::string::npos) << error.message;
  EXPECT_EQ(MessagesFail("[{'role':'user','content':[{'type':'input_audio'}]}]").param,
            "messages[0].content[0].type");
}

TEST(ChatRequest, RolesAreChecked) {
  EXPECT_EQ(MessagesRead("[{'role':'developer','content':'s'}]").messages[0].Dump(),
            R"({"role":"system","content":"s"})");
  EXPECT_EQ(MessagesFail("[{'content':'x'}]").param, "messages[0].role");
  EXPECT_EQ(MessagesFail("[{'role':'bot','content':'x'}]").param, "messages[0].role");
  EXPECT_EQ(MessagesFail("[{'role':7,'content':'x'}]").param, "messages[0].role");
  EXPECT_NE(MessagesFail("[{'role':'function','name':'f','content':'x'}]").message.find("tool"),
            std::string::npos);
  EXPECT_EQ(MessagesFail("[]").param, "messages");
  EXPECT_EQ(MustFail(ReadChatCall, "{'model':'m'}").param, "messages");
  EXPECT_EQ(MustFail(ReadChatCall, "{'messages':'hi'}").param, "messages");
  EXPECT_EQ(MessagesFail("['hi']").param, "messages[0]");
}

TEST(ChatRequest, FieldsOfOneRoleAreRefusedInOthers) {
  EXPECT_EQ(MessagesFail("[{'role':'tool','content':'x'}]").param, "messages[0].tool_call_id");
  EXPECT_EQ(MessagesFail("[{'role':'tool','content':'x','tool_call_id':''}]").param,
            "messages[0].tool_call_id");
  EXPECT_EQ(MessagesFail("[{'role':'user','content':'x','tool_call_id':'c'}]").param,
            "messages[0].tool_call_id");
  EXPECT_EQ(MessagesFail("[{'role':'user','content':'x',"s + kCall + "}]").param,
            "messages[0].tool_calls");
  EXPECT_EQ(MessagesFail("[{'role':'user','content':'x','reasoning_content':'y'}]").param,
            "messages[0].reasoning_content");
}

TEST(ChatRequest, ArgumentsOfCallsAreDecodedOnce) {
  const auto arguments = [](const std::string& value) {
    const ChatInput chat =
        MessagesRead(AfterUser("'tool_calls':[{'id':'c1','function':{'name':'f'" + value + "}}]"));
    return TextAt(chat.messages[1], "tool_calls[0].function.arguments");
  };
  EXPECT_EQ(arguments(",'arguments':'{\\'city\\':\\'Paris\\',\\'n\\':3}'"),
            R"({"city":"Paris","n":3})");
  EXPECT_EQ(arguments(",'arguments':{'a':1}"), R"({"a":1})");
  // Once: a string inside stays a string.
  EXPECT_EQ(arguments(",'arguments':'{\\'a\\':\\'{}\\'}'"), R"({"a":"{}"})");
  for (const char* none :
       {"", ",'arguments':''", ",'arguments':null", ",'arguments':'null'", ",'arguments':' '"}) {
    EXPECT_EQ(arguments(none), "{}") << none;
  }
  for (const char* bad : {"'[1]'", "'{bad'", "5", "[]", "'5'"}) {
    EXPECT_EQ(
        MessagesFail(AfterUser("'tool_calls':[{'id':'c1','function':{'name':'f','arguments':"s +
                               bad + "}}]"))
            .param,
        "messages[1].tool_calls[0].function.arguments")
        << bad;
  }
}

TEST(ChatRequest, CallsOfMessagesAreChecked) {
  const auto param = [](const std::string& call) {
    return MessagesFail(AfterUser("'tool_calls':[" + call + "]")).param;
  };
  EXPECT_EQ(param("{'function':{'name':'f'}}"), "messages[1].tool_calls[0].id");
  EXPECT_EQ(param("{'id':'','function':{'name':'f'}}"), "messages[1].tool_calls[0].id");
  EXPECT_EQ(param("{'id':'c'}"), "messages[1].tool_calls[0].function");
  EXPECT_EQ(param("{'id':'c','function':{}}"), "messages[1].tool_calls[0].function.name");
  EXPECT_EQ(param("{'id':'c','type':'custom','function':{'name':'f'}}"),
            "messages[1].tool_calls[0].type");
  EXPECT_EQ(param("5"), "messages[1].tool_calls[0]");
}

TEST(ChatRequest, S5BothNamesOfTheTokenLimit) {
  EXPECT_EQ(Read("'max_completion_tokens':9").generate.max_tokens, 9);
  EXPECT_EQ(Read("'max_tokens':9,'max_completion_tokens':9").generate.max_tokens, 9);
  EXPECT_EQ(Param("'max_tokens':9,'max_completion_tokens':8"), "max_completion_tokens");
  EXPECT_FALSE(Read("'max_tokens':null").generate.max_tokens.has_value());
  // A real limit, not "no limit".
  EXPECT_EQ(Read("'max_tokens':0").generate.max_tokens, 0);
  EXPECT_EQ(Read("'max_tokens':16.0").generate.max_tokens, 16);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    for (const char* bad : {"-1", "1.5", "'16'", "true", "1e12", "[]", "99999999999999999999"}) {
      EXPECT_EQ(Param(StrCat("'", name, "':", bad)), name) << bad;
    }
  }
}

TEST(ChatRequest, S6Stop) {
  using Stops = std::vector<std::string>;
  EXPECT_EQ(Read("'stop':'x'").generate.stop, Stops{"x"});
  EXPECT_EQ(Read("'stop':['O P Q','b']").generate.stop, (Stops{"O P Q", "b"}));
  EXPECT_TRUE(Read("'stop':[]").generate.stop.empty());
  EXPECT_TRUE(Read("'stop':null").generate.stop.empty());
  EXPECT_EQ(Read("'stop':['1','2','3','4','5']").generate.stop.size(), 5U);
  EXPECT_EQ(Param("'stop':['']"), "stop[0]");
  EXPECT_EQ(Param("'stop':''"), "stop");
  EXPECT_EQ(Param("'stop':['a',5]"), "stop[1]");
  EXPECT_EQ(Param("'stop':5"), "stop");
  std::string many = "'stop':['0'";
  for (int i = 1; i <= 16; ++i) many += StrCat(",'", i, "'");
  EXPECT_EQ(Param(many + "]"), "stop");
}

TEST(ChatRequest, SamplingFieldsHaveTheirRanges) {
  const SamplingFields sampling =
      Read(
          "'top_p':0.9,'top_k':40,'min_p':0.05,'presence_penalty':-2,'frequency_penalty':2,"
          "'repetition_penalty':1.1,'seed':-7,'logit_bias':{'5':-100,'6':1.5}")
          .generate.sampling;
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.min_p, 0.05);
  EXPECT_EQ(sampling.presence_penalty, -2);
  EXPECT_EQ(sampling.frequency_penalty, 2);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
  EXPECT_EQ(sampling.seed, -7);
  EXPECT_EQ(sampling.logit_bias, (std::map<std::int32_t, double>{{5, -100}, {6, 1.5}}));
  EXPECT_EQ(Read("'top_k':-1").generate.sampling.top_k, 0);
  EXPECT_EQ(Read("'seed':9223372036854775807").generate.sampling.seed, INT64_MAX);
  constexpr std::pair<const char*, const char*> kBad[] = {{"top_p", "1.01"},
                                                          {"top_p", "-0.1"},
                                                          {"top_p", "'1'"},
                                                          {"top_k", "-2"},
                                                          {"top_k", "1.5"},
                                                          {"min_p", "2"},
                                                          {"presence_penalty", "3"},
                                                          {"frequency_penalty", "-3"},
                                                          {"repetition_penalty", "0"},
                                                          {"repetition_penalty", "-1"},
                                                          {"seed", "1.5"},
                                                          {"seed", "18446744073709551615"},
                                                          {"seed", "'7'"},
                                                          {"n", "0"},
                                                          {"n", "17"},
                                                          {"n", "true"},
                                                          {"logit_bias", "[]"},
                                                          {"stream", "1"},
                                                          {"stream", "'true'"},
                                                          {"logprobs", "1"},
                                                          {"parallel_tool_calls", "0"}};
  for (const auto& [name, value] : kBad) {
    EXPECT_EQ(Param(StrCat("'", name, "':", value)), name) << value;
  }
  EXPECT_EQ(Param("'logit_bias':{'a':1}"), "logit_bias.a");
  EXPECT_EQ(Param("'logit_bias':{'-1':1}"), "logit_bias.-1");
  EXPECT_EQ(Param("'logit_bias':{'5':101}"), "logit_bias.5");
  EXPECT_EQ(Param("'logit_bias':{'5':'1'}"), "logit_bias.5");
  EXPECT_EQ(Param("'logit_bias':{'5':1,'05':2}"), "logit_bias.05");
  EXPECT_EQ(MustFail(ReadChatCall, "{'messages':[{'role':'user','content':'x'}],'temperature':2.1}")
                .message,
            "temperature: found 2.1, expected a number from 0 to 2");
}

TEST(ChatRequest, S11LogprobsFields) {
  EXPECT_TRUE(Read("'logprobs':true").generate.logprobs);
  EXPECT_EQ(Read("'logprobs':true").generate.top_logprobs, 0);
  EXPECT_EQ(Read("'logprobs':true,'top_logprobs':3").generate.top_logprobs, 3);
  EXPECT_EQ(Param("'top_logprobs':3"), "top_logprobs");
  EXPECT_EQ(Param("'logprobs':false,'top_logprobs':3"), "top_logprobs");
  EXPECT_EQ(Param("'logprobs':true,'top_logprobs':21"), "top_logprobs");
  EXPECT_EQ(Param("'logprobs':true,'top_logprobs':-1"), "top_logprobs");
  // With tools and a stream too.
  Read("'logprobs':true,'stream':true,'tools':[{'type':'function','function':{'name':'f'}}]");
}

TEST(ChatRequest, StreamOptionsBelongToStreams) {
  EXPECT_TRUE(Read("'stream':true,'stream_options':{'include_usage':true}").reply.include_usage);
  EXPECT_FALSE(Read("'stream':true").reply.include_usage);
  EXPECT_EQ(Param("'stream_options':{'include_usage':true}"), "stream_options");
  EXPECT_EQ(Param("'stream':true,'stream_options':{'include_usage':1}"),
            "stream_options.include_usage");
  EXPECT_EQ(Param("'stream':true,'stream_options':{'usage':true}"), "stream_options.usage");
}

const char* const kTool =
    "'tools':[{'type':'function','function':{'name':'add','description':'adds','parameters':"
    "{'type':'object','properties':{'a':{'type':'integer'}}}}}]";

TEST(ChatRequest, ToolsAreReadAndKeptAsGiven) {
  const ChatInput chat = *Read(kTool).generate.chat;
  ASSERT_EQ(chat.tools.size(), 1U);
  EXPECT_EQ(chat.tools[0].name, "add");
  EXPECT_EQ(chat.tools[0].description, "adds");
  EXPECT_EQ(TextAt(chat.tools[0].parameters, "properties.a.type"), "integer");
  EXPECT_EQ("'tools':" + Json(chat.tools_json).Dump(),
            "'tools':" + Quoted(std::string(kTool).substr(8)));
  EXPECT_EQ(chat.tool_mode, ToolMode::kAuto);
  EXPECT_TRUE(chat.parallel_tool_calls);
  EXPECT_TRUE(Read("'tools':[]").generate.chat->tools.empty());
  EXPECT_EQ(Param("'tools':{}"), "tools");
  EXPECT_EQ(Param("'tools':[5]"), "tools[0]");
  EXPECT_EQ(Param("'tools':[{'function':{'name':'f'}}]"), "tools[0].type");
  EXPECT_EQ(Param("'tools':[{'type':'web_search','filters':{}}]"), "tools[0].type");
  EXPECT_EQ(Param("'tools':[{'type':'function'}]"), "tools[0].function");
  EXPECT_EQ(Param("'tools':[{'type':'function','function':{}}]"), "tools[0].function.name");
  EXPECT_EQ(Param("'tools':[{'type':'function','function':{'name':'a b'}}]"),
            "tools[0].function.name");
  EXPECT_EQ(Param("'tools':[{'type':'function','function':{'name':'f','parameters':'{}'}}]"),
            "tools[0].function.parameters");
  EXPECT_EQ(Param("'tools':[{'type':'function','function':{'name':'f'}},"
                  "{'type':'function','function':{'name':'f'}}]"),
            "tools[1].function.name");
}

TEST(ChatRequest, ToolChoice) {
  const auto mode = [](const std::string& choice) {
    return Read(kTool + ",'tool_choice':"s + choice).generate.chat->tool_mode;
  };
  EXPECT_EQ(mode("'none'"), ToolMode::kNone);
  EXPECT_EQ(mode("'auto'"), ToolMode::kAuto);
  EXPECT_EQ(mode("null"), ToolMode::kAuto);
  EXPECT_EQ(mode("'required'"), ToolMode::kRequired);
  const ChatInput named =
      *Read(kTool + ",'tool_choice':{'type':'function','function':{'name':'add'}}"s).generate.chat;
  EXPECT_EQ(named.tool_mode, ToolMode::kNamed);
  EXPECT_EQ(named.tool_name, "add");
  const auto param = [](const std::string& choice) {
    return Param(kTool + ",'tool_choice':"s + choice);
  };
  EXPECT_EQ(param("'any'"), "tool_choice");
  EXPECT_EQ(param("5"), "tool_choice");
  EXPECT_EQ(param("{'type':'function','function':{'name':'sub'}}"), "tool_choice.function.name");
  EXPECT_EQ(param("{'type':'function'}"), "tool_choice.function");
  EXPECT_EQ(param("{'type':'allowed_tools'}"), "tool_choice.type");
  EXPECT_EQ(Param("'tool_choice':'required'"), "tool_choice");
  EXPECT_EQ(Read("'tool_choice':'auto'").generate.chat->tool_mode, ToolMode::kNone);
  EXPECT_FALSE(Read(kTool + ",'parallel_tool_calls':false"s).generate.chat->parallel_tool_calls);
}

TEST(ChatRequest, S4ResponseFormat) {
  const auto format = [](const std::string& text) {
    return Read("'response_format':" + text).generate.chat->format;
  };
  const auto param = [](const std::string& text) { return Param("'response_format':" + text); };
  EXPECT_EQ(format("{'type':'text'}").kind, FormatKind::kText);
  EXPECT_EQ(format("{'type':'json_object'}").kind, FormatKind::kJsonObject);
  const OutputFormat schema = format(
      "{'type':'json_schema','json_schema':{'name':'r','strict':true,'schema':{'type':'object'}}}");
  EXPECT_EQ(schema.kind, FormatKind::kJsonSchema);
  EXPECT_EQ(schema.schema.Dump(), R"({"type":"object"})");
  // Without the wrapper: the same, never an empty schema.
  EXPECT_EQ(format("{'type':'json_schema','schema':{'type':'object'}}").schema.Dump(),
            R"({"type":"object"})");
  EXPECT_EQ(format("{'type':'json_object','schema':{'type':'object'}}").schema.Dump(),
            R"({"type":"object"})");
  EXPECT_EQ(format("{'type':'regex','regex':'^a$'}").text, "^a$");
  EXPECT_EQ(format("{'type':'grammar','grammar':'start: A'}").kind, FormatKind::kGrammar);
  EXPECT_EQ(param("{'type':'json_schema','json_schema':{'name':'r'}}"),
            "response_format.json_schema.schema");
  EXPECT_EQ(param("{'type':'json_schema','json_schema':{'name':'r','schema':'{}'}}"),
            "response_format.json_schema.schema");
  EXPECT_EQ(param("{'type':'json_schema'}"), "response_format.json_schema");
  EXPECT_EQ(param("{'type':'json_schema','schema':{},'json_schema':{'schema':{}}}"),
            "response_format.schema");
  EXPECT_EQ(param("{'type':'xml'}"), "response_format.type");
  EXPECT_EQ(param("{}"), "response_format.type");
  EXPECT_EQ(param("'json_object'"), "response_format");
  EXPECT_EQ(param("{'type':'regex'}"), "response_format.regex");
  // A member that would do nothing.
  EXPECT_EQ(param("{'type':'text','schema':{}}"), "response_format.schema");
  EXPECT_EQ(param("{'type':'json_object','json_schema':{'schema':{}}}"),
            "response_format.json_schema");
  EXPECT_EQ(param("{'type':'text','regex':'a'}"), "response_format.regex");
}

TEST(ChatRequest, S13Thinking) {
  const auto thinking = [](const std::string& more) { return Read(more).generate.chat->thinking; };
  EXPECT_EQ(thinking("'n':1").mode, ThinkMode::kDefault);
  EXPECT_EQ(thinking("'reasoning_effort':'none'").mode, ThinkMode::kOff);
  EXPECT_EQ(thinking("'reasoning_effort':'minimal'").budget_tokens, 256);
  EXPECT_EQ(thinking("'reasoning_effort':'low'").budget_tokens, 1024);
  EXPECT_EQ(thinking("'reasoning_effort':'medium'").budget_tokens, 4096);
  EXPECT_EQ(thinking("'reasoning_effort':'high'").mode, ThinkMode::kOn);
  EXPECT_FALSE(thinking("'reasoning_effort':'high'").budget_tokens.has_value());
  EXPECT_EQ(thinking("'reasoning_effort':'high'").field, "reasoning_effort");
  EXPECT_EQ(thinking("'chat_template_kwargs':{'enable_thinking':true}").field,
            "chat_template_kwargs.enable_thinking");
  EXPECT_EQ(thinking("'thinking_budget':50").budget_tokens, 50);
  EXPECT_EQ(thinking("'thinking_budget':50").mode, ThinkMode::kOn);
  EXPECT_EQ(thinking("'thinking_budget':0").mode, ThinkMode::kOff);
  EXPECT_EQ(thinking("'chat_template_kwargs':{'enable_thinking':false}").mode, ThinkMode::kOff);
  EXPECT_EQ(thinking("'chat_template_kwargs':{'enable_thinking':true}").mode, ThinkMode::kOn);
  EXPECT_EQ(thinking("'chat_template_kwargs':{'enable_thinking':null}").mode, ThinkMode::kDefault);
  const GenerateCall top_level = Read("'enable_thinking':false");
  EXPECT_EQ(top_level.generate.chat->thinking.mode, ThinkMode::kOff);
  ASSERT_EQ(top_level.reply.warnings.size(), 1U);
  EXPECT_NE(top_level.reply.warnings[0].find("chat_template_kwargs"), std::string::npos);
  EXPECT_EQ(Param("'reasoning_effort':'max'"), "reasoning_effort");
  EXPECT_EQ(Param("'reasoning_effort':false"), "reasoning_effort");
  EXPECT_EQ(Param("'thinking_budget':-1"), "thinking_budget");
}

TEST(ChatRequest, T11EnableThinkingIsTrueOrFalse) {
  for (const char* bad : {"'false'", "0", "1", "'true'", "[]"}) {
    EXPECT_EQ(Param("'chat_template_kwargs':{'enable_thinking':"s + bad + "}"),
              "chat_template_kwargs.enable_thinking")
        << bad;
    EXPECT_EQ(Param("'enable_thinking':"s + bad), "enable_thinking") << bad;
  }
}

TEST(ChatRequest, S13ContradictionsAboutThinkingAreRefused) {
  const char* off = "'chat_template_kwargs':{'enable_thinking':false}";
  const char* on = "'chat_template_kwargs':{'enable_thinking':true}";
  EXPECT_EQ(Param("'reasoning_effort':'high',"s + off), "chat_template_kwargs.enable_thinking");
  EXPECT_EQ(Param("'reasoning_effort':'none',"s + on), "chat_template_kwargs.enable_thinking");
  EXPECT_EQ(Param("'thinking_budget':5,"s + off), "chat_template_kwargs.enable_thinking");
  EXPECT_EQ(Param("'enable_thinking':true,"s + off), "chat_template_kwargs.enable_thinking");
  EXPECT_EQ(Param("'thinking_budget':5,'reasoning_effort':'low'"), "thinking_budget");
  EXPECT_EQ(Param("'thinking_budget':5,'reasoning_effort':'none'"), "thinking_budget");
  EXPECT_EQ(Read("'reasoning_effort':'none',"s + off).generate.chat->thinking.mode,
            ThinkMode::kOff);
  EXPECT_EQ(Read("'thinking_budget':5,"s + on).generate.chat->thinking.budget_tokens, 5);
}

TEST(ChatRequest, OtherTemplateVariablesAreKeptButNotThoseOfTheServer) {
  const ChatInput chat =
      *Read("'chat_template_kwargs':{'enable_thinking':true,'style':['x']}").generate.chat;
  EXPECT_EQ(Json(chat.template_kwargs).Dump(), R"({"style":["x"]})");
  EXPECT_EQ(Param("'chat_template_kwargs':{'messages':[]}"), "chat_template_kwargs.messages");
  EXPECT_EQ(Param("'chat_template_kwargs':{'bos_token':'x'}"), "chat_template_kwargs.bos_token");
  EXPECT_EQ(Param("'chat_template_kwargs':[]"), "chat_template_kwargs");
}

TEST(ChatRequest, PredictionAndReasoningFormat) {
  EXPECT_EQ(Read("'prediction':{'type':'content','content':'abc'}").generate.chat->prediction,
            "abc");
  EXPECT_EQ(Read("'prediction':{'type':'content','content':[{'type':'text','text':'a'},"
                 "{'type':'text','text':'b'}]}")
                .generate.chat->prediction,
            "ab");
  EXPECT_EQ(Param("'prediction':{'type':'x','content':'a'}"), "prediction.type");
  EXPECT_EQ(Param("'prediction':{'type':'content'}"), "prediction.content");
  EXPECT_TRUE(Read("'reasoning_format':'none'").reply.inline_thinking);
  EXPECT_FALSE(Read("'reasoning_format':'deepseek'").reply.inline_thinking);
  EXPECT_EQ(Param("'reasoning_format':'x'"), "reasoning_format");
}

TEST(ChatRequest, UnknownFieldsAreRefusedByTheirPath) {
  const ApiError error = Fail("'max_token':5");
  EXPECT_EQ(error.param, "max_token");
  EXPECT_EQ(error.code, "unknown_parameter");
  EXPECT_EQ(MessagesFail("[{'role':'user','content':'x','foo':1}]").param, "messages[0].foo");
  EXPECT_EQ(
      MessagesFail("[{'role':'user','content':[{'type':'text','text':'x','cache':1}]}]").param,
      "messages[0].content[0].cache");
  EXPECT_EQ(Param("'tools':[{'type':'function','function':{'name':'f','foo':1}}]"),
            "tools[0].function.foo");
  EXPECT_EQ(Param("'':1"), "[\"\"]");
  EXPECT_EQ(Param("'" + std::string(100000, 'k') + "':1"), std::string(64, 'k') + "...");
  // null is the same as absent.
  Read("'foo':null");
}

TEST(ChatRequest, ALenientReaderListsWhatItLeavesOut) {
  ReadOptions lenient;
  lenient.lenient = true;
  const GenerateCall call = MustRead(
      ReadChatCall,
      "{'messages':[{'role':'user','content':'x','foo':1}],'bar':2,'store':true,'top_p':0.5}",
      lenient);
  EXPECT_EQ(call.reply.ignored, (std::vector<std::string>{"bar", "store", "messages[0].foo"}));
  EXPECT_EQ(call.generate.sampling.top_p, 0.5);
  std::string many = "'a':1";
  for (int i = 0; i < 100; ++i) many += StrCat(",'a", i, "':1");
  EXPECT_EQ(MustFail(ReadChatCall, Chat(many), lenient).param, "a99");
  // Wrong values stay errors.
  EXPECT_EQ(MustFail(ReadChatCall, Chat("'top_p':5"), lenient).param, "top_p");
}

TEST(ChatRequest, ApplyTemplateReadsWhatATemplateSees) {
  auto request = ReadApplyTemplate(
      ParseText(Quoted("{'messages':[{'role':'user','content':'x'}],'add_generation_prompt':false,"
                       "'enable_thinking':true,"s +
                       kTool + "}")),
      {});
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_FALSE(request->chat.add_generation_prompt);
  EXPECT_EQ(request->chat.tools.size(), 1U);
  EXPECT_EQ(request->chat.thinking.mode, ThinkMode::kOn);
  EXPECT_EQ(request->warnings.size(), 1U);
  auto error = ReadApplyTemplate(ParseText(Quoted(Chat())), {});
  ASSERT_FALSE(error.ok());
  EXPECT_EQ(error.error().param, "temperature");
}

TEST(ParseBody, RefusesWhatIsNoJsonObject) {
  ReadOptions options;
  options.max_depth = 10;
  const std::string cases[] = {"",
                               " ",
                               "[]",
                               "5",
                               "null",
                               "{",
                               "{} x",
                               "{'a':NaN}",
                               "{'a':Infinity}",
                               "{'a':1e999}",
                               "{'a':01}",
                               "{'a':1,'a':2}",
                               "\xef\xbb\xbf{}",
                               "{'a':'\xff'}",
                               "{'a':'\xc0\xaf'}",
                               "{'a':'\xed\xa0\x80'}",
                               "{'a':'\\ud800'}",
                               "{'a':" + std::string(20, '[') + std::string(20, ']') + "}",
                               std::string(100000, '[')};
  for (const std::string& body : cases) {
    const auto parsed = ParseBody(Quoted(body), options);
    ASSERT_FALSE(parsed.ok()) << body.substr(0, 40);
    EXPECT_EQ(parsed.error().http_status, 400);
    EXPECT_EQ(parsed.error().code, "invalid_body");
    EXPECT_TRUE(parsed.error().param.empty());
  }
  EXPECT_NE(ParseBody(Quoted("{'a':1,'a':2}"), options).error().message.find("\"a\" appears twice"),
            std::string::npos);
  EXPECT_TRUE(ParseBody(Quoted("{'a':[[[1]]]}"), options).ok());
}

}  // namespace
}  // namespace hone::serve::openai
