// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Chat completions from the body of a request to the bytes of its response, with a scripted model.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "serve/openai/openai_test_util.h"

namespace hone::serve::openai {
namespace {

constexpr const char* kPath = "/v1/chat/completions";

Json Whole(ScriptedBackend& backend, const std::string& more = "") {
  const auto sink = Post(backend, kPath, Chat(more));
  EXPECT_EQ(sink->status(), 200) << sink->body;
  EXPECT_EQ(sink->Header("Content-Type"), "application/json");
  EXPECT_TRUE(sink->finished);
  EXPECT_FALSE(sink->head->stream);
  return sink->json();
}
std::vector<Json> Stream(ScriptedBackend& backend, const std::string& more = "") {
  const auto sink = Post(backend, kPath, Chat("'stream':true" + (more.empty() ? "" : "," + more)));
  EXPECT_EQ(sink->status(), 200) << sink->body;
  EXPECT_EQ(sink->Header("Content-Type"), "text/event-stream");
  EXPECT_EQ(sink->Header("Cache-Control"), "no-cache");
  EXPECT_TRUE(sink->head->stream);
  EXPECT_TRUE(sink->finished);
  return ParseChunks(sink->body);
}
// What a client has after it added up the deltas of a choice.
struct Summed {
  std::string content, reasoning, finish;
  struct Call {
    std::string id, type, name, arguments;
  };
  std::vector<Call> calls;
  int roles = 0, finishes = 0;
};
Summed Sum(const std::vector<Json>& chunks, std::int64_t index = 0) {
  Summed sum;
  for (const Json& chunk : chunks) {
    for (const Json& choice : chunk.Find("choices")->AsArray()) {
      if (choice.Find("index")->AsInt() != index) continue;
      EXPECT_EQ(sum.finishes, 0) << "after finish_reason: " << chunk.Dump();
      const Json& delta = *choice.Find("delta");
      if (delta.Find("role") != nullptr) ++sum.roles;
      EXPECT_EQ(sum.roles, 1) << "the role comes first, once: " << chunk.Dump();
      if (const Json* text = delta.FindNonNull("content")) sum.content += text->AsString();
      if (const Json* text = delta.FindNonNull("reasoning_content")) {
        sum.reasoning += text->AsString();
      }
      if (const Json* calls = delta.FindNonNull("tool_calls")) {
        for (const Json& call : calls->AsArray()) {
          const auto at = static_cast<std::size_t>(call.Find("index")->AsInt());
          if (at == sum.calls.size()) {
            sum.calls.push_back(
                {TextAt(call, "id"), TextAt(call, "type"), TextAt(call, "function.name"), ""});
            EXPECT_EQ(TextAt(call, "function.arguments"), "") << call.Dump();
          } else {
            // Later deltas have only index and arguments.
            EXPECT_EQ(at + 1, sum.calls.size()) << call.Dump();
            EXPECT_EQ(call.AsObject().size(), 2U) << call.Dump();
            EXPECT_EQ(call.Find("function")->AsObject().size(), 1U) << call.Dump();
          }
          sum.calls[at].arguments += TextAt(call, "function.arguments");
        }
      }
      if (const Json* finish = choice.FindNonNull("finish_reason")) {
        ++sum.finishes;
        sum.finish = finish->AsString();
        EXPECT_TRUE(delta.AsObject().empty()) << chunk.Dump();
      }
    }
  }
  EXPECT_EQ(sum.finishes, 1);
  return sum;
}

TEST(ChatFlow, AWholeAnswerHasTheShapeOfOpenAi) {
  ScriptedBackend backend;
  backend.script = {Say("Hi"), Say(" there"), End()};
  EXPECT_EQ(Whole(backend).Dump(),
            R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m",)"
            R"("system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant",)"
            R"("content":"Hi there","refusal":null},"logprobs":null,"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,)"
            R"("prompt_tokens_details":{"cached_tokens":4},)"
            R"("completion_tokens_details":{"reasoning_tokens":1}}})");
}

TEST(ChatFlow, AStreamHasTheRoleThenDeltasThenTheFinishThenDone) {
  ScriptedBackend backend;
  backend.script = {Say("Hi"), Say(" there"), End()};
  const auto sink = Post(backend, kPath, Chat("'stream':true"));
  const std::string head =
      R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,)"
      R"("model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":)";
  const std::string tail = R"(,"logprobs":null,"finish_reason":)";
  EXPECT_EQ(sink->body,
            head + R"({"role":"assistant","content":"","refusal":null})" + tail + "null}]}\n\n" +
                head + R"({"content":"Hi"})" + tail + "null}]}\n\n" +  //
                head + R"({"content":" there"})" + tail + "null}]}\n\n" + head + "{}" + tail +
                "\"stop\"}]}\n\n" + "data: [DONE]\n\n");
}

