// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Answers: channels, stop strings, limits, log-probabilities.
#include "chat/answer.h"

#include <algorithm>
#include <cmath>

#include "chat/conversation_test_util.h"
#include "chat/token_score.h"
#include "runtime/batcher.h"

namespace hone::chat {
namespace {

ChatRequest Thinking(ThinkingMode mode, std::optional<std::int64_t> budget = {}) {
  ChatRequest request = AskHello();
  request.thinking = {mode, budget};
  return request;
}

TEST(Answer, SplitsTheThinkingThatThePromptOpened) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, Thinking(ThinkingMode::kOn));
  EXPECT_TRUE(prompt.opens_thinking);
  EXPECT_TRUE(prompt.text.ends_with("<think>\n"));
  const Reply reply = Say(model, prompt, model.Encode("A</think>\n\nB"));
  EXPECT_EQ(Show(reply), "A|B||stop");
  EXPECT_EQ(reply.reasoning_tokens, 2);
}

TEST(Answer, SplitsTheThinkingThatTheModelOpens) {
  const TestModel model(TestText());
  EXPECT_EQ(Show(Say(model, AskHello(), "<think>\nwhy\n</think>\n\nso")), "why|so||stop");
  EXPECT_EQ(Show(Say(model, AskHello(), "no <think> here")), "|no <think> here||stop");
}

TEST(Answer, FindsMarksThatAreCutByTokens) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, Thinking(ThinkingMode::kOn));
  EXPECT_EQ(Show(Say(model, prompt, model.EncodeCharacters("A</think>\n\nB </think>"))),
            "A|B </think>||stop");
  EXPECT_EQ(Show(Say(model, prompt, model.EncodePieces({"A</thi", "nk>", "B"}))), "A|B||stop");
  EXPECT_EQ(Show(Say(model, prompt, model.EncodePieces({"A</thi", "s>"}))), "A</this>|||stop");
}

TEST(Answer, KeepsThinkingThatNeverClosesOutOfTheContent) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, Thinking(ThinkingMode::kOn));
  const Ids script = model.EncodeCharacters("thinking on and on </th");
  const Reply reply = Say(model, prompt, script, {.max_tokens = 23});
  EXPECT_EQ(Show(reply), "thinking on and on </th|||length");
  EXPECT_EQ(reply.reasoning_tokens, 23);
}

TEST(Answer, TakesARepeatedMarkAtTheBeginAsPartOfTheChannel) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, Thinking(ThinkingMode::kOn));
  EXPECT_EQ(Show(Say(model, prompt, model.Encode("<think>\nA</think>B"))), "A|B||stop");
}

TEST(Answer, SplitsTheThinkingOfAPromptWhoseMarkEndsInWhiteSpace) {
  runtime::TextSetup text = WithTemplate(TestText(), "{{ messages[0].content }}<think>{{ '\n' }}");
  text.think_start = "<think>\n";
  text.think_end = "</think>\n";
  const TestModel model(std::move(text));
  const Prompt prompt = MustPrompt(model, AskHello());
  EXPECT_TRUE(prompt.opens_thinking);
  EXPECT_EQ(Show(Say(model, prompt, model.Encode("A</think>\nB"))), "A|B||stop");
  const Prompt off = MustPrompt(model, Thinking(ThinkingMode::kOff));
  EXPECT_EQ(off.text, "hello<think>\n\n</think>\n\n\n");
  EXPECT_EQ(Show(Say(model, off, model.Encode("B"))), "|B||stop");
}

TEST(Answer, ShowsMarksToItsReaderAlsoWhereTheTokenizerHidesThem) {
  const TestModel model(WithSpecialTokens(TestText(), {"<think>", "</think>"}));
  Ids script = model.Encode("<think>A</think>B");
  ASSERT_EQ(script.front(), kThinkId);
  script.insert(script.begin() + 2, 2);  // <|im_start|>
  script.push_back(1);
  EXPECT_EQ(Show(Say(model, MustPrompt(model, AskHello()), script)), "A|B||stop");
}

