// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// /v1/responses from the body of a request to the bytes of its response, with a scripted model.
#include <gtest/gtest.h>

#include <string>

#include "serve/openai/openai_test_util.h"

namespace hone::serve::openai {
namespace {

constexpr const char* kPath = "/v1/responses";

Json Whole(ScriptedBackend& backend, const std::string& more = "") {
  const auto sink = Post(backend, kPath, "{'input':'hi'" + more + "}");
  EXPECT_EQ(sink->status(), 200) << sink->body;
  return sink->json();
}

// Checks what every stream of events keeps to, and returns the events.
std::vector<Json> Stream(ScriptedBackend& backend, const std::string& more = "") {
  const auto sink = Post(backend, kPath, "{'input':'hi','stream':true" + more + "}");
  EXPECT_EQ(sink->status(), 200) << sink->body;
  EXPECT_EQ(sink->Header("Content-Type"), "text/event-stream");
  std::vector<Json> out;
  for (const SseEvent& event : ParseSse(sink->body)) {
    out.push_back(ParseText(event.data));
    EXPECT_EQ(TextAt(out.back(), "type"), event.name);
    EXPECT_EQ(At(out.back(), "sequence_number").AsInt(), static_cast<std::int64_t>(out.size()) - 1);
  }
  return out;
}

std::string Types(const std::vector<Json>& events) {
  std::string out;
  for (const Json& event : events) out += TextAt(event, "type").substr(9) + "\n";  // "response."
  return out;
}

TEST(ResponsesFlow, AWholeAnswerHasTheShapeOfOpenAi) {
  ScriptedBackend backend;
  backend.script = {Say("Hi"), Say("!"), End()};
  EXPECT_EQ(
      Whole(backend, ",'instructions':'be brief','metadata':{'a':'b'}").Dump(),
      R"({"id":"resp_1","object":"response","created_at":1700000000,"status":"completed",)"
      R"("error":null,"incomplete_details":null,"model":"m","output":[{"id":"msg_2",)"
      R"("type":"message","status":"completed","role":"assistant","content":[{)"
      R"("type":"output_text","text":"Hi!","annotations":[],"logprobs":[]}]}],)"
      R"("instructions":"be brief","max_output_tokens":null,"max_tool_calls":null,)"
      R"("metadata":{"a":"b"},"parallel_tool_calls":true,"previous_response_id":null,)"
      R"("reasoning":{"effort":null,"summary":null},"store":false,"temperature":null,)"
      R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,)"
      R"("top_p":null,"truncation":"disabled","user":null,"usage":{"input_tokens":7,)"
      R"("input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":3,)"
      R"("output_tokens_details":{"reasoning_tokens":1},"total_tokens":10}})");
}

TEST(ResponsesFlow, AStreamOfThinkingTextAndACall) {
  ScriptedBackend backend;
  backend.script = {ThinkAloud("hm"),   Say("Let "),     Say("me."), CallBegin("add"),
                    CallPart("{\"a\""), CallPart(":2}"), CallEnd(),  End()};
  const auto events = Stream(backend);
  EXPECT_EQ(Types(events),
            "created\nin_progress\n"
            "output_item.added\ncontent_part.added\nreasoning_text.delta\n"
            "reasoning_text.done\ncontent_part.done\noutput_item.done\n"
            "output_item.added\ncontent_part.added\noutput_text.delta\noutput_text.delta\n"
            "output_text.done\ncontent_part.done\noutput_item.done\n"
            "output_item.added\nfunction_call_arguments.delta\nfunction_call_arguments.delta\n"
            "function_call_arguments.done\noutput_item.done\n"
            "completed\n");
  EXPECT_EQ(TextAt(events[0], "response.status"), "in_progress");
  EXPECT_EQ(At(events[0], "response.output").Dump(), "[]");
  EXPECT_EQ(events[10].Dump(),
            R"({"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_3",)"
            R"("output_index":1,"content_index":0,"delta":"Let ","logprobs":[]})");
  EXPECT_EQ(TextAt(events[12], "text"), "Let me.");
  EXPECT_EQ(At(events[15], "item").Dump(),
            R"({"id":"fc_4","type":"function_call","status":"in_progress","call_id":"call_5",)"
            R"("name":"add","arguments":""})");
  EXPECT_EQ(events[16].Dump(),
            R"({"type":"response.function_call_arguments.delta","sequence_number":16,)"
            R"("item_id":"fc_4","output_index":2,"delta":"{\"a\""})");
  EXPECT_EQ(TextAt(events[18], "arguments"), "{\"a\":2}");
  // The items that were announced as done are the output of the last event, and of a whole answer.
  const Json output = At(events.back(), "response.output");
  ASSERT_EQ(output.AsArray().size(), 3U);
  EXPECT_EQ(output.AsArray()[0].Dump(), At(events[7], "item").Dump());
  EXPECT_EQ(output.AsArray()[1].Dump(), At(events[14], "item").Dump());
  EXPECT_EQ(output.AsArray()[2].Dump(), At(events[19], "item").Dump());
  EXPECT_EQ(At(Whole(backend), "output").Dump(), output.Dump());
  EXPECT_EQ(At(events.back(), "response.usage.total_tokens").AsInt(), 10);
  EXPECT_EQ(TextAt(output, "[0].content[0].text"), "hm");
}

TEST(ResponsesFlow, TheOutputOfAnAnswerIsReadAsInput) {
  ScriptedBackend backend;
  backend.script = {ThinkAloud("hm"), Say("ok"), CallBegin("f"), CallPart("{}"), CallEnd(), End()};
  const Json output = At(Whole(backend), "output");
  Json::Array input = output.AsArray();
  input.push_back(ParseText(Quoted("{'type':'function_call_output','call_id':'" +
                                   TextAt(output, "[2].call_id") + "','output':'5'}")));
  const Json body(Json::Object{{"input", Json(std::move(input))}});
  EXPECT_EQ(Post(backend, kPath, body.Dump())->status(), 200);
  ASSERT_EQ(backend.request.chat->messages.size(), 2U);
  EXPECT_EQ(TextAt(backend.request.chat->messages[0], "reasoning_content"), "hm");
  EXPECT_EQ(TextAt(backend.request.chat->messages[1], "tool_call_id"),
            TextAt(output, "[2].call_id"));
}

TEST(ResponsesFlow, AnAnswerThatIsCutIsIncomplete) {
  ScriptedBackend backend;
  backend.script = {Say("Hi"), End(EndReason::kLength)};
  const Json whole = Whole(backend);
  EXPECT_EQ(TextAt(whole, "status"), "incomplete");
  EXPECT_EQ(TextAt(whole, "incomplete_details.reason"), "max_output_tokens");
  EXPECT_EQ(TextAt(whole, "output[0].status"), "incomplete");
  const auto events = Stream(backend);
  EXPECT_EQ(TextAt(events.back(), "type"), "response.incomplete");
}

TEST(ResponsesFlow, AnAnswerWithoutAWordIsAnEmptyMessage) {
  ScriptedBackend backend;
  backend.script = {End()};
  EXPECT_EQ(TextAt(Whole(backend), "output[0].content[0].text"), "");
  EXPECT_EQ(TextAt(Stream(backend).back(), "type"), "response.completed");
}

TEST(ResponsesFlow, LogprobsAreInDeltasAndInTheItem) {
  ScriptedBackend backend;
  backend.script = {{0, ContentDelta{"Hi", {{.id = 1, .bytes = "Hi", .logprob = -1, .top = {}}}}},
                    End()};
  const std::string include = ",'include':['message.output_text.logprobs']";
  const std::string expected =
      R"([{"token":"Hi","logprob":-1.0,"bytes":[72,105],"top_logprobs":[]}])";
  EXPECT_EQ(At(Whole(backend, include), "output[0].content[0].logprobs").Dump(), expected);
  EXPECT_EQ(At(Stream(backend, include)[4], "logprobs").Dump(), expected);
}

TEST(ResponsesFlow, AFailureInsideAStreamEndsWithFailed) {
  ScriptedBackend backend;
  backend.script = {Say("Hi")};
  backend.error = Internal("the step failed");
  const auto events = Stream(backend);
  EXPECT_EQ(TextAt(events.back(), "type"), "response.failed");
  EXPECT_EQ(TextAt(events.back(), "response.status"), "failed");
  EXPECT_EQ(At(events.back(), "response.error").Dump(),
            R"({"code":"server_error","message":"the step failed"})");
  EXPECT_EQ(Post(backend, kPath, "{'input':'hi'}")->status(), 500);
  backend.start_error = ContextOverflow(9, 8, "input");
  const auto refused = Post(backend, kPath, "{'input':'hi','stream':true}");
  EXPECT_EQ(refused->status(), 400);
  EXPECT_EQ(TextAt(refused->json(), "error.param"), "input");
}

TEST(ResponsesFlow, WarningsAndIgnoredFieldsAreInTheResponse) {
  ScriptedBackend backend;
  backend.script = {{0, Warning{"w"}}, Say("a"), End()};
  ApiOptions options = TestOptions();
  options.read.lenient = true;
  const Json whole = Post(backend, kPath, "{'input':'hi','store':true}", options)->json();
  EXPECT_EQ(At(whole, "ignored_fields").Dump(), R"(["store"])");
  EXPECT_EQ(At(whole, "warnings").Dump(), R"(["w"])");
}

}  // namespace
}  // namespace hone::serve::openai
