// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Routes, models, completions, text endpoints and errors.
#include "serve/openai/endpoints.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "serve/openai/openai_test_util.h"
#include "serve/openai/utf8.h"

namespace hone::serve::openai {
namespace {

std::shared_ptr<RecordingSink> Send(Backend& backend, std::string_view method,
                                    std::string_view path, const std::string& body = "") {
  auto sink = std::make_shared<RecordingSink>();
  const auto running = Handle({method, path, body}, backend, TestOptions(), sink);
  EXPECT_EQ(running, nullptr);
  EXPECT_TRUE(sink->finished);
  return sink;
}

TEST(Endpoints, S15TheListOfModels) {
  ScriptedBackend backend;
  backend.models.push_back({.id = "org/two", .loaded = false});
  EXPECT_EQ(Send(backend, "GET", "/v1/models")->body,
            R"({"object":"list","data":[{"id":"m","object":"model","created":5,)"
            R"("owned_by":"hone","context_length":64,"loaded":true},)"
            R"({"id":"org/two","object":"model","created":0,"owned_by":"hone",)"
            R"("context_length":null,"loaded":false}]})");
  EXPECT_EQ(TextAt(Send(backend, "GET", "/v1/models/org/two")->json(), "id"), "org/two");
  EXPECT_EQ(TextAt(Send(backend, "GET", "/v1/models/org%2Ftwo?x=1")->json(), "id"), "org/two");
  EXPECT_EQ(Send(backend, "GET", "/v1/models/three")->status(), 404);
}

TEST(Endpoints, S15AModelThatIsMissingOrUnknown) {
  ScriptedBackend backend;
  backend.script = {Say("a"), End()};
  const std::string messages = "'messages':[{'role':'user','content':'x'}]}";
  const std::string path = "/v1/chat/completions";
  // One model: nobody has to name it. The answer has its id.
  for (const char* model : {"{", "{'model':null,", "{'model':'',", "{'model':'m',"}) {
    const auto sink = Post(backend, path, model + messages);
    EXPECT_EQ(sink->status(), 200) << model;
    EXPECT_EQ(TextAt(sink->json(), "model"), "m");
    EXPECT_EQ(backend.request.model, "m");
  }
  const auto unknown = Post(backend, path, "{'model':'gpt-4'," + messages);
  EXPECT_EQ(unknown->status(), 404);
  EXPECT_EQ(TextAt(unknown->json(), "error.code"), "model_not_found");
  EXPECT_EQ(TextAt(unknown->json(), "error.param"), "model");
  EXPECT_EQ(TextAt(unknown->json(), "error.message"),
            "model: there is no \"gpt-4\" here; this server has m");
  backend.models.push_back({.id = "two"});
  const auto missing = Post(backend, path, "{" + messages);
  EXPECT_EQ(missing->status(), 400);
  EXPECT_EQ(TextAt(missing->json(), "error.message"), "model: missing, expected one of m, two");
}

TEST(Endpoints, UnknownPathsAndMethodsAreJsonErrors) {
  ScriptedBackend backend;
  const auto path = Send(backend, "POST", "/v1/embeddings", "{}");
  EXPECT_EQ(path->status(), 404);
  EXPECT_EQ(TextAt(path->json(), "error.code"), "unknown_url");
  const auto method = Send(backend, "GET", "/v1/chat/completions");
  EXPECT_EQ(method->status(), 405);
  EXPECT_EQ(method->Header("Allow"), "POST");
  EXPECT_EQ(TextAt(method->json(), "error.type"), "invalid_request_error");
  EXPECT_EQ(Send(backend, "GET", "/\xff")->status(), 404);
  EXPECT_TRUE(IsApiPath("/v1/models"));
  EXPECT_TRUE(IsApiPath("/tokenize?a=b"));
  EXPECT_FALSE(IsApiPath("/"));
  EXPECT_FALSE(IsApiPath("/v1/models/"));
}

TEST(Endpoints, BrokenBodiesAreNeverA500) {
  ScriptedBackend backend;
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/tokenize",
                           "/detokenize", "/apply-template"}) {
    for (const char* body : {"", "{", "[]", "null", "{}", "{\"a\":\xff}", "{\"model\":{}}"}) {
      const auto sink = Send(backend, "POST", path, body);
      EXPECT_EQ(sink->status(), 400) << path << " " << body;
      EXPECT_FALSE(TextAt(sink->json(), "error.message").empty());
    }
  }
}