TEST(Answer, ClosesTheThinkingAtTheBudget) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, Thinking(ThinkingMode::kOn, 5));
  Ids script = model.EncodeCharacters("12345");
  const Ids rest = model.Encode("\n\nThe answer");
  script.insert(script.end(), rest.begin(), rest.end());
  const Reply reply = Say(model, prompt, script);
  EXPECT_EQ(Show(reply), "12345|The answer||stop");
  EXPECT_EQ(reply.ids[5], kEndThinkId);
  EXPECT_EQ(std::count(reply.ids.begin(), reply.ids.end(), kEndThinkId), 1);
  EXPECT_EQ(reply.reasoning_tokens, 6);
}

TEST(Answer, CountsTheBudgetFromTheMarkThatTheModelWrites) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, Thinking(ThinkingMode::kDefault, 2));
  Ids script = {kThinkId};
  const Ids rest = model.EncodeCharacters("ab!");
  script.insert(script.end(), rest.begin(), rest.end());
  EXPECT_EQ(Show(Say(model, prompt, script)), "ab|!||stop");
  // A model that is done earlier is left alone.
  EXPECT_EQ(Show(Say(model, prompt, model.Encode("<think>a</think>!"))), "a|!||stop");
}

TEST(Answer, DoesNotLetAClosedChannelOpenAgain) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, Thinking(ThinkingMode::kOn, 1));
  Ids script = model.EncodeCharacters("a");
  script.push_back(kThinkId);
  const Reply reply = Say(model, prompt, script);
  EXPECT_EQ(std::count(reply.ids.begin(), reply.ids.end(), kThinkId), 0);
  EXPECT_EQ(reply.thinking, "a");
}

TEST(Answer, ClosesMarksOfSeveralTokensAtTheBudget) {
  runtime::TextSetup text = WithTemplate(TestText(), "{{ messages[0].content }}");
  text.think_start = "[[why]]";
  text.think_end = "[[so]]";
  const TestModel model(std::move(text));
  ASSERT_FALSE(model.chat->think_end_id());
  ChatRequest request = AskHello();
  request.thinking.budget_tokens = 3;
  Ids script = model.EncodeCharacters("[[why]]abc!");
  const Reply reply = Say(model, MustPrompt(model, request), script);
  EXPECT_EQ(Show(reply), "abc|!||stop");
}

TEST(Answer, ShowsNoPieceOfTheMarkThatClosesAtTheBudget) {
  runtime::TextSetup text = WithTemplate(TestText(), "{{ messages[0].content }}[[why]]");
  text.think_start = "[[why]]";
  text.think_end = "[[so]]";
  const TestModel model(std::move(text));
  const auto mark = static_cast<std::int64_t>(model.chat->think_end_ids().size());
  ASSERT_GT(mark, 1);
  ChatRequest request = AskHello();
  request.thinking.budget_tokens = 4;
  const Prompt prompt = MustPrompt(model, request);
  // The model is writing the mark when the budget is used up.
  EXPECT_EQ(Show(Say(model, prompt, model.EncodeCharacters("abc[[so]]!"))), "abc|!||stop");
  // What only looks so is closed nevertheless.
  const Reply stubborn = Say(model, prompt, model.EncodeCharacters("abc[[[[[[[[[[[["));
  EXPECT_EQ(stubborn.reasoning_tokens, 4 + 6 + mark);
  // The limit is reached inside the mark.
  const Reply cut =
      Say(model, prompt, model.EncodeCharacters("abcde"), {.max_tokens = 4 + mark - 1});
  EXPECT_EQ(Show(cut), "abcd|||length");
}

TEST(Answer, DoesNotOpenAChannelOfSeveralTokensThatIsOffOrWasClosed) {
  runtime::TextSetup text =
      WithSpecialTokens(WithTemplate(TestText(),
                                     "{{ messages[0].content }}"
                                     "{% if enable_thinking is false %}, briefly{% endif %}:"),
                        {"<|channel>", "<channel|>"});
  text.think_start = "<|channel>thought";
  text.think_end = "<channel|>";
  const TestModel model(std::move(text));
  ASSERT_FALSE(model.chat->think_start_id());
  const Ids opening = model.Encode("<|channel>thought");
  Reply reply =
      Say(model, MustPrompt(model, Thinking(ThinkingMode::kOff)), opening, {.max_tokens = 4});
  EXPECT_EQ(std::count(reply.ids.begin(), reply.ids.end(), opening[0]), 0);
  Ids script = opening;
  const Ids thought = model.EncodeCharacters("ab");
  script.insert(script.end(), thought.begin(), thought.end());
  script.insert(script.end(), opening.begin(), opening.end());
  reply = Say(model, MustPrompt(model, Thinking(ThinkingMode::kDefault, 2)), script,
              {.max_tokens = static_cast<std::int64_t>(script.size()) + 4});
  EXPECT_EQ(std::count(reply.ids.begin(), reply.ids.end(), opening[0]), 1);
  EXPECT_EQ(reply.thinking, "ab");
}