TEST(ChatFlow, UsageComesLastWithNoChoicesIfItIsAskedFor) {
  ScriptedBackend backend;
  backend.script = {Say("Hi"), End()};
  const auto chunks = Stream(backend, "'stream_options':{'include_usage':true}");
  for (std::size_t i = 0; i + 1 < chunks.size(); ++i) {
    ASSERT_NE(chunks[i].Find("usage"), nullptr);
    EXPECT_TRUE(chunks[i].Find("usage")->IsNull());
    EXPECT_EQ(chunks[i].Find("choices")->AsArray().size(), 1U);
  }
  EXPECT_TRUE(chunks.back().Find("choices")->AsArray().empty());
  EXPECT_EQ(At(chunks.back(), "usage.total_tokens").AsInt(), 10);
  for (const Json& chunk : Stream(backend)) EXPECT_EQ(chunk.Find("usage"), nullptr);
}

TEST(ChatFlow, S7FinishReasons) {
  ScriptedBackend backend;
  backend.script = {Say("a"), End(EndReason::kLength)};
  EXPECT_EQ(TextAt(Whole(backend), "choices[0].finish_reason"), "length");
  EXPECT_EQ(Sum(Stream(backend)).finish, "length");
  backend.script = {CallBegin("f"), CallPart("{}"), CallEnd(), End()};
  EXPECT_EQ(TextAt(Whole(backend), "choices[0].finish_reason"), "tool_calls");
  EXPECT_EQ(Sum(Stream(backend)).finish, "tool_calls");
  // A call that max_tokens cut is not complete.
  backend.script = {CallBegin("f"), CallPart("{\"a"), End(EndReason::kLength)};
  EXPECT_EQ(Sum(Stream(backend)).finish, "length");
}

TEST(ChatFlow, AnAnswerWithoutAWordIsAnEmptyString) {
  ScriptedBackend backend;
  backend.script = {End()};
  EXPECT_EQ(At(Whole(backend), "choices[0].message.content").Dump(), "\"\"");
  const Summed sum = Sum(Stream(backend));
  EXPECT_EQ(sum.roles, 1);
  EXPECT_EQ(sum.finish, "stop");
}

TEST(ChatFlow, S2StreamedToolCalls) {
  ScriptedBackend backend;
  backend.script = {Say("Let me see."),     CallBegin("add"), CallPart("{\"a\": 2,"),
                    CallPart(" \"b\": 3}"), CallEnd(),        CallBegin("now"),
                    CallPart("{}"),         CallEnd(),        End()};
  const Summed sum = Sum(Stream(backend));
  ASSERT_EQ(sum.calls.size(), 2U);
  std::set<std::string> ids;
  for (const auto& call : sum.calls) {
    EXPECT_EQ(call.type, "function");
    EXPECT_TRUE(call.id.starts_with("call_")) << call.id;
    ids.insert(call.id);
  }
  EXPECT_EQ(ids.size(), 2U);
  EXPECT_EQ(sum.content, "Let me see.");
  EXPECT_EQ(sum.finish, "tool_calls");
  // The whole answer has the same.
  const Json whole = Whole(backend);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string path = StrCat("choices[0].message.tool_calls[", i, "]");
    EXPECT_EQ(TextAt(whole, path + ".function.name"), sum.calls[i].name);
    EXPECT_EQ(TextAt(whole, path + ".function.arguments"), sum.calls[i].arguments);
    EXPECT_EQ(TextAt(whole, path + ".type"), "function");
    EXPECT_TRUE(At(whole, path + ".index").IsNull());
    EXPECT_TRUE(ParseJson(sum.calls[i].arguments).ok());
  }
  EXPECT_EQ(TextAt(whole, "choices[0].message.content"), "Let me see.");
}

