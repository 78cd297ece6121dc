// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The API from JSON to JSON with a real, tiny model behind it.
#include "serve/model_backend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "runtime/chat.h"
#include "runtime/decode_loop.h"
#include "runtime/tiny_model.h"
#include "serve/openai/openai_test_util.h"

namespace hone::serve {
namespace {

using openai::At;
using openai::Quoted;
using openai::TextAt;

constexpr std::int64_t kVocab = 704;  // of them 645 have a piece

runtime::TextSetup FamilyText() {
  auto text = runtime::LoadText(HONE_SHARED_DATA "/golden/families/llama-gqa8/hf", nullptr);
  EXPECT_TRUE(text.ok()) << text.message();
  return *std::move(text);
}

std::unique_ptr<runtime::Engine> MakeEngine(runtime::TextSetup text, std::int64_t positions = 700) {
  auto engine = runtime::Engine::FromModel(
      runtime::MakeTinyModel({.vocab = kVocab, .max_positions = positions}), std::move(text),
      {.num_threads = 1, .prefix_cache_bytes = 64 << 20}, "tiny");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

// A response that may come from another thread, and can hold that up.
class WaitingSink final : public openai::ResponseSink {
 public:
  void Begin(const openai::ResponseHead& given) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_FALSE(begun_);
    begun_ = true;
    head_ = given;
  }
  void Write(std::string_view bytes) override {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(begun_ && !finished_);
    body_ += bytes;
    ++writes_;
    changed_.notify_all();
    if (leaves) gone = true;
    if (holds) changed_.wait(lock, [&] { return released_; });
  }
  void Finish() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_FALSE(finished_);
    finished_ = true;
    changed_.notify_all();
  }
  bool cancelled() const override { return gone; }

  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::minutes(5), [&] { return finished_; }));
  }
  void WaitForBytes() {
    std::unique_lock<std::mutex> lock(mutex_);
    ASSERT_TRUE(
        changed_.wait_for(lock, std::chrono::minutes(5), [&] { return writes_ > 0 || finished_; }));
  }
  void Release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  // After Wait.
  const openai::ResponseHead& head() const { return head_; }
  const std::string& body() const { return body_; }
  Json json() const { return openai::ParseText(body_); }

  std::atomic<bool> gone{false};
  // Set before the request. Its client goes with the first bytes; the first bytes stop the model
  // until Release.
  bool leaves = false, holds = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  openai::ResponseHead head_;
  std::string body_;
  int writes_ = 0;
  bool begun_ = false, finished_ = false, released_ = false;
};
using SinkPtr = std::shared_ptr<WaitingSink>;

SinkPtr Ask(openai::Backend& backend, std::string_view path, const std::string& body) {
  auto sink = std::make_shared<WaitingSink>();
  openai::Handle({"POST", path, Quoted(body)}, backend, openai::TestOptions(), sink);
  sink->Wait();
  return sink;
}

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

std::string ChatBody(const std::string& more = "") {
  return "{'messages':[{'role':'user','content':'Say hi'}],'temperature':0" +
         (more.empty() ? "" : "," + more) + "}";
}

// Random weights would stay in the white space that grammars allow.
std::string SpaceBias(const bridge::Tokenizer& tokenizer) {
  std::string bias;
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    const auto bytes = tokenizer.TokenBytes(id);
    if (!bytes.ok() || bytes->find_first_not_of(" \t\r\n") != std::string::npos) continue;
    bias += StrCat(bias.empty() ? "" : ",", "'", id, "':-100");
  }
  return "'logit_bias':{" + bias + "}";
}

void ExpectError(const WaitingSink& sink, int status, const std::string& code,
                 const std::string& param) {
  EXPECT_EQ(sink.head().http_status, status) << sink.body();
  EXPECT_EQ(TextAt(sink.json(), "error.code"), code) << sink.body();
  EXPECT_EQ(TextAt(sink.json(), "error.param"), param) << sink.body();
  EXPECT_EQ(sink.head().headers.at(0).second, "application/json");
}