TEST(Answer, ThinksLessWhenThinkingIsOff) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, Thinking(ThinkingMode::kOff));
  EXPECT_TRUE(prompt.text.ends_with("<think>\n\n</think>\n\n"));
  EXPECT_FALSE(prompt.opens_thinking);
  const Ids script = model.Encode("B");
  const Reply reply = Say(model, prompt, script);
  EXPECT_EQ(Show(reply), "|B||stop");
  EXPECT_EQ(reply.ids, script);
  EXPECT_EQ(reply.reasoning_tokens, 0);
  // The mark cannot be chosen before the content begins; after that it is text.
  EXPECT_NE(Say(model, prompt, {kThinkId}).ids, Ids{kThinkId});
  EXPECT_EQ(Show(Say(model, prompt, model.Encode("a <think> tag"))), "|a <think> tag||stop");
}

TEST(Answer, CutsStopStringsThatCrossTokens) {
  const TestModel model(TestText());
  const std::string text = " L M N O P Q R";
  for (const Ids& script : {model.Encode(text), model.EncodeCharacters(text)}) {
    const Reply reply = Say(model, MustPrompt(model, AskHello()), script, {.stop = {"O P Q"}});
    EXPECT_EQ(Show(reply), "| L M N ||stop");
    for (const std::string& piece : reply.pieces) {
      EXPECT_EQ(piece.find('O'), std::string::npos) << piece;
    }
  }
}

TEST(Answer, FlushesWhatOnlyMightHaveBeenAStopString) {
  const TestModel model(TestText());
  const AnswerOptions options{.stop = {"TRE\nAAAA"}};
  EXPECT_EQ(Show(Say(model, AskHello(), "UNO DUE TRE", options)), "|UNO DUE TRE||stop");
  EXPECT_EQ(Show(Say(model, AskHello(), "UNO DUE TRE\nAA B", options)), "|UNO DUE TRE\nAA B||stop");
  const Prompt prompt = MustPrompt(model, AskHello());
  AnswerOptions cut = options;
  cut.max_tokens = 5;
  EXPECT_EQ(Show(Say(model, prompt, model.EncodeCharacters("a TRE\nAAAA"), cut)), "|a TRE||length");
}

TEST(Answer, MatchesStopStringsInTheContentOnly) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, Thinking(ThinkingMode::kOn));
  const Reply reply =
      Say(model, prompt, model.Encode("a stop b</think>c stop d"), {.stop = {"stop"}});
  EXPECT_EQ(Show(reply), "a stop b|c ||stop");
  // Neither the mark of the thinking nor what crosses it.
  EXPECT_EQ(Show(Say(model, prompt, model.Encode("a</think>bc"), {.stop = {"think", "a</", ">b"}})),
            "a|bc||stop");
}

TEST(Answer, TakesTheEarliestOfSeveralStopStrings) {
  const TestModel model(TestText());
  EXPECT_EQ(Show(Say(model, AskHello(), "one two three", {.stop = {"three", "two", "o th"}})),
            "|one ||stop");
}

TEST(Answer, StopsWhatAFusedStopTokenBrings) {
  const TestModel model(TestText());
  Ids script = model.Encode("Yes");
  script.push_back(642);  // ".<|im_end|>\n"
  const Prompt prompt = MustPrompt(model, AskHello());
  EXPECT_EQ(Show(Say(model, prompt, script)), "|Yes.||stop");
  EXPECT_EQ(Show(Say(model, prompt, script, {.stop = {"s."}})), "|Ye||stop");
}