TEST(Endpoints, RetryAfterComesWithBusyServers) {
  ScriptedBackend backend;
  backend.start_error = QueueFull(32, 7);
  const auto full = Post(backend, "/v1/chat/completions", Chat("'stream':true"));
  EXPECT_EQ(full->status(), 429);
  EXPECT_EQ(full->Header("Retry-After"), "7");
  EXPECT_EQ(TextAt(full->json(), "error.code"), "queue_full");
  backend.start_error = Unavailable("draining", "the server is stopping", 2);
  const auto draining = Post(backend, "/v1/completions", "{'prompt':'a'}");
  EXPECT_EQ(draining->status(), 503);
  EXPECT_EQ(draining->Header("Retry-After"), "2");
  EXPECT_EQ(TextAt(draining->json(), "error.code"), "draining");
}

TEST(Endpoints, TokenizeDetokenizeAndApplyTemplate) {
  ScriptedBackend backend;
  backend.pieces = {{1, "Hi"}, {2, "\xe2\x82"}};
  EXPECT_EQ(Post(backend, "/tokenize", "{'content':'Hi'}")->body, R"({"count":2,"tokens":[1,2]})");
  EXPECT_FALSE(backend.tokenize.add_special);
  EXPECT_EQ(Post(backend, "/tokenize", "{'content':'Hi','with_pieces':true}")->body,
            R"({"count":2,"tokens":[{"id":1,"piece":"Hi"},{"id":2,"piece":[226,130]}]})");
  backend.text = "Hi \"you\"";
  EXPECT_EQ(Post(backend, "/detokenize", "{'tokens':[1,2]}")->body, R"({"content":"Hi \"you\""})");
  EXPECT_EQ(backend.detokenize.tokens, (std::vector<std::int32_t>{1, 2}));
  const std::string chat = "{'messages':[{'role':'user','content':'x'}]}";
  EXPECT_EQ(Post(backend, "/apply-template", chat)->body, R"({"prompt":"Hi \"you\""})");
  EXPECT_TRUE(backend.render.chat.add_generation_prompt);
  backend.start_error = FromStatus(Status(Code::kUnsupported, "no template"));
  EXPECT_EQ(Post(backend, "/apply-template", chat)->status(), 400);
  ApiOptions lenient = TestOptions();
  lenient.read.lenient = true;
  EXPECT_EQ(Post(backend, "/detokenize", "{'tokens':[],'foo':1}", lenient)->body,
            R"({"content":"Hi \"you\"","ignored_fields":["foo"]})");
}

// Gets no memory for a piece that has some text in it, or for sending an answer that is no error.
class PoorSink final : public ResponseSink {
 public:
  explicit PoorSink(std::string missing) : missing_(std::move(missing)) {}
  void Begin(const ResponseHead& given) override {
    EXPECT_FALSE(finished);
    EXPECT_FALSE(head && head->stream) << "it has been sent";
    head = given;
    body.clear();
  }
  void Write(std::string_view bytes) override {
    if (!missing_.empty() && bytes.find(missing_) != std::string_view::npos) throw std::bad_alloc();
    body += bytes;
  }
  void Finish() override {
    if (missing_.empty() && head->http_status == 200) throw std::bad_alloc();
    finished = true;
  }
  bool cancelled() const override { return false; }

  std::optional<ResponseHead> head;
  std::string body;
  bool finished = false;

 private:
  std::string missing_;
};

TEST(Endpoints, AWholeAnswerThatGetsNoMemoryIsAnError) {
  const std::pair<const char*, std::string> calls[] = {{"/v1/chat/completions", Chat()},
                                                       {"/v1/completions", "{'prompt':'x'}"},
                                                       {"/v1/responses", "{'input':'x'}"}};
  ScriptedBackend backend;
  backend.script = {Say("a long text"), End()};
  for (const auto& [path, body] : calls) {
    for (const char* missing : {"a long text", ""}) {
      const auto sink = std::make_shared<PoorSink>(missing);
      Handle({"POST", path, Quoted(body)}, backend, TestOptions(), sink);
      EXPECT_TRUE(sink->finished) << path;
      EXPECT_EQ(sink->head->http_status, 503) << path;
      EXPECT_EQ(TextAt(ParseText(sink->body), "error.code"), "out_of_memory") << sink->body;
    }
  }
}