TEST(ChatFlow, S3ACallWithoutTextHasNullContent) {
  ScriptedBackend backend;
  backend.script = {CallBegin("get_weather"), CallPart("{\"city\":\"Tokyo\"}"), CallEnd(), End()};
  const Json whole = Whole(backend);
  EXPECT_TRUE(whole.Find("choices")->AsArray()[0].Find("message")->Find("content")->IsNull());
  EXPECT_EQ(TextAt(whole, "choices[0].message.tool_calls[0].function.arguments"),
            R"({"city":"Tokyo"})");
  const auto chunks = Stream(backend);
  EXPECT_EQ(At(chunks[0], "choices[0].delta").Dump(),
            R"({"role":"assistant","content":null,"refusal":null})");
  EXPECT_EQ(At(chunks[1], "choices[0].delta").Dump(),
            R"({"tool_calls":[{"index":0,"id":"call_2","type":"function",)"
            R"("function":{"name":"get_weather","arguments":""}}]})");
  EXPECT_EQ(At(chunks[2], "choices[0].delta").Dump(),
            R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Tokyo\"}"}}]})");
}

TEST(ChatFlow, IdsOfCallsAreUniqueAcrossRequests) {
  std::set<std::string> ids;
  for (int i = 0; i < 500; ++i) ids.insert(MakeId("call_"));
  EXPECT_EQ(ids.size(), 500U);
  EXPECT_EQ(ids.begin()->size(), 5U + 24U);
}

TEST(ChatFlow, S14ThinkingHasItsOwnMember) {
  ScriptedBackend backend;
  backend.script = {ThinkAloud("A"), ThinkAloud("B"), Say("C"), End()};
  const Json whole = Whole(backend);
  EXPECT_EQ(TextAt(whole, "choices[0].message.reasoning_content"), "AB");
  EXPECT_EQ(TextAt(whole, "choices[0].message.content"), "C");
  const auto chunks = Stream(backend);
  EXPECT_EQ(Sum(chunks).reasoning, "AB");
  EXPECT_EQ(Sum(chunks).content, "C");
  EXPECT_EQ(At(chunks[1], "choices[0].delta").Dump(), R"({"reasoning_content":"A"})");
  // Cut inside the thinking: no content at all.
  backend.script = {ThinkAloud("A"), End(EndReason::kLength)};
  const Json cut = Whole(backend);
  EXPECT_EQ(At(cut, "choices[0].message").Dump(),
            R"({"role":"assistant","content":null,"refusal":null,"reasoning_content":"A"})");
  EXPECT_EQ(TextAt(cut, "choices[0].finish_reason"), "length");
  EXPECT_EQ(Sum(Stream(backend)).content, "");
}

TEST(ChatFlow, S14ThinkingInsideTheContentForClientsThatDropTheMember) {
  ScriptedBackend backend;
  backend.script = {ThinkAloud("A"), ThinkAloud("B"), Say("C"), Say("D"), End()};
  const std::string inline_mode = "'reasoning_format':'none'";
  const std::string expected = "<think>\nAB\n</think>\n\nCD";
  const Json whole = Whole(backend, inline_mode);
  EXPECT_EQ(TextAt(whole, "choices[0].message.content"), expected);
  EXPECT_TRUE(At(whole, "choices[0].message.reasoning_content").IsNull());
  EXPECT_EQ(Sum(Stream(backend, inline_mode)).content, expected);
  EXPECT_EQ(Sum(Stream(backend, inline_mode)).reasoning, "");
  // Cut: the tag never closes. A call closes it.
  backend.script = {ThinkAloud("A"), End(EndReason::kLength)};
  EXPECT_EQ(Sum(Stream(backend, inline_mode)).content, "<think>\nA");
  backend.script = {ThinkAloud("A"), CallBegin("f"), CallPart("{}"), CallEnd(), End()};
  EXPECT_EQ(Sum(Stream(backend, inline_mode)).content, "<think>\nA\n</think>\n\n");
  EXPECT_EQ(TextAt(Whole(backend, inline_mode), "choices[0].message.content"),
            "<think>\nA\n</think>\n\n");
}