TEST(Answer, TakesMaxTokensAsARealLimit) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, AskHello());
  const Ids script = model.EncodeCharacters("abc");
  EXPECT_EQ(Show(Say(model, prompt, script, {.max_tokens = 0})), "|||length");
  EXPECT_EQ(Show(Say(model, prompt, script, {.max_tokens = 1})), "|a||length");
  EXPECT_EQ(Show(Say(model, prompt, script, {.max_tokens = 3})), "|abc||length");
  EXPECT_EQ(Show(Say(model, prompt, script, {.max_tokens = 4})), "|abc||stop");
  // A stop string that is complete at the limit counts more.
  EXPECT_EQ(Show(Say(model, prompt, script, {.max_tokens = 3, .stop = {"c"}})), "|ab||stop");
  auto answer = Answer::Make(*model, {.plan = prompt.plan, .max_tokens = 0}, {});
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE((*answer)->wants_nothing());
}

TEST(Answer, GivesOutWhatWasHeldBackWhenItsHostEndsIt) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, AskHello());
  const auto run = [&](const Result<runtime::FinishReason>& end) {
    ReplyRecorder recorder;
    auto answer = Answer::Make(*model, {.plan = prompt.plan, .stop = {"bc"}}, recorder.sink());
    for (const std::int32_t id : model.EncodeCharacters("ab")) {
      EXPECT_EQ((*answer)->Next(Wanting(id), prompt.ids), id);
    }
    EXPECT_EQ(recorder.reply().content, "a");
    (*answer)->Finish(end);
    (*answer)->Finish(end);
    EXPECT_EQ((*answer)->Next(Wanting(5), prompt.ids), std::nullopt);
    return StrCat(Show(recorder.reply()), " ", (*answer)->error().message());
  };
  EXPECT_EQ(run(runtime::FinishReason::kLength), "|ab||length ");
  EXPECT_EQ(run(runtime::FinishReason::kCancelled), "|ab||cancelled ");
  EXPECT_EQ(run(Status(Code::kDataLoss, "damaged")), "|a||error damaged");
}

TEST(Answer, EndsWithAnErrorWhereNoLogitCanBeUsed) {
  const TestModel model(TestText());
  ReplyRecorder recorder;
  auto answer = Answer::Make(*model, {.plan = MustPrompt(model, AskHello()).plan}, recorder.sink());
  const std::vector<float> nan(static_cast<std::size_t>(kTestVocab), std::nanf(""));
  EXPECT_EQ((*answer)->Next(nan, {}), std::nullopt);
  EXPECT_EQ((*answer)->end_reason(), AnswerEndReason::kError);
  EXPECT_EQ((*answer)->error().code(), Code::kDataLoss);
}

TEST(Answer, AddsTheBiasToTheLogits) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, AskHello());
  const std::int32_t a = model.Encode("a")[0];
  const std::int32_t b = model.Encode("b")[0];
  // The script's logit is 20 above the others.
  EXPECT_EQ(Say(model, prompt, {a}, {.logit_bias = {{b, 19.0}}, .max_tokens = 1}).content, "a");
  EXPECT_EQ(Say(model, prompt, {a}, {.logit_bias = {{b, 21.0}}, .max_tokens = 1}).content, "b");
  EXPECT_EQ(
      Say(model, prompt, {a}, {.logit_bias = {{a, -21.0}, {b, 1.0}}, .max_tokens = 1}).content,
      "b");
}

TEST(Answer, RefusesOptionsThatTheModelCannotFollow) {
  const TestModel model(TestText());
  const auto error = [&](const AnswerOptions& options) {
    const RequestStatus checked = CheckAnswerOptions(*model, options);
    const auto answer = Answer::Make(*model, options, {});
    EXPECT_EQ(answer.ok(), checked.ok());
    if (answer.ok() || checked.ok()) return std::string("none");
    EXPECT_EQ(answer.error().message, checked.error().message);
    EXPECT_EQ(answer.error().part, checked.error().part);
    return std::string(RequestPartName(checked.error().part));
  };
  EXPECT_EQ(error({.logit_bias = {{704, 1.0}}}), "logit_bias");
  EXPECT_EQ(error({.logit_bias = {{-1, 1.0}}}), "logit_bias");
  EXPECT_EQ(error({.logit_bias = {{1, std::nan("")}}}), "logit_bias");
  EXPECT_EQ(error({.logit_bias = {{703, 1.0}}}), "none");
  EXPECT_EQ(error({.stop = {""}}), "stop");
  EXPECT_EQ(error({.stop = {"a"}}), "none");
}