// What the model says by itself, greedily, to the prompt of a chat with one message.
runtime::Generation Expected(runtime::Engine& engine, const std::string& message,
                             std::int64_t tokens) {
  auto messages = ParseJson("[{\"role\":\"user\",\"content\":\"" + message + "\"}]");
  EXPECT_TRUE(messages.ok());
  auto prompt = runtime::RenderChat(engine.text(), *messages, {});
  EXPECT_TRUE(prompt.ok()) << prompt.message();
  auto ids = runtime::EncodePrompt(engine.text(), *prompt);
  EXPECT_TRUE(ids.ok()) << ids.message();
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok());
  runtime::GenerateOptions options;
  options.max_tokens = tokens;
  auto answer = runtime::Generate(engine, **sequence, *ids, options);
  EXPECT_TRUE(answer.ok()) << answer.message();
  return *std::move(answer);
}

class ModelBackendTest : public testing::Test {
 protected:
  ModelBackend& backend() { return *backend_; }
  void Make(ModelBackendOptions options, std::int64_t positions = 700) {
    options.id = "tiny";
    backend_ = std::make_unique<ModelBackend>(MakeEngine(FamilyText(), positions), options);
  }
  void SetUp() override { Make({}); }

  std::unique_ptr<ModelBackend> backend_;
};

TEST_F(ModelBackendTest, AnswersAChat) {
  const auto twin = MakeEngine(FamilyText());
  const auto want = Expected(*twin, "Say hi", 12);
  const auto sink = Ask(backend(), kChat, ChatBody("'max_tokens':12"));
  ASSERT_EQ(sink->head().http_status, 200) << sink->body();
  const Json json = sink->json();
  EXPECT_EQ(TextAt(json, "model"), "tiny");
  EXPECT_EQ(TextAt(json, "choices[0].message.role"), "assistant");
  EXPECT_EQ(TextAt(json, "choices[0].message.content"), want.text);
  EXPECT_EQ(TextAt(json, "choices[0].finish_reason"),
            want.finish == runtime::FinishReason::kLength ? "length" : "stop");
  EXPECT_EQ(At(json, "usage.completion_tokens").AsInt(),
            static_cast<std::int64_t>(want.ids.size()));
  EXPECT_GT(At(json, "usage.prompt_tokens").AsInt(), 5);
  EXPECT_EQ(At(json, "warnings").Dump(), "null");
}

TEST_F(ModelBackendTest, StreamsTheSameAnswer) {
  const Json whole = Ask(backend(), kChat, ChatBody("'max_tokens':20"))->json();
  const auto sink =
      Ask(backend(), kChat,
          ChatBody("'max_tokens':20,'stream':true,'stream_options':{'include_usage':true}"));
  ASSERT_EQ(sink->head().http_status, 200) << sink->body();
  EXPECT_EQ(sink->head().headers.at(0).second, "text/event-stream");
  std::string content, finish;
  Json usage;
  for (const Json& chunk : openai::ParseChunks(sink->body())) {
    const Json delta = At(chunk, "choices[0].delta.content");
    if (delta.IsString()) content += delta.AsString();
    const Json reason = At(chunk, "choices[0].finish_reason");
    if (reason.IsString()) finish = reason.AsString();
    if (At(chunk, "usage").IsObject()) usage = At(chunk, "usage");
  }
  EXPECT_EQ(content, TextAt(whole, "choices[0].message.content"));
  EXPECT_EQ(finish, TextAt(whole, "choices[0].finish_reason"));
  EXPECT_EQ(At(usage, "completion_tokens").AsInt(), At(whole, "usage.completion_tokens").AsInt());
}