TEST(ChatFlow, ChoicesKeepTheirIndexes) {
  ScriptedBackend backend;
  backend.script = {Say("a", 0), Say("x", 1),
                    Say("b", 0), End(EndReason::kStop, 0),
                    Say("y", 1), End(EndReason::kLength, 1)};
  const auto chunks = Stream(backend, "'n':2");
  EXPECT_EQ(Sum(chunks, 0).content, "ab");
  EXPECT_EQ(Sum(chunks, 1).content, "xy");
  EXPECT_EQ(Sum(chunks, 1).finish, "length");
  const Json whole = Whole(backend, "'n':2");
  EXPECT_EQ(TextAt(whole, "choices[1].message.content"), "xy");
  EXPECT_EQ(At(whole, "choices[1].index").AsInt(), 1);
  EXPECT_EQ(backend.request.n, 2);
}

Event Scored(std::string text, std::vector<TokenScore> tokens) {
  return {0, ContentDelta{std::move(text), std::move(tokens)}};
}

TEST(ChatFlow, S11Logprobs) {
  ScriptedBackend backend;
  const std::vector<TokenCandidate> top = {
      {2, "no", -3}, {1, "Hi", -0.1}, {3, "\xe2", -INFINITY}, {4, "x", -9}};
  backend.script = {Scored("Hi", {{.id = 1, .bytes = "Hi", .logprob = -0.1, .top = top}}), End()};
  // Without candidates.
  EXPECT_EQ(At(Whole(backend, "'logprobs':true"), "choices[0].logprobs").Dump(),
            R"({"content":[{"token":"Hi","logprob":-0.1,"bytes":[72,105],"top_logprobs":[]}],)"
            R"("refusal":null})");
  const Json whole = Whole(backend, "'logprobs':true,'top_logprobs':3");
  EXPECT_EQ(At(whole, "choices[0].logprobs.content[0].top_logprobs").Dump(),
            R"([{"token":"Hi","logprob":-0.1,"bytes":[72,105]},)"
            R"({"token":"no","logprob":-3.0,"bytes":[110,111]},)"
            R"({"token":"x","logprob":-9.0,"bytes":[120]}])");
  const auto chunks = Stream(backend, "'logprobs':true,'top_logprobs':3");
  EXPECT_EQ(At(chunks[1], "choices[0].logprobs").Dump(), At(whole, "choices[0].logprobs").Dump());
  // Minus infinity is a number, and a part of a character is escaped; its bytes are exact.
  const Json four = Whole(backend, "'logprobs':true,'top_logprobs':4");
  EXPECT_EQ(At(four, "choices[0].logprobs.content[0].top_logprobs[3]").Dump(),
            R"({"token":"\\xe2","logprob":-9999.0,"bytes":[226]})");
  EXPECT_TRUE(At(Whole(backend), "choices[0].logprobs").IsNull());
}

TEST(ChatFlow, S11ACharacterSplitOverTokensKeepsItsBytes) {
  ScriptedBackend backend;
  // U+1F60A in two tokens: the first has no text yet.
  backend.script = {
      Scored("", {{.id = 1, .bytes = "\xf0\x9f", .logprob = -1, .top = {}}}),
      Scored("\xf0\x9f\x98\x8a", {{.id = 2, .bytes = "\x98\x8a", .logprob = -2, .top = {}}}),
      End()};
  const auto chunks = Stream(backend, "'logprobs':true");
  std::string bytes;
  for (const Json& chunk : chunks) {
    const Json content = At(chunk, "choices[0].logprobs.content");
    if (!content.IsArray()) continue;
    for (const Json& token : content.AsArray()) {
      for (const Json& byte : token.Find("bytes")->AsArray()) {
        bytes.push_back(static_cast<char>(byte.AsInt()));
      }
    }
  }
  EXPECT_EQ(bytes, "\xf0\x9f\x98\x8a");
  EXPECT_EQ(Sum(chunks).content, "\xf0\x9f\x98\x8a");
  EXPECT_EQ(TextAt(chunks[1], "choices[0].logprobs.content[0].token"), "\\xf0\\x9f");
}