TEST(Answer, StopStringsNeedATokenizer) {
  runtime::TextSetup text;
  text.tokenizer_error = "it has none";
  const TestModel model(std::move(text));
  EXPECT_TRUE(CheckAnswerOptions(*model, {}).ok());
  const RequestStatus checked = CheckAnswerOptions(*model, {.stop = {"a"}});
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().kind, RequestError::Kind::kUnsupported);
  EXPECT_EQ(checked.error().part, RequestPart::kStop);
  EXPECT_NE(checked.error().message.find("it has none"), std::string::npos);
  EXPECT_FALSE(Answer::Make(*model, {.stop = {"a"}}, {}).ok());
}

std::string JoinBytes(const Reply& reply) {
  std::string bytes;
  for (const TokenScore& token : reply.tokens) bytes += token.bytes;
  return bytes;
}

TEST(Answer, GivesEachTokenOfTheContentOnce) {
  const TestModel model(TestText());
  const std::string text = " Hello, w\xc3\xb6rld \xf0\x9f\x98\x8a!\n\n  end ";
  const AnswerOptions options{.logprobs = true, .top_logprobs = 2};
  const Reply reply = Say(model, AskHello(), text, options);
  EXPECT_EQ(reply.content, text);
  EXPECT_EQ(JoinBytes(reply), text);
  Ids ids;
  for (const TokenScore& token : reply.tokens) ids.push_back(token.id);
  EXPECT_EQ(ids, reply.ids);
  // 20 against 703 times 0.
  const double norm = std::log(std::exp(20.0) + 703.0);
  for (const TokenScore& token : reply.tokens) {
    ASSERT_TRUE(token.logprob.has_value());
    EXPECT_NEAR(*token.logprob, 20.0 - norm, 1e-12);
    ASSERT_EQ(token.top.size(), 2U);
    EXPECT_EQ(token.top[0].id, token.id);
    EXPECT_EQ(token.top[0].logprob, token.logprob);
    EXPECT_EQ(token.top[1].id, token.id == 0 ? 1 : 0);
    EXPECT_NEAR(token.top[1].logprob, -norm, 1e-12);
  }
}

TEST(Answer, GivesNoCandidatesThatOnlyPadTheVocabulary) {
  const TestModel model(TestText());
  std::vector<float> logits = Wanting(kTestVocab - 1);  // ids from 645 on have no token
  logits[5] = 10;
  const TokenScore score = ScoreToken(&*model.chat->text().tokenizer, logits, 5, 3);
  ASSERT_EQ(score.top.size(), 3U);
  EXPECT_EQ(score.top[0].id, 5);
  EXPECT_EQ(score.top[1].id, 0);
  EXPECT_EQ(score.top[2].id, 1);
  ASSERT_TRUE(score.logprob.has_value());
  EXPECT_NEAR(*score.logprob, -10, 0.1) << "of all logits";
  EXPECT_EQ(ScoreToken(nullptr, logits, 5, 1).top[0].id, kTestVocab - 1);
}

TEST(Answer, ScoresNeitherThinkingNorMarksNorWhatAStopStringCuts) {
  const TestModel model(TestText());
  const Prompt prompt = MustPrompt(model, Thinking(ThinkingMode::kOn));
  const Reply reply = Say(model, prompt, model.EncodeCharacters("think</think>\n\nthis think ends"),
                          {.stop = {"k end"}, .logprobs = true});
  EXPECT_EQ(Show(reply), "think|this thin||stop");
  EXPECT_EQ(JoinBytes(reply), "this thin");
}