TEST(Endpoints, AStreamThatGetsNoMemoryForItsEndHasAnErrorThere) {
  ScriptedBackend backend;
  backend.script = {Say("a"), End()};
  const auto sink = std::make_shared<PoorSink>("[DONE]");
  Handle({"POST", "/v1/completions", Quoted("{'prompt':'x','stream':true}")}, backend,
         TestOptions(), sink);
  EXPECT_TRUE(sink->finished);
  EXPECT_EQ(sink->head->http_status, 200);
  const std::vector<SseEvent> events = ParseSse(sink->body);
  ASSERT_EQ(events.size(), 3U) << sink->body;
  EXPECT_EQ(TextAt(ParseText(events[0].data), "choices[0].text"), "a");
  EXPECT_EQ(TextAt(ParseText(events[2].data), "error.code"), "out_of_memory");
}

TEST(Endpoints, StatusesOfTheLibraryBecomeErrors) {
  const auto http = [](Code code) { return FromStatus(Status(code, "x"), "tools"); };
  EXPECT_EQ(http(Code::kInvalidArgument).http_status, 400);
  EXPECT_EQ(http(Code::kInvalidArgument).param, "tools");
  EXPECT_EQ(http(Code::kUnsupported).code, "unsupported_parameter");
  EXPECT_EQ(http(Code::kNotFound).http_status, 404);
  EXPECT_EQ(http(Code::kOutOfMemory).http_status, 503);
  EXPECT_GT(http(Code::kOutOfMemory).retry_after_seconds, 0);
  EXPECT_EQ(http(Code::kCancelled).http_status, 503);
  for (const Code code : {Code::kInternal, Code::kIo, Code::kDataLoss}) {
    EXPECT_EQ(http(code).http_status, 500);
    EXPECT_EQ(http(code).type, "server_error");
  }
  EXPECT_EQ(BodyTooLarge(33, 32).http_status, 413);
  EXPECT_EQ(Unauthorized().http_status, 401);
  EXPECT_EQ(Forbidden("no").http_status, 403);
}

Event Echo(std::string text, std::vector<TokenScore> tokens, std::int64_t choice = 0) {
  return {choice, PromptEcho{std::move(text), std::move(tokens)}};
}
Event Scored(std::string text, std::vector<TokenScore> tokens, std::int64_t choice = 0) {
  return {choice, ContentDelta{std::move(text), std::move(tokens)}};
}

TEST(Completions, AWholeAnswerAndAStream) {
  ScriptedBackend backend;
  backend.script = {Say("a"), Say("b"), End(EndReason::kLength)};
  EXPECT_EQ(Post(backend, "/v1/completions", "{'prompt':'x'}")->body,
            R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m",)"
            R"("system_fingerprint":"fp","choices":[{"text":"ab","index":0,"logprobs":null,)"
            R"("finish_reason":"length"}],"usage":{"prompt_tokens":7,"completion_tokens":3,)"
            R"("total_tokens":10,"prompt_tokens_details":{"cached_tokens":4},)"
            R"("completion_tokens_details":{"reasoning_tokens":1}}})");
  const auto chunks =
      ParseChunks(Post(backend, "/v1/completions",
                       "{'prompt':'x','stream':true,'stream_options':{'include_usage':true}}")
                      ->body);
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_EQ(At(chunks[0], "choices[0]").Dump(),
            R"({"text":"a","index":0,"logprobs":null,"finish_reason":null})");
  EXPECT_EQ(At(chunks[2], "choices[0]").Dump(),
            R"({"text":"","index":0,"logprobs":null,"finish_reason":"length"})");
  EXPECT_EQ(At(chunks[3], "usage.completion_tokens").AsInt(), 3);
  EXPECT_TRUE(chunks[3].Find("choices")->AsArray().empty());
}

TEST(Completions, EchoAndLogprobsAsLmEvalReadsThem) {
  ScriptedBackend backend;
  const auto candidate = [](std::int32_t id, const char* text, double p) {
    return TokenCandidate{id, text, p};
  };
  // Prompt: " A", " B"; the continuation is the last token. " B" is not the likeliest there.
  backend.script = {
      Echo(" A B", {{.id = 1, .bytes = " A", .logprob = {}, .top = {}},
                    {.id = 2, .bytes = " B", .logprob = -2.5, .top = {candidate(3, " C", -0.5)}}}),
      Scored(" D",
             {{.id = 4, .bytes = " D", .logprob = -0.25, .top = {candidate(4, " D", -0.25)}}}),
      End(EndReason::kLength)};
  const std::string body = "{'prompt':[[1,2]],'echo':true,'logprobs':1,'max_tokens':1";
  const Json whole = Post(backend, "/v1/completions", body + "}")->json();
  const std::string logprobs =
      R"({"tokens":[" A"," B"," D"],"token_logprobs":[null,-2.5,-0.25],)"
      R"("top_logprobs":[null,{" C":-0.5," B":-2.5},{" D":-0.25}],"text_offset":[0,2,4]})";
  EXPECT_EQ(At(whole, "choices[0].logprobs").Dump(), logprobs);
  EXPECT_EQ(TextAt(whole, "choices[0].text"), " A B D");
  // The chunks of a stream, put together, have the same.
  const auto chunks = ParseChunks(Post(backend, "/v1/completions", body + ",'stream':true}")->body);
  Json::Array offsets, tokens;
  for (const Json& chunk : chunks) {
    const Json part = At(chunk, "choices[0].logprobs");
    if (part.IsNull()) continue;
    for (const Json& offset : part.Find("text_offset")->AsArray()) offsets.push_back(offset);
    for (const Json& token : part.Find("tokens")->AsArray()) tokens.push_back(token);
  }
  EXPECT_EQ(Json(offsets).Dump(), "[0,2,4]");
  EXPECT_EQ(Json(tokens).Dump(), R"([" A"," B"," D"])");
}