TEST(ChatFlow, S8ErrorsBeforeTheFirstByteHaveTheirStatus) {
  ScriptedBackend backend;
  for (const char* stream : {"true", "false"}) {
    backend.start_error = ContextOverflow(100, 64);
    const auto sink = Post(backend, kPath, Chat(StrCat("'stream':", stream)));
    EXPECT_EQ(sink->status(), 400);
    EXPECT_EQ(sink->Header("Content-Type"), "application/json");
    const Json json = sink->json();
    EXPECT_EQ(TextAt(json, "error.code"), "context_length_exceeded");
    EXPECT_EQ(TextAt(json, "error.type"), "invalid_request_error");
    EXPECT_EQ(TextAt(json, "error.param"), "messages");
    EXPECT_EQ(At(json, "error.n_prompt_tokens").AsInt(), 100);
    EXPECT_EQ(At(json, "error.n_ctx").AsInt(), 64);
    EXPECT_NE(TextAt(json, "error.message").find("100 tokens"), std::string::npos);
    // The same if the backend finds out later, but before any text.
    backend.start_error.reset();
    backend.error = ContextOverflow(100, 64);
    EXPECT_EQ(Post(backend, kPath, Chat(StrCat("'stream':", stream)))->status(), 400);
    backend.error.reset();
    // Then a short request works.
    backend.script = {Say("ok"), End()};
    EXPECT_EQ(Post(backend, kPath, Chat(StrCat("'stream':", stream)))->status(), 200);
    backend.script.clear();
  }
}

TEST(ChatFlow, ErrorsInsideAStreamAreAnEventAndNoDone) {
  ScriptedBackend backend;
  backend.script = {Say("Hi")};
  backend.error = Internal("the step failed");
  const auto sink = Post(backend, kPath, Chat("'stream':true"));
  EXPECT_EQ(sink->status(), 200);
  EXPECT_TRUE(sink->finished);
  const auto events = ParseSse(sink->body);
  EXPECT_EQ(events.back().data,
            R"({"error":{"message":"the step failed","type":"server_error","param":null,)"
            R"("code":"internal_error"}})");
  // A whole answer is an error as a whole.
  const auto whole = Post(backend, kPath, Chat());
  EXPECT_EQ(whole->status(), 500);
  EXPECT_EQ(TextAt(whole->json(), "error.message"), "the step failed");
}

TEST(ChatFlow, AChoiceThatNeverEndsIsOurFault) {
  ScriptedBackend backend;
  backend.script = {Say("Hi")};
  EXPECT_EQ(Post(backend, kPath, Chat())->status(), 500);
}

TEST(ChatFlow, S9AClientThatGoesAwayEndsItsRequest) {
  for (const char* stream : {"true", "false"}) {
    ScriptedBackend backend;
    backend.play_at_once = false;
    backend.script = {Say("a"), Say("b"), Say("c"), Say("d"), End()};
    auto sink = std::make_shared<RecordingSink>();
    const auto running = Handle({"POST", kPath, Quoted(Chat(StrCat("'stream':", stream)))}, backend,
                                TestOptions(), sink);
    ASSERT_NE(running, nullptr);
    EXPECT_FALSE(sink->finished);
    EXPECT_TRUE(backend.last->Play());
    const std::string before = sink->body;
    sink->gone = true;
    EXPECT_FALSE(backend.last->Play()) << "OnEvent says that nobody listens";
    EXPECT_TRUE(backend.last->cancelled);
    EXPECT_TRUE(sink->finished);
    EXPECT_EQ(sink->body, before);
  }
}