TEST(Answer, ScoresTokensOfAPlainCompletion) {
  const TestModel model(TestText());
  auto prompt = MakeTextPrompt(*model, "Once", {});
  ASSERT_TRUE(prompt.ok());
  const Reply reply = Say(model, *prompt, model.Encode("<think> upon </think>\n"),
                          {.stop = {"unused"}, .logprobs = true});
  EXPECT_EQ(Show(reply), "|<think> upon </think>\n||stop");
  EXPECT_EQ(JoinBytes(reply), reply.content);
}

std::vector<std::string> CharactersOf(std::string_view text) {
  std::vector<std::string> characters;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
    if (!continues) characters.emplace_back();
    characters.back().push_back(c);
  }
  return characters;
}

// Whatever the pieces are: log-probabilities change nothing, and the content's tokens are its
// bytes.
TEST(Answer, TracesTokensOfAnyMixture) {
  const TestModel model(WithTemplate(
      TestText(), MustReadFile(HONE_SHARED_DATA "/data/minicpm5/chat_template.jinja")));
  ChatRequest request = AskHello();
  request.tools_json = MustParse(R"([{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "string"}}}}}])")
                           .AsArray();
  const Prompt prompt = MustPrompt(model, request);
  const std::string parts[] = {"a",
                               " ",
                               "\n",
                               "<function name=\"f\"></function>",
                               "<fun",
                               "<function name=\"g\"></function>",
                               "b\xc3\xa4",
                               "stop",
                               " st",
                               "```\n",
                               "<function name=\"f\"><param name=\"a\">x a b</param>",
                               "\xf0\x9f\x98\x8a",
                               "</function>",
                               "op"};
  std::uint32_t random = 1;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> pieces;
    if (round % 3 == 0) pieces.emplace_back("<think> a b</think>\n");
    for (int i = 0; i < 8; ++i) {
      random = random * 1664525U + 1013904223U;
      pieces.push_back(parts[(random >> 16U) % std::size(parts)]);
    }
    const bool by_character = round % 2 == 0;
    const std::string text = Join(pieces, "");
    const Ids script = by_character ? model.EncodePieces(CharactersOf(text)) : model.Encode(text);
    const Reply plain = Say(model, prompt, script, {.stop = {"stop"}});
    const Reply scored = Say(model, prompt, script, {.stop = {"stop"}, .logprobs = true});
    ASSERT_EQ(Show(plain), Show(scored)) << Join(pieces, "|");
    const std::string bytes = JoinBytes(scored);
    if (by_character) {
      ASSERT_EQ(bytes, scored.content) << Join(pieces, "|");
      continue;
    }
    // A token may hold more than content: the end of a mark, the begin of a stop string.
    std::size_t at = 0;
    for (const char c : bytes) at += at < scored.content.size() && scored.content[at] == c ? 1 : 0;
    ASSERT_EQ(at, scored.content.size()) << Join(pieces, "|") << ": " << bytes;
  }
}

// The loop of Generate is the twin: the same sampler and model, another driver.
TEST(Answer, SaysWhatGenerateSays) {
  const TestModel model(TestText(), /*context=*/200);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const runtime::SamplerOptions sampler{.temperature = 1.1F, .top_k = 50, .seed = seed};
    auto prompt = MakeTextPrompt(*model, "Once upon a time", {});
    ASSERT_TRUE(prompt.ok());
    auto sequence = model.engine->NewSequence();
    ASSERT_TRUE(sequence.ok());
    runtime::GenerateOptions options;
    options.sampler = sampler;
    options.max_tokens = 120;
    options.stop_strings = {"zq"};
    const auto want = runtime::Generate(*model.engine, **sequence, prompt->ids, options);
    ASSERT_TRUE(want.ok()) << want.message();

    ReplyRecorder recorder;
    auto answer = Answer::Make(
        *model, {.plan = prompt->plan, .sampler = sampler, .max_tokens = 120, .stop = {"zq"}},
        recorder.sink());
    ASSERT_TRUE(answer.ok());
    auto own = model.engine->NewSequence();
    runtime::Batcher batcher(*model.engine);
    runtime::BatchRequest request;
    request.sequence = &**own;
    request.prompt = prompt->ids;
    request.choose = [&](std::span<const float> logits, std::span<const std::int32_t> history) {
      return (*answer)->Next(logits, history);
    };
    request.done = [&](const Result<runtime::FinishReason>& end) { (*answer)->Finish(end); };
    ASSERT_TRUE(batcher.Submit(std::move(request)).ok());
    while (batcher.Step()) {
    }
    EXPECT_EQ(recorder.reply().content, want->text);
    EXPECT_EQ(Ids((*answer)->ids().begin(), (*answer)->ids().end()), want->ids);
    EXPECT_EQ(recorder.reply().end, runtime::FinishReasonName(want->finish));
  }
}

