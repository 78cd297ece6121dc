// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Requests of /v1/completions, /v1/responses, /tokenize and /detokenize.
#include <gtest/gtest.h>

#include <string>

#include "serve/openai/openai_test_util.h"

namespace hone::serve::openai {
namespace {

using Ids = std::vector<std::int32_t>;

GenerateRequest Completion(const std::string& prompt, const std::string& more = "") {
  return MustRead(ReadCompletionCall, "{'prompt':" + prompt + more + "}").generate;
}
ApiError CompletionFail(const std::string& prompt, const std::string& more = "") {
  return MustFail(ReadCompletionCall, "{'prompt':" + prompt + more + "}");
}

TEST(CompletionRequest, EveryFormOfAPrompt) {
  using Prompts = std::vector<Prompt>;
  EXPECT_EQ(Completion("'hi'").prompts, Prompts{"hi"});
  EXPECT_EQ(Completion("['a','b']").prompts, (Prompts{"a", "b"}));
  EXPECT_EQ(Completion("[1,2,3.0]").prompts, (Prompts{Ids{1, 2, 3}}));
  EXPECT_EQ(Completion("[[1,2],[3]]").prompts, (Prompts{Ids{1, 2}, Ids{3}}));
  EXPECT_EQ(Completion("''").prompts, Prompts{""});
  EXPECT_FALSE(Completion("'hi'").chat.has_value());
}

TEST(CompletionRequest, WrongPromptsAreNamed) {
  EXPECT_EQ(MustFail(ReadCompletionCall, "{'model':'m'}").param, "prompt");
  EXPECT_EQ(CompletionFail("5").param, "prompt");
  EXPECT_EQ(CompletionFail("{}").param, "prompt");
  EXPECT_EQ(CompletionFail("[]").param, "prompt");
  EXPECT_EQ(CompletionFail("[[]]").param, "prompt[0]");
  EXPECT_EQ(CompletionFail("['a',1]").param, "prompt[1]");
  EXPECT_EQ(CompletionFail("[1,'a']").param, "prompt[1]");
  EXPECT_EQ(CompletionFail("[[1],'a']").param, "prompt[1]");
  EXPECT_EQ(CompletionFail("[[1],[2,-1]]").param, "prompt[1][1]");
  EXPECT_EQ(CompletionFail("[1.5]").param, "prompt[0]");
  EXPECT_EQ(CompletionFail("[2147483648]").param, "prompt[0]");
  EXPECT_EQ(CompletionFail("[true]").param, "prompt[0]");
}

TEST(CompletionRequest, ReadsWhatLmEvalSends) {
  const GenerateRequest score = Completion(
      "[[1,2,3],[4,5]]",
      ",'model':'m','temperature':0,'max_tokens':1,'logprobs':1,'seed':1234,'echo':true");
  EXPECT_TRUE(score.echo && score.logprobs);
  EXPECT_EQ(score.top_logprobs, 1);
  EXPECT_EQ(score.NumChoices(), 2);
  const GenerateRequest text = Completion(
      "['Q:']", ",'model':'m','max_tokens':256,'temperature':0,'stop':['\\n\\n','Q:'],'seed':1");
  EXPECT_EQ(text.stop, (std::vector<std::string>{"\n\n", "Q:"}));
}

TEST(CompletionRequest, LimitsAndLogprobs) {
  EXPECT_EQ(Completion("'a'").max_tokens, 16);
  EXPECT_EQ(Completion("'a'", ",'max_tokens':0").max_tokens, 0);
  EXPECT_FALSE(Completion("'a'").logprobs);
  EXPECT_TRUE(Completion("'a'", ",'logprobs':0").logprobs);
  EXPECT_EQ(CompletionFail("'a'", ",'logprobs':true").param, "logprobs");
  EXPECT_EQ(CompletionFail("'a'", ",'logprobs':21").param, "logprobs");
  EXPECT_EQ(CompletionFail("'a'", ",'suffix':'b'").param, "suffix");
  EXPECT_EQ(CompletionFail("'a'", ",'suffix':'b'").code, "unsupported_parameter");
  Completion("'a'", ",'suffix':null");
  EXPECT_EQ(CompletionFail("'a'", ",'best_of':2").param, "best_of");
  EXPECT_EQ(Completion("'a'", ",'best_of':2,'n':2").n, 2);
  EXPECT_EQ(CompletionFail("'a'", ",'messages':[]").param, "messages");
  EXPECT_EQ(CompletionFail("'a'", ",'tools':[]").param, "tools");
}

TEST(CompletionRequest, PromptsTimesChoicesAreBounded) {
  ReadOptions options;
  options.max_choices = 4;
  EXPECT_EQ(
      MustRead(ReadCompletionCall, "{'prompt':['a','b'],'n':2}", options).generate.NumChoices(), 4);
  EXPECT_EQ(MustFail(ReadCompletionCall, "{'prompt':['a','b'],'n':3}", options).param, "prompt");
  EXPECT_EQ(MustFail(ReadCompletionCall, "{'prompt':['a','b','c','d','e']}", options).param,
            "prompt");
  EXPECT_EQ(MustFail(ReadCompletionCall, "{'prompt':'a','n':5}", options).param, "n");
  // Many ids are one prompt.
  MustRead(ReadCompletionCall, "{'prompt':[1,2,3,4,5,6,7,8]}", options);
}

GenerateCall Respond(const std::string& more) {
  return MustRead(ReadResponsesCall, "{" + more + "}");
}
ApiError RespondFail(const std::string& more) {
  return MustFail(ReadResponsesCall, "{" + more + "}");
}
std::string MessagesOf(const std::string& more) {
  return Json(Respond(more).generate.chat->messages).Dump();
}

TEST(ResponsesRequest, InputAndInstructionsBecomeMessages) {
  EXPECT_EQ(MessagesOf("'input':'hi'"), R"([{"role":"user","content":"hi"}])");
  EXPECT_EQ(MessagesOf("'input':'hi','instructions':'be brief'"),
            R"([{"role":"system","content":"be brief"},{"role":"user","content":"hi"}])");
  EXPECT_EQ(
      MessagesOf("'input':[{'role':'developer','content':'s'},{'type':'message','role':'user',"
                 "'content':[{'type':'input_text','text':'a'}]}]"),
      R"([{"role":"system","content":"s"},)"
      R"({"role":"user","content":[{"type":"text","text":"a"}]}])");
}

TEST(ResponsesRequest, TheItemsOfOneAnswerAreOneMessageAgain) {
  EXPECT_EQ(
      MessagesOf("'input':[{'role':'user','content':'2+3?'},"
                 "{'type':'reasoning','id':'rs_1','summary':[],'status':'completed',"
                 "'content':[{'type':'reasoning_text','text':'hm'}]},"
                 "{'type':'message','id':'msg_1','status':'completed','role':'assistant','content':"
                 "[{'type':'output_text','text':'wait','annotations':[],'logprobs':[]}]},"
                 "{'type':'function_call','id':'fc_1','status':'completed','call_id':'c1',"
                 "'name':'add','arguments':'{\\'a\\':2}'},"
                 "{'type':'function_call','call_id':'c2','name':'now','arguments':''},"
                 "{'type':'function_call_output','call_id':'c1','output':'5'},"
                 "{'type':'function_call_output','call_id':'c2','output':"
                 "[{'type':'input_text','text':'6'}]}]"),
      R"([{"role":"user","content":"2+3?"},)"
      R"({"role":"assistant","reasoning_content":"hm","content":[{"type":"text","text":"wait"}],)"
      R"("tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":{"a":2}}},)"
      R"({"id":"c2","type":"function","function":{"name":"now","arguments":{}}}]},)"
      R"({"role":"tool","content":"5","tool_call_id":"c1"},)"
      R"({"role":"tool","content":[{"type":"text","text":"6"}],"tool_call_id":"c2"}])");
}

TEST(ResponsesRequest, WrongInputIsNamed) {
  EXPECT_EQ(RespondFail("'model':'m'").param, "input");
  EXPECT_EQ(RespondFail("'input':[]").param, "input");
  EXPECT_EQ(RespondFail("'input':5").param, "input");
  EXPECT_EQ(RespondFail("'input':['a']").param, "input[0]");
  EXPECT_EQ(RespondFail("'input':[{'type':'item_reference','id':'x'}]").param, "input[0].type");
  EXPECT_EQ(RespondFail("'input':[{'type':'item_reference','id':'x'}]").code,
            "unsupported_parameter");
  EXPECT_EQ(RespondFail("'input':[{'type':'image_generation_call'}]").param, "input[0].type");
  EXPECT_EQ(RespondFail("'input':[{'role':'tool','content':'x'}]").param, "input[0].role");
  EXPECT_EQ(RespondFail("'input':[{'role':'user'}]").param, "input[0].content");
  EXPECT_EQ(
      RespondFail("'input':[{'role':'user','content':[{'type':'input_image','image_url':'x'}]}]")
          .param,
      "input[0].content[0].type");
  EXPECT_EQ(RespondFail("'input':[{'role':'user','content':'a','call_id':'x'}]").param,
            "input[0].call_id");
  EXPECT_EQ(RespondFail("'input':[{'type':'function_call','name':'f'}]").param, "input[0].call_id");
  EXPECT_EQ(RespondFail("'input':[{'type':'function_call','call_id':'c','name':'f','arguments':"
                        "'[1]'}]")
                .param,
            "input[0].arguments");
  EXPECT_EQ(RespondFail("'input':[{'type':'function_call_output','call_id':'c'}]").param,
            "input[0].output");
  EXPECT_EQ(RespondFail("'input':[{'role':'user','content':'a','foo':1}]").param, "input[0].foo");
}

TEST(ResponsesRequest, WhatNeedsStorageIsRefusedByName) {
  const std::string input = "'input':'hi',";
  for (const char* name : {"previous_response_id", "conversation"}) {
    const ApiError error = RespondFail(input + "'" + name + "':'x'");
    EXPECT_EQ(error.param, name);
    EXPECT_EQ(error.code, "unsupported_parameter");
    EXPECT_NE(error.message.find("stored"), std::string::npos) << error.message;
  }
  EXPECT_EQ(RespondFail(input + "'store':true").param, "store");
  EXPECT_EQ(RespondFail(input + "'background':true").param, "background");
  EXPECT_EQ(RespondFail(input + "'truncation':'auto'").param, "truncation");
  Respond(input +
          "'store':false,'background':false,'truncation':'disabled',"
          "'previous_response_id':null");
}

TEST(ResponsesRequest, ToolsAreFlatAndReachTheTemplateNested) {
  const ChatInput chat =
      *Respond(
           "'input':'x','tools':[{'type':'function','name':'f','description':'d','parameters':"
           "{'type':'object'},'strict':true}],'tool_choice':{'type':'function','name':'f'}")
           .generate.chat;
  EXPECT_EQ(Json(chat.tools_json).Dump(),
            R"([{"type":"function","function":{"name":"f","description":"d",)"
            R"("parameters":{"type":"object"},"strict":true}}])");
  EXPECT_EQ(chat.tool_mode, ToolMode::kNamed);
  EXPECT_TRUE(chat.tools[0].strict);
  EXPECT_EQ(RespondFail("'input':'x','tools':[{'type':'web_search_preview'}]").param,
            "tools[0].type");
  EXPECT_EQ(RespondFail("'input':'x','tools':[{'type':'function','function':{'name':'f'}}]").param,
            "tools[0].function");
  EXPECT_EQ(RespondFail("'input':'x','tools':[{'type':'function','name':'f'}],'tool_choice':"
                        "{'type':'function','name':'g'}")
                .param,
            "tool_choice.name");
}

TEST(ResponsesRequest, FormatThinkingAndLogprobs) {
  const GenerateCall call = Respond(
      "'input':'x','text':{'format':{'type':'json_schema','name':'r','strict':true,'schema':"
      "{'type':'object'}}},'reasoning':{'effort':'low','summary':'auto'},"
      "'include':['message.output_text.logprobs'],'top_logprobs':2,'max_output_tokens':9");
  EXPECT_EQ(call.generate.chat->format.kind, FormatKind::kJsonSchema);
  EXPECT_EQ(call.generate.chat->format.schema.Dump(), R"({"type":"object"})");
  EXPECT_EQ(call.generate.chat->thinking.budget_tokens, 1024);
  EXPECT_TRUE(call.generate.logprobs);
  EXPECT_EQ(call.generate.top_logprobs, 2);
  EXPECT_EQ(call.generate.max_tokens, 9);
  EXPECT_EQ(RespondFail("'input':'x','text':{'format':{'type':'json_schema','name':'r'}}").param,
            "text.format.schema");
  EXPECT_EQ(RespondFail("'input':'x','reasoning':{'effort':'much'}").param, "reasoning.effort");
  EXPECT_EQ(RespondFail("'input':'x','reasoning':{'summary':'detailed'}").param,
            "reasoning.summary");
  EXPECT_EQ(RespondFail("'input':'x','include':['reasoning.encrypted_content']").param,
            "include[0]");
  EXPECT_EQ(RespondFail("'input':'x','top_logprobs':2").param, "top_logprobs");
  EXPECT_EQ(RespondFail("'input':'x','n':2").param, "n");
  EXPECT_EQ(RespondFail("'input':'x','max_tokens':2").param, "max_tokens");
  EXPECT_EQ(RespondFail("'input':'x','metadata':5").param, "metadata");
  ReadOptions lenient;
  lenient.lenient = true;
  EXPECT_EQ(MustRead(ReadResponsesCall, "{'input':'x','include':['reasoning.encrypted_content']}",
                     lenient)
                .reply.ignored,
            std::vector<std::string>{"include[0]"});
}

TEST(TextRequests, TokenizeAndDetokenize) {
  const auto tokenize = [](const std::string& body) {
    return ReadTokenize(ParseText(Quoted(body)), {});
  };
  auto request = tokenize("{'content':'hi','with_pieces':true,'add_special':true}");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->text, "hi");
  EXPECT_TRUE(request->with_pieces && request->add_special && request->parse_special);
  EXPECT_EQ(tokenize("{'prompt':''}")->text, "");
  EXPECT_EQ(tokenize("{}").error().param, "content");
  EXPECT_EQ(tokenize("{'content':5}").error().param, "content");
  EXPECT_EQ(tokenize("{'content':'a','prompt':'b'}").error().param, "prompt");
  EXPECT_EQ(tokenize("{'content':'a','foo':1}").error().param, "foo");
  const auto detokenize = [](const std::string& body) {
    return ReadDetokenize(ParseText(Quoted(body)), {});
  };
  EXPECT_EQ(detokenize("{'tokens':[1,2.0]}")->tokens, (Ids{1, 2}));
  EXPECT_TRUE(detokenize("{'tokens':[]}")->tokens.empty());
  EXPECT_EQ(detokenize("{'tokens':[1,-2]}").error().param, "tokens[1]");
  EXPECT_EQ(detokenize("{'tokens':'1'}").error().param, "tokens");
  EXPECT_EQ(detokenize("{}").error().param, "tokens");
}

}  // namespace
}  // namespace hone::serve::openai