TEST_F(ModelBackendTest, AnswersTheOtherEndpoints) {
  const auto responses =
      Ask(backend(), "/v1/responses", "{'input':'Say hi','temperature':0,'max_output_tokens':12}");
  ASSERT_EQ(responses->head().http_status, 200) << responses->body();
  const Json chat = Ask(backend(), kChat, ChatBody("'max_tokens':12"))->json();
  EXPECT_EQ(TextAt(responses->json(), "output[0].content[0].text"),
            TextAt(chat, "choices[0].message.content"));

  auto sink = std::make_shared<WaitingSink>();
  openai::Handle({"GET", "/v1/models", ""}, backend(), openai::TestOptions(), sink);
  sink->Wait();
  EXPECT_EQ(TextAt(sink->json(), "data[0].id"), "tiny");
  EXPECT_EQ(At(sink->json(), "data[0].context_length").AsInt(), 700);

  const auto tokens = Ask(backend(), "/tokenize", "{'content':'Hello you','with_pieces':true}");
  ASSERT_EQ(tokens->head().http_status, 200) << tokens->body();
  std::string pieces, ids;
  const Json token_list = At(tokens->json(), "tokens");
  for (const Json& token : token_list.AsArray()) {
    pieces += token.Find("piece")->AsString();
    ids += (ids.empty() ? "" : ",") + token.Find("id")->Dump();
  }
  EXPECT_EQ(pieces, "Hello you");
  const auto with_bos =
      Ask(backend(), "/tokenize", "{'content':'Hello you','add_special':true}")->json();
  EXPECT_EQ(At(with_bos, "tokens").Dump(), "[0," + ids + "]");
  EXPECT_EQ(TextAt(Ask(backend(), "/detokenize", "{'tokens':[0," + ids + "]}")->json(), "content"),
            "<s>Hello you");
  ExpectError(*Ask(backend(), "/detokenize", "{'tokens':[5,704]}"), 400, "invalid_value",
              "tokens[1]");
  const std::string rendered = TextAt(
      Ask(backend(), "/apply-template", "{'messages':[{'role':'user','content':'x'}]}")->json(),
      "prompt");
  EXPECT_EQ(rendered, "<s><|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(ModelBackendTest, CompletesTextAndIds) {
  const Json text =
      Ask(backend(), kCompletions, "{'prompt':'Hello you','temperature':0,'max_tokens':8}")->json();
  std::string ids = "0";
  const Json tokens = Ask(backend(), "/tokenize", "{'content':'Hello you'}")->json();
  const Json token_list = At(tokens, "tokens");
  for (const Json& id : token_list.AsArray()) ids += "," + id.Dump();
  const Json both = Ask(backend(), kCompletions,
                        "{'prompt':[[" + ids + "],[5,6,7]],'temperature':0,'max_tokens':8,'n':2}")
                        ->json();
  EXPECT_FALSE(TextAt(text, "choices[0].text").empty());
  EXPECT_EQ(TextAt(both, "choices[0].text"), TextAt(text, "choices[0].text"));
  EXPECT_EQ(TextAt(both, "choices[1].text"), TextAt(text, "choices[0].text"));
  EXPECT_EQ(TextAt(both, "choices[2].text"), TextAt(both, "choices[3].text"));
  EXPECT_EQ(At(both, "usage.prompt_tokens").AsInt(),
            static_cast<std::int64_t>(At(tokens, "tokens").AsArray().size()) + 1 + 3);
}

// The requests of lm-eval's local-completions.
TEST_F(ModelBackendTest, EchoesPromptsWithLogprobs) {
  const auto sink = Ask(backend(), kCompletions,
                        "{'prompt':[[5,6,7,8],[9,10]],'max_tokens':1,'logprobs':1,'seed':1234,"
                        "'echo':true,'temperature':0}");
  ASSERT_EQ(sink->head().http_status, 200) << sink->body();
  const Json json = sink->json();
  const Json logprobs = At(json, "choices[0].logprobs");
  ASSERT_TRUE(At(logprobs, "token_logprobs").IsArray()) << sink->body();
  EXPECT_EQ(At(logprobs, "token_logprobs").AsArray().size(), 5U);
  EXPECT_TRUE(At(logprobs, "token_logprobs[0]").IsNull());
  for (std::size_t i = 1; i < 5; ++i) {
    const double logprob = At(logprobs, StrCat("token_logprobs[", i, "]")).AsDouble();
    EXPECT_TRUE(logprob < 0 && logprob > -30) << logprob;
  }
  EXPECT_EQ(At(json, "choices[1].logprobs.tokens").AsArray().size(), 3U);
  // Text begins with the prompt; offsets are those of the text.
  const Json echoed =
      Ask(backend(), kCompletions, "{'prompt':'Hello you','max_tokens':0,'logprobs':0,'echo':true}")
          ->json();
  EXPECT_EQ(TextAt(echoed, "choices[0].text"), "Hello you");
  EXPECT_EQ(TextAt(echoed, "choices[0].finish_reason"), "length");
  EXPECT_EQ(At(echoed, "choices[0].logprobs.text_offset[0]").AsInt(), 0);
  EXPECT_EQ(At(echoed, "choices[0].logprobs.text_offset[1]").AsInt(), 0) << "BOS is not in it";
  EXPECT_EQ(TextAt(echoed, "choices[0].logprobs.tokens[0]"), "");
  EXPECT_EQ(At(echoed, "usage.completion_tokens").AsInt(), 0);
}

// A tokenizer that begins every text with a space.
TEST_F(ModelBackendTest, OffsetsOfAnEchoAreThoseOfTheGivenText) {
  auto source = ReadFile(HONE_SHARED_DATA "/golden/families/llama-gqa8/hf/tokenizer.json");
  ASSERT_TRUE(source.ok());
  const std::string plain = "\"add_prefix_space\":false";
  const std::size_t at = source->find(plain);
  ASSERT_NE(at, std::string::npos);
  source->replace(at, plain.size(), "\"add_prefix_space\":true");
  runtime::TextSetup text = FamilyText();
  auto tokenizer = bridge::Tokenizer::FromJson(*source);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  text.tokenizer = *std::move(tokenizer);
  ModelBackend model(MakeEngine(std::move(text)), {});
  for (const std::string& prompt : {std::string("Hello you"), std::string(" Hello you")}) {
    const Json echoed = Ask(model, kCompletions,
                            "{'prompt':'" + prompt + "','max_tokens':0,'logprobs':0,'echo':true}")
                            ->json();
    const std::string shown = TextAt(echoed, "choices[0].text");
    EXPECT_EQ(shown, prompt);
    const Json tokens = At(echoed, "choices[0].logprobs.tokens");
    std::string joined;
    for (std::size_t i = 0; i < tokens.AsArray().size(); ++i) {
      const std::string offset = StrCat("choices[0].logprobs.text_offset[", i, "]");
      EXPECT_EQ(At(echoed, offset).AsInt(), static_cast<std::int64_t>(joined.size())) << i;
      joined += tokens.AsArray()[i].AsString();
    }
    EXPECT_EQ(joined, prompt);
  }
}

TEST_F(ModelBackendTest, RefusesEchoesWithTooManyLogprobs) {
  std::string prompt = "[5";
  for (int i = 1; i < 500; ++i) prompt += ",6";
  std::string prompts = prompt + "]";
  for (int i = 1; i < 12; ++i) prompts += "," + prompt + "]";
  // 12 x 500 x 16 x 21 is more than 2,000,000.
  const auto sink =
      Ask(backend(), kCompletions,
          "{'prompt':[" + prompts + "],'n':16,'max_tokens':0,'logprobs':20,'echo':true}");
  ExpectError(*sink, 400, "invalid_value", "logprobs");
  EXPECT_NE(sink->body().find("2016000 log-probabilities"), std::string::npos) << sink->body();
}

// A model with tools and thinking: random weights do what the grammars make them do.
TEST_F(ModelBackendTest, CallsToolsAndFollowsFormats) {
  auto source = ReadFile(HONE_SHARED_DATA "/data/minicpm5/chat_template.jinja");
  ASSERT_TRUE(source.ok()) << source.message();
  runtime::TextSetup text = FamilyText();
  auto compiled = bridge::ChatTemplate::Compile(*source);
  ASSERT_TRUE(compiled.ok()) << compiled.message();
  text.template_source = *source;
  text.chat_template = *std::move(compiled);
  const std::string bias = SpaceBias(*text.tokenizer) + ",";
  ModelBackend model(MakeEngine(std::move(text), 4000), {});
  const std::string tools =
      "'max_tokens':400,'chat_template_kwargs':{'enable_thinking':false},"
      "'tools':[{'type':'function','function':{'name':'add','parameters':{'type':'object',"
      "'properties':{'n':{'type':'integer','enum':[7,8]}},'required':['n'],"
      "'additionalProperties':false}}}],'tool_choice':'required','parallel_tool_calls':false";
  const Json called = Ask(model, kChat, ChatBody(bias + tools))->json();
  ASSERT_EQ(TextAt(called, "choices[0].finish_reason"), "tool_calls") << called.Dump();
  EXPECT_EQ(TextAt(called, "choices[0].message.tool_calls[0].function.name"), "add");
  const Json arguments =
      openai::ParseText(TextAt(called, "choices[0].message.tool_calls[0].function.arguments"));
  const std::int64_t n = At(arguments, "n").AsInt();
  EXPECT_TRUE(n == 7 || n == 8) << n;
  std::string streamed;
  for (const Json& chunk :
       openai::ParseChunks(Ask(model, kChat, ChatBody(bias + tools + ",'stream':true"))->body())) {
    const Json part = At(chunk, "choices[0].delta.tool_calls[0].function.arguments");
    if (part.IsString()) streamed += part.AsString();
  }
  EXPECT_EQ(openai::ParseText(streamed).Dump(), arguments.Dump());

  const Json formed =
      Ask(model, kChat,
          ChatBody(bias + "'max_tokens':400,'reasoning_effort':'none','response_format':{'type':"
                          "'json_schema','json_schema':{'name':'x','schema':{'type':'object',"
                          "'properties':{'size':{'enum':['small','large']}},'required':['size'],"
                          "'additionalProperties':false}}}"))
          ->json();
  ASSERT_EQ(TextAt(formed, "choices[0].finish_reason"), "stop") << formed.Dump();
  const Json content = openai::ParseText(TextAt(formed, "choices[0].message.content"));
  EXPECT_TRUE(TextAt(content, "size") == "small" || TextAt(content, "size") == "large");

  const Json thought = Ask(model, kChat, ChatBody("'max_tokens':60,'thinking_budget':9"))->json();
  EXPECT_GE(At(thought, "usage.completion_tokens_details.reasoning_tokens").AsInt(), 1)
      << thought.Dump();
  EXPECT_TRUE(At(thought, "choices[0].message.reasoning_content").IsString()) << thought.Dump();
}

TEST_F(ModelBackendTest, TheSecondTurnIsCached) {
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  const std::string first = "{'role':'user','content':'" + words + "'}";
  const auto ask = [&](const std::string& messages) {
    return Ask(backend(), kChat, "{'messages':[" + messages + "],'temperature':0,'max_tokens':4}")
        ->json();
  };
  const Json one = ask(first);
  EXPECT_EQ(At(one, "usage.prompt_tokens_details.cached_tokens").AsInt(), 0);
  const std::int64_t size = At(one, "usage.prompt_tokens").AsInt();
  ASSERT_GT(size, 64);
  const Json two =
      ask(first + ",{'role':'assistant','content':'yes'},{'role':'user','content':'b'}");
  EXPECT_GT(At(two, "usage.prompt_tokens").AsInt(), size);
  EXPECT_GE(At(two, "usage.prompt_tokens_details.cached_tokens").AsInt(), (size - 8) / 64 * 64);
}

TEST_F(ModelBackendTest, ErrorsNameTheirField) {
  ExpectError(*Ask(backend(), kChat, ChatBody("'logit_bias':{'704':1}")), 400, "invalid_value",
              "logit_bias.704");
  ExpectError(*Ask(backend(), kCompletions, "{'prompt':[1,2,704]}"), 400, "invalid_value",
              "prompt[2]");
  ExpectError(*Ask(backend(), kCompletions, "{'prompt':[[1],[704]]}"), 400, "invalid_value",
              "prompt[1][0]");
  // The template of this model has no branch for tools.
  ExpectError(
      *Ask(backend(), kChat,
           ChatBody("'tools':[{'type':'function','function':{'name':'f','parameters':{}}}]")),
      400, "unsupported_parameter", "tools");
  ExpectError(*Ask(backend(), kChat, ChatBody("'response_format':{'type':'regex','regex':'('}")),
              400, "invalid_value", "response_format");
  ExpectError(*Ask(backend(), kChat, ChatBody("'chat_template_kwargs':{'nothing':1}")), 400,
              "unsupported_parameter", "chat_template_kwargs");
  ExpectError(*Ask(backend(), kChat, ChatBody("'model':'other'")), 404, "model_not_found", "model");
}

TEST_F(ModelBackendTest, APromptThatDoesNotFitIsRefusedBeforeAnyEvent) {
  Make({}, 40);
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  const std::string body = "{'messages':[{'role':'user','content':'" + words + "'}],'stream':true}";
  const auto sink = Ask(backend(), kChat, body);
  ExpectError(*sink, 400, "context_length_exceeded", "messages");
  EXPECT_EQ(At(sink->json(), "error.n_ctx").AsInt(), 40);
  EXPECT_GT(At(sink->json(), "error.n_prompt_tokens").AsInt(), 40);
  const auto second = Ask(backend(), kCompletions, "{'prompt':['a','" + words + "']}");
  ExpectError(*second, 400, "context_length_exceeded", "prompt[1]");
}

TEST_F(ModelBackendTest, TrimsIfToldTo) {
  ModelBackendOptions options;
  options.on_full = chat::OnFull::kTrim;
  Make(options, 100);
  std::string words;
  for (int i = 0; i < 20; ++i) words += "word ";
  const std::string turn =
      "{'role':'user','content':'" + words + "'},{'role':'assistant','content':'yes'},";
  const auto sink = Ask(backend(), kChat,
                        "{'messages':[" + turn + turn + turn +
                            "{'role':'user','content':'b'}],'max_tokens':5,'temperature':0}");
  ASSERT_EQ(sink->head().http_status, 200) << sink->body();
  const std::string warnings = At(sink->json(), "warnings").Dump();
  EXPECT_NE(warnings.find("messages"), std::string::npos) << warnings;
  EXPECT_LE(At(sink->json(), "usage.prompt_tokens").AsInt(), 95);
}

// Clients send the whole context, or more: that is a bound and no reason to forget anything.
TEST_F(ModelBackendTest, ALargeBoundTrimsNothing) {
  ModelBackendOptions options;
  options.on_full = chat::OnFull::kTrim;
  Make(options, 200);
  const std::string turn = "{'role':'user','content':'a'},{'role':'assistant','content':'b'},";
  const auto sink =
      Ask(backend(), kChat,
          "{'messages':[" + turn + "{'role':'user','content':'c'}],'max_tokens':8192}");
  ASSERT_EQ(sink->head().http_status, 200) << sink->body();
  EXPECT_EQ(At(sink->json(), "warnings").Dump(), "null");
}

TEST_F(ModelBackendTest, WithoutATemplateThereAreOnlyCompletions) {
  runtime::TextSetup text = FamilyText();
  text.chat_template.reset();
  text.template_source.clear();
  ModelBackend plain(MakeEngine(std::move(text)), {});
  const auto sink = Ask(plain, kChat, ChatBody());
  ExpectError(*sink, 400, "unsupported_parameter", "messages");
  EXPECT_NE(sink->body().find("/v1/completions"), std::string::npos) << sink->body();
  ExpectError(*Ask(plain, "/apply-template", "{'messages':[{'role':'user','content':'x'}]}"), 400,
              "unsupported_parameter", "messages");
  EXPECT_EQ(Ask(plain, kCompletions, "{'prompt':'Hello','max_tokens':3}")->head().http_status, 200);
}

TEST_F(ModelBackendTest, SamplingIsOfTheModelUnlessSomebodySaysOtherwise) {
  runtime::TextSetup text = FamilyText();
  text.temperature = 1.5F;
  const std::string bare = "{'prompt':'Hello','max_tokens':12";
  const auto answer = [&](ModelBackend& of, const std::string& more) {
    return TextAt(Ask(of, kCompletions, bare + more + "}")->json(), "choices[0].text");
  };
  ModelBackend hot(MakeEngine(text), {});
  const std::string greedy = answer(backend(), ",'temperature':0");
  EXPECT_EQ(answer(hot, ",'temperature':0"), greedy);
  EXPECT_EQ(answer(hot, ",'seed':3"),
            answer(backend(), ",'seed':3,'temperature':1.5,'top_p':" + StrCat(text.top_p) +
                                  ",'top_k':" + StrCat(text.top_k)));
  EXPECT_NE(answer(hot, ",'seed':3"), greedy);
  EXPECT_EQ(answer(hot, ",'seed':3"), answer(hot, ",'seed':3"));
  ModelBackendOptions options;
  options.sampling.temperature = 0;
  ModelBackend cold(MakeEngine(text), options);
  EXPECT_EQ(answer(cold, ",'seed':3"), greedy);
}

TEST_F(ModelBackendTest, AClientThatHangsUpEndsItsRequestAlone) {
  const std::string endless = ChatBody(
      "'stream':true,'max_tokens':600,"
      "'logit_bias':{'1':-100,'3':-100,'642':-100,'643':-100,'644':-100}");
  auto hangs_up = std::make_shared<WaitingSink>(), gone = std::make_shared<WaitingSink>();
  hangs_up->holds = true;
  gone->leaves = true;
  const auto running =
      openai::Handle({"POST", kChat, Quoted(endless)}, backend(), openai::TestOptions(), hangs_up);
  ASSERT_NE(running, nullptr);
  const auto other =
      openai::Handle({"POST", kChat, Quoted(endless)}, backend(), openai::TestOptions(), gone);
  hangs_up->WaitForBytes();
  running->Cancel();
  hangs_up->gone = true;
  hangs_up->Release();
  hangs_up->Wait();
  gone->Wait();
  const auto next = Ask(backend(), kChat, ChatBody("'max_tokens':3"));
  EXPECT_EQ(next->head().http_status, 200);
  ASSERT_TRUE(backend().host().WaitIdle(std::chrono::minutes(1)));
  EXPECT_EQ(backend().host().stats().cancelled, 2);
  running->Cancel();  // too late
  backend_.reset();
  running->Cancel();  // later still
}

TEST_F(ModelBackendTest, FullQueueAndDrainingSayWhenToComeAgain) {
  ModelBackendOptions options;
  options.host.max_parallel = 1;
  options.host.max_queue = 0;
  Make(options);
  auto first = std::make_shared<WaitingSink>();
  first->holds = true;  // so that it runs until it is cancelled
  const auto running = openai::Handle(
      {"POST", kChat,
       Quoted(ChatBody("'stream':true,"
                       "'logit_bias':{'1':-100,'3':-100,'642':-100,'643':-100,'644':-100}"))},
      backend(), openai::TestOptions(), first);
  first->WaitForBytes();
  const auto refused = Ask(backend(), kChat, ChatBody());
  ExpectError(*refused, 429, "queue_full", "null");
  EXPECT_EQ(refused->head().headers.at(1).first, "Retry-After");
  running->Cancel();
  first->Release();
  first->Wait();
  backend().host().Drain();
  ExpectError(*Ask(backend(), kChat, ChatBody()), 503, "draining", "null");
}

TEST_F(ModelBackendTest, ReportsTheEndOfRequests) {
  ModelBackendOptions options;
  std::mutex mutex;
  std::vector<std::pair<Code, std::int64_t>> ends;
  options.on_end = [&](const Status& status, const chat::JobUsage& usage) {
    const std::lock_guard<std::mutex> lock(mutex);
    ends.emplace_back(status.code(), usage.prompt_tokens);
  };
  Make(options);
  Ask(backend(), kCompletions, "{'prompt':[5,6,7],'max_tokens':2}");
  backend_.reset();
  const std::lock_guard<std::mutex> lock(mutex);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0], std::pair(Code::kOk, std::int64_t{3}));
}

TEST(ModelBackend, OpensAModelByItsPath) {
  EXPECT_EQ(ModelBackend::Open("/no/such/model.gguf", {}).code(), Code::kNotFound);
  auto backend = ModelBackend::Open(HONE_SHARED_DATA "/golden/families/llama-gqa8/hf/", {});
  ASSERT_TRUE(backend.ok()) << backend.message();
  EXPECT_EQ((*backend)->Models()[0].id, "hf");
  EXPECT_EQ(Ask(**backend, kChat, ChatBody("'max_tokens':3"))->head().http_status, 200);
}

}  // namespace
}  // namespace hone::serve