// An answer of the model itself, through a batcher.
struct BatchedAnswer {
  Reply reply;
  Ids ids, computed;
  runtime::SpeculationCounts counts;
};
// known: what the speculator knows in front of the prompt; null: no speculator.
BatchedAnswer AnswerBatched(const TestModel& model, const Prompt& prompt, AnswerOptions options,
                            const Ids* known) {
  ReplyRecorder recorder;
  options.plan = prompt.plan;
  auto answer = Answer::Make(*model, std::move(options), recorder.sink());
  EXPECT_TRUE(answer.ok());
  const auto sequence = *model.engine->NewSequence();
  runtime::Speculator speculator(runtime::Speculation::kOn, 1000);
  for (std::size_t i = 0; known != nullptr && i < known->size(); ++i) {
    speculator.Append((*known)[i]);
  }
  runtime::Batcher batcher(*model.engine);
  const auto submitted = batcher.Submit(
      {.sequence = sequence.get(),
       .prompt = prompt.ids,
       .choose = [&](auto logits, auto history) { return (*answer)->Next(logits, history); },
       .done = [&](const Result<runtime::FinishReason>& end) { (*answer)->Finish(end); },
       .speculator = known == nullptr ? nullptr : &speculator});
  EXPECT_TRUE(submitted.ok()) << submitted.message();
  while (batcher.Step()) {
  }
  return {.reply = recorder.reply(),
          .ids = {(*answer)->ids().begin(), (*answer)->ids().end()},
          .computed = {sequence->tokens().begin(), sequence->tokens().end()},
          .counts = batcher.speculation()};
}

// Budgets, grammars, stop strings, limits, penalties.
TEST(Answer, GuessedTokensChangeNothing) {
  const TestModel model(TestText(), /*context=*/200);
  std::vector<ChatRequest> requests = {AskHello(), Thinking(ThinkingMode::kOn, 6),
                                       Thinking(ThinkingMode::kOff)};
  ChatRequest bound = AskHello();
  bound.format.kind = FormatKind::kRegex;
  bound.format.text = "(ab|ac|b[0-9]){20,40}";
  requests.push_back(bound);
  bound.thinking = {ThinkingMode::kOn, 5};
  requests.push_back(bound);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Prompt prompt = MustPrompt(model, requests[i]);
    std::int64_t accepted = 0;
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
      AnswerOptions options{.sampler = {.temperature = 0.9F, .top_k = 50, .seed = seed},
                            .logprobs = true,
                            .top_logprobs = 2};
      if (seed == 2) options.max_tokens = 23;
      if (seed == 3) options.sampler.repetition_penalty = 1.3F;
      if (seed != 1) options.logit_bias = {{1, -100}, {3, -100}, {642, -100}, {643, -100}};
      const BatchedAnswer want = AnswerBatched(model, prompt, options, nullptr);
      Ids known = prompt.ids;
      known.insert(known.end(), want.ids.begin(), want.ids.end());
      Ids spoilt = known;
      for (std::size_t at = prompt.ids.size() + 4; at < spoilt.size(); at += 6) spoilt[at] = 100;
      for (const Ids& text : {Ids{}, known, spoilt}) {
        const BatchedAnswer got = AnswerBatched(model, prompt, options, &text);
        EXPECT_EQ(Show(got.reply), Show(want.reply)) << i << " " << seed;
        EXPECT_EQ(got.reply.pieces, want.reply.pieces);
        EXPECT_EQ(got.reply.tokens.size(), want.reply.tokens.size());
        EXPECT_EQ(got.ids, want.ids);
        EXPECT_EQ(got.computed, want.computed);
        accepted += got.counts.accepted;
      }
    }
    EXPECT_GT(accepted, 0) << i;
  }
}

}  // namespace
}  // namespace hone::chat