TEST(ChatFlow, S9ARequestThatWaitsIsCancelledByItsHandle) {
  ScriptedBackend backend;
  backend.play_at_once = false;
  backend.script = {Say("a"), End()};
  auto sink = std::make_shared<RecordingSink>();
  const auto running =
      Handle({"POST", kPath, Quoted(Chat("'stream':true"))}, backend, TestOptions(), sink);
  sink->gone = true;
  running->Cancel();
  backend.last->PlayAll();
  EXPECT_TRUE(sink->finished);
  EXPECT_FALSE(sink->head.has_value()) << "nothing is written for nobody";
  EXPECT_EQ(backend.last->next, 0U);
}

TEST(ChatFlow, ProgressIsACommentInStreamsOnly) {
  ScriptedBackend backend;
  backend.script = {{0, Progress{512, 2048}}, Say("a"), End()};
  const auto sink = Post(backend, kPath, Chat("'stream':true"));
  EXPECT_TRUE(sink->body.starts_with(": prompt 512/2048\n\n")) << sink->body;
  EXPECT_EQ(Sum(ParseChunks(sink->body)).content, "a");
  EXPECT_EQ(TextAt(Whole(backend), "choices[0].message.content"), "a");
}

TEST(ChatFlow, WhatWasIgnoredAndWarnedOfIsInTheAnswer) {
  ScriptedBackend backend;
  backend.script = {{0, Warning{"2 turns left the context"}}, Say("a"), End()};
  ApiOptions options = TestOptions();
  options.read.lenient = true;
  const Json whole = Post(backend, kPath, Chat("'foo':1,'store':true"), options)->json();
  EXPECT_EQ(At(whole, "ignored_fields").Dump(), R"(["foo","store"])");
  EXPECT_EQ(At(whole, "warnings").Dump(), R"(["2 turns left the context"])");
  const auto chunks =
      ParseChunks(Post(backend, kPath, Chat("'stream':true,'foo':1"), options)->body);
  EXPECT_EQ(At(chunks[0], "ignored_fields").Dump(), R"(["foo"])");
  EXPECT_EQ(At(chunks[0], "warnings").Dump(), R"(["2 turns left the context"])");
  EXPECT_EQ(chunks[1].Find("ignored_fields"), nullptr);
  // A warning after the last chunk is not lost.
  backend.script = {Say("a"), End(), {0, Warning{"late"}}};
  const auto late = ParseChunks(Post(backend, kPath, Chat("'stream':true"))->body);
  EXPECT_EQ(At(late.back(), "warnings").Dump(), R"(["late"])");
  EXPECT_EQ(Whole(backend).Find("ignored_fields"), nullptr);
}

TEST(ChatFlow, TheBackendGetsTheRequest) {
  ScriptedBackend backend;
  backend.script = {End()};
  Whole(backend, "'stop':['x'],'seed':3,'max_tokens':5");
  EXPECT_EQ(backend.request.model, "m");
  EXPECT_EQ(backend.request.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(backend.request.sampling.seed, 3);
  EXPECT_EQ(backend.request.max_tokens, 5);
  EXPECT_EQ(backend.starts, 1);
  // What is refused never reaches it.
  EXPECT_EQ(Post(backend, kPath, Chat("'foo':1"))->status(), 400);
  EXPECT_EQ(backend.starts, 1);
}

TEST(ChatFlow, S10InterleavedRequestsKeepTheirTexts) {
  ScriptedBackend first, second;
  for (ScriptedBackend* backend : {&first, &second}) backend->play_at_once = false;
  first.script = {Say("a"), Say("b"), End()};
  second.script = {Say("x"), Say("y"), End()};
  auto one = std::make_shared<RecordingSink>();
  auto two = std::make_shared<RecordingSink>();
  const std::string body = Quoted(Chat("'stream':true"));
  Handle({"POST", kPath, body}, first, TestOptions(), one);
  Handle({"POST", kPath, body}, second, TestOptions(), two);
  while (first.last->Play() | second.last->Play()) {
  }
  EXPECT_EQ(Sum(ParseChunks(one->body)).content, "ab");
  EXPECT_EQ(Sum(ParseChunks(two->body)).content, "xy");
}

}  // namespace
}  // namespace hone::serve::openai