TEST(Completions, TokensThatSplitACharacterAndTokensOfTheSameText) {
  ScriptedBackend backend;
  backend.script = {
      Scored("\xc3\xa9\xe2\x82\xac",
             {{.id = 1, .bytes = "\xc3\xa9", .logprob = -1, .top = {{1, "\xc3\xa9", -1}}},
              {.id = 2, .bytes = "\xe2\x82", .logprob = -1, .top = {}},
              {.id = 3, .bytes = "\xac", .logprob = -INFINITY, .top = {}}}),
      Scored("x", {{.id = 4, .bytes = "x", .logprob = -3, .top = {{9, "x", -1}, {4, "x", -3}}}}),
      End()};
  const Json whole = Post(backend, "/v1/completions", "{'prompt':'x','logprobs':2}")->json();
  const Json logprobs = At(whole, "choices[0].logprobs");
  EXPECT_EQ(At(logprobs, "tokens").Dump(),
            "[\"\xc3\xa9\",\"bytes:\\\\xe2\\\\x82\",\"bytes:\\\\xac\",\"x\"]");
  EXPECT_EQ(At(logprobs, "text_offset").Dump(), "[0,1,1,2]");
  EXPECT_EQ(At(logprobs, "token_logprobs").Dump(), "[-1.0,-1.0,-9999.0,-3.0]");
  EXPECT_EQ(At(logprobs, "top_logprobs[3]").Dump(), R"({"x":-1.0})");
  const Json none = Post(backend, "/v1/completions", "{'prompt':'x','logprobs':0}")->json();
  EXPECT_TRUE(At(none, "choices[0].logprobs.top_logprobs").IsNull());
  EXPECT_EQ(At(none, "choices[0].logprobs.tokens").AsArray().size(), 4U);
}

TEST(Completions, PromptsTimesChoicesHaveOneIndexEach) {
  ScriptedBackend backend;
  for (std::int64_t i = 0; i < 4; ++i) {
    backend.script.push_back(Say(std::string(1, static_cast<char>('a' + i)), i));
    backend.script.push_back(End(EndReason::kStop, i));
  }
  const Json whole = Post(backend, "/v1/completions", "{'prompt':['x','y'],'n':2}")->json();
  ASSERT_EQ(At(whole, "choices").AsArray().size(), 4U);
  EXPECT_EQ(TextAt(whole, "choices[3].text"), "d");
  EXPECT_EQ(At(whole, "choices[3].index").AsInt(), 3);
  EXPECT_EQ(backend.request.prompts.size(), 2U);
}

TEST(Utf8, WholeOpenAndWrongCharacters) {
  EXPECT_EQ(CharacterBytes("a"), 1);
  EXPECT_EQ(CharacterBytes("\xf0\x9f\x98\x8a"), 4);
  EXPECT_EQ(CharacterBytes("\xf0\x9f\x98"), 0);
  EXPECT_EQ(CharacterBytes(""), 0);
  for (const char* wrong :
       {"\x80", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff",
        "\xc3"
        "a"}) {
    EXPECT_EQ(CharacterBytes(wrong), -1) << EscapeInvalid(wrong);
    EXPECT_FALSE(IsUtf8(wrong));
  }
  EXPECT_EQ(EscapeInvalid("a\xc3"
                          "b\xe2\x82"),
            "a\\xc3b\\xe2\\x82");
  CharacterCounter counter;
  for (const char* part : {"\xe2", "\x82",
                           "\xac"
                           "a",
                           "\xff", "\xf0\x9f"})
    counter.Add(part);
  EXPECT_EQ(counter.count(), 3);
}

}  // namespace
}  // namespace hone::serve::openai
