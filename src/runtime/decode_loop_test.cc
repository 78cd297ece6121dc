// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/file.h"
#include "runtime/text_setup.h"
#include "runtime/text_stream.h"
#include "runtime/tiny_model.h"

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kFamily = HONE_SHARED_DATA "/golden/families/llama-gqa8/hf";
const Ids kPrompt = {0, 276, 529, 508, 262};
// greedy_24 of that prompt; 643 is the fused stop token "!<|im_end|>\n".
const Ids kGreedy = {279, 337, 522, 180, 643, 435, 327, 94,  193, 327, 94,  290,
                     626, 345, 78,  534, 365, 166, 92,  435, 327, 55,  220, 580};

std::unique_ptr<Engine> OpenFamily() {
  auto engine = Engine::Open(kFamily, {.num_threads = 1});
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

// The same model, with other rules about text.
std::unique_ptr<Engine> OpenFamily(TextSetup text) {
  auto model = LoadModel(kFamily, nullptr);
  EXPECT_TRUE(model.ok()) << model.message();
  auto engine =
      Engine::FromModel(*std::move(model), std::move(text), {.num_threads = 1}, "llama-gqa8");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

TextSetup FamilyText() {
  auto text = LoadText(kFamily, nullptr);
  EXPECT_TRUE(text.ok()) << text.message();
  return *std::move(text);
}

std::unique_ptr<Sequence> NewSequence(Engine& engine) {
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok()) << sequence.message();
  return *std::move(sequence);
}

Generation Answer(Engine& engine, Sequence& sequence, const Ids& prompt,
                  const GenerateOptions& options) {
  auto answer = Generate(engine, sequence, prompt, options);
  EXPECT_TRUE(answer.ok()) << answer.message();
  return answer.ok() ? *std::move(answer) : Generation{};
}

std::string DecodeIds(const TextSetup& text, const Ids& ids) {
  auto decoded = text.tokenizer->Decode(ids, /*skip_special=*/true);
  EXPECT_TRUE(decoded.ok()) << decoded.message();
  return *std::move(decoded);
}

TEST(DecodeLoop, StopsAtAFusedStopTokenAndKeepsTheTextBeforeTheStop) {
  const auto engine = OpenFamily();
  const auto sequence = NewSequence(*engine);
  std::string streamed;
  GenerateOptions options;
  options.on_text = [&](std::string_view text) { streamed += text; };
  const Generation answer = Answer(*engine, *sequence, kPrompt, options);
  EXPECT_EQ(answer.ids, Ids(kGreedy.begin(), kGreedy.begin() + 4));
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_EQ(answer.text, DecodeIds(engine->text(), answer.ids) + "!");
  EXPECT_EQ(streamed, answer.text);
  EXPECT_EQ(answer.timings.prefill_tokens, 5);
  EXPECT_EQ(answer.timings.decode_tokens, 4);
  EXPECT_GT(answer.timings.first_token_seconds, 0);
}

TEST(DecodeLoop, StopsAtMaxTokensWithLength) {
  TextSetup text = FamilyText();
  text.stop_ids.clear();
  const auto engine = OpenFamily(std::move(text));
  const auto sequence = NewSequence(*engine);
  Ids called;
  GenerateOptions options;
  options.max_tokens = 24;
  options.on_token = [&](std::int32_t id) { called.push_back(id); };
  const Generation answer = Answer(*engine, *sequence, kPrompt, options);
  EXPECT_EQ(answer.ids, kGreedy);
  EXPECT_EQ(called, kGreedy);
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_EQ(answer.text, DecodeIds(engine->text(), kGreedy));
  // The last token is not fed back.
  EXPECT_EQ(sequence->size(), 5 + 23);
}

TEST(DecodeLoop, StopsAtAStopStringAcrossTokensAndNeverShowsItsBeginning) {
  TextSetup text = FamilyText();
  text.stop_ids.clear();
  const std::string whole = DecodeIds(text, kGreedy);
  // A stop string from the middle of the text that begins and ends inside tokens.
  std::size_t at = 6;
  while (at < whole.size() && (static_cast<unsigned char>(whole[at]) & 0xc0U) == 0x80U) ++at;
  std::size_t end = at + 6;
  while (end < whole.size() && (static_cast<unsigned char>(whole[end]) & 0xc0U) == 0x80U) ++end;
  const std::string stop = whole.substr(at, end - at);
  const auto engine = OpenFamily(std::move(text));
  const auto sequence = NewSequence(*engine);
  std::string streamed;
  GenerateOptions options;
  options.max_tokens = 24;
  options.stop_strings = {"this never comes", stop};
  options.on_text = [&](std::string_view part) { streamed += part; };
  const Generation answer = Answer(*engine, *sequence, kPrompt, options);
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_EQ(answer.text, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(streamed, answer.text);
  EXPECT_LT(answer.ids.size(), kGreedy.size());
}

// Few ids are allowed, so that the answers repeat and guesses come true.
TEST(DecodeLoop, GuessedTokensChangeNothingAboutTextAndStopStrings) {
  TextSetup text = FamilyText();
  text.stop_ids.clear();
  for (std::int32_t id = 0; id < 645; ++id) {
    if (id < 70 || id > 79) text.suppress_ids.push_back(id);
  }
  const auto engine = OpenFamily(std::move(text));
  GenerateOptions options;
  options.max_tokens = 60;
  Ids prompt = kPrompt;
  std::int64_t accepted = 0;
  for (int turn = 0; turn < 5; ++turn) {
    std::string streamed[2];
    Generation answers[2];
    Ids cached[2];
    for (const std::size_t i : {0U, 1U}) {
      const auto sequence = NewSequence(*engine);
      options.speculation = i == 0 ? Speculation::kOff : Speculation::kOn;
      options.on_text = [&](std::string_view part) { streamed[i] += part; };
      answers[i] = Answer(*engine, *sequence, prompt, options);
      cached[i] = Ids(sequence->tokens().begin(), sequence->tokens().end());
    }
    EXPECT_EQ(answers[1].ids, answers[0].ids);
    EXPECT_EQ(answers[1].text, answers[0].text);
    EXPECT_EQ(answers[1].finish, answers[0].finish);
    EXPECT_EQ(streamed[1], streamed[0]);
    EXPECT_EQ(cached[1], cached[0]);
    accepted += answers[1].speculation.accepted;
    // The next turn starts a little later and ends at a stop string of what it is about to say.
    prompt.insert(prompt.end(), answers[0].ids.begin(), answers[0].ids.begin() + 1 + turn % 2);
    const std::string& said = answers[0].text;
    options.stop_strings.clear();
    if (turn % 2 == 0) options.stop_strings = {said.substr(said.size() * 2 / 3)};
  }
  EXPECT_GT(accepted, 10);
}

TEST(DecodeLoop, ReusesTheCommonPrefix) {
  TextSetup text = FamilyText();
  text.stop_ids.clear();
  const auto engine = OpenFamily(std::move(text));
  const auto sequence = NewSequence(*engine);
  GenerateOptions options;
  options.max_tokens = 6;
  Answer(*engine, *sequence, kPrompt, options);
  Ids longer = kPrompt;
  longer.insert(longer.end(), kGreedy.begin(), kGreedy.begin() + 4);
  options.max_tokens = 20;
  Generation answer = Answer(*engine, *sequence, longer, options);
  EXPECT_EQ(answer.timings.prefill_tokens, 1);  // its logits are needed
  EXPECT_EQ(answer.ids, Ids(kGreedy.begin() + 4, kGreedy.end()));
  // A changed token in the middle: everything after it is computed again.
  Ids changed = longer;
  changed[6] = 100;
  answer = Answer(*engine, *sequence, changed, options);
  EXPECT_EQ(answer.timings.prefill_tokens, 3);
  const auto fresh = NewSequence(*engine);
  EXPECT_EQ(answer.ids, Answer(*engine, *fresh, changed, options).ids);
}

TEST(DecodeLoop, EndsWithLengthWhereTheContextEnds) {
  auto engine = Engine::FromModel(MakeTinyModel({.max_positions = 12}), {}, {.num_threads = 1}, "");
  ASSERT_TRUE(engine.ok()) << engine.message();
  const auto sequence = NewSequence(**engine);
  Generation answer = Answer(**engine, *sequence, Ids(5, 3), {});
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_EQ(answer.ids.size(), 7U);
  EXPECT_EQ(answer.text, "");  // no tokenizer
  answer = Answer(**engine, *sequence, Ids(12, 3), {});
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_TRUE(answer.ids.empty());
}

TEST(DecodeLoop, RefusesEmptyAndTooLongPrompts) {
  auto engine = Engine::FromModel(MakeTinyModel({.max_positions = 12}), {}, {.num_threads = 1}, "");
  ASSERT_TRUE(engine.ok()) << engine.message();
  const auto sequence = NewSequence(**engine);
  EXPECT_EQ(Generate(**engine, *sequence, {}, {}).code(), Code::kInvalidArgument);
  const auto too_long = Generate(**engine, *sequence, Ids(13, 3), {});
  EXPECT_EQ(too_long.code(), Code::kInvalidArgument);
  EXPECT_NE(too_long.message().find("13"), std::string::npos) << too_long.message();
  EXPECT_NE(too_long.message().find("12"), std::string::npos) << too_long.message();
}

TEST(DecodeLoop, CancelEndsTheAnswerAtTheNextStep) {
  TextSetup text = FamilyText();
  text.stop_ids.clear();
  const auto engine = OpenFamily(std::move(text));
  const auto sequence = NewSequence(*engine);
  std::atomic<bool> cancel{false};
  GenerateOptions options;
  options.cancel = &cancel;
  int count = 0;
  options.on_token = [&](std::int32_t) { cancel = ++count == 3; };
  Generation answer = Answer(*engine, *sequence, kPrompt, options);
  EXPECT_EQ(answer.finish, FinishReason::kCancelled);
  EXPECT_EQ(answer.ids, Ids(kGreedy.begin(), kGreedy.begin() + 3));
  // Cancelled before the prompt was run: an empty answer, not an error.
  answer = Answer(*engine, *sequence, kPrompt, options);
  EXPECT_EQ(answer.finish, FinishReason::kCancelled);
  EXPECT_TRUE(answer.ids.empty());
}

TEST(DecodeLoop, SaysSoWhenNoTokenCanBeChosen) {
  TextSetup text;
  for (std::int32_t id = 0; id < 97; ++id) text.suppress_ids.push_back(id);
  auto engine = Engine::FromModel(MakeTinyModel(), std::move(text), {.num_threads = 1}, "");
  ASSERT_TRUE(engine.ok()) << engine.message();
  const auto sequence = NewSequence(**engine);
  const auto answer = Generate(**engine, *sequence, Ids(3, 1), {});
  EXPECT_EQ(answer.code(), Code::kDataLoss);
}

// The family's model with the head's rows behind the tokenizer's 645 ids made large, so that one of
// them has the best logit nearly always.
model::DecoderModel ModelWithLoudPadding() {
  auto model = LoadModel(kFamily, nullptr);
  EXPECT_TRUE(model.ok()) << model.message();
  auto rows = std::make_shared<std::vector<float>>(model::ReadAll(model->head));
  for (auto i = static_cast<std::size_t>(645 * model->spec.hidden); i < rows->size(); ++i) {
    (*rows)[i] *= 1000;
  }
  model->head.view.type = {codec::Coding::kF32, 0};
  model->head.view.codes = std::as_bytes(std::span<const float>(*rows));
  model->keep_alive.push_back(std::move(rows));
  return *std::move(model);
}

Ids AnswerOfLoudPadding(TextSetup text, float temperature) {
  text.stop_ids.clear();
  auto engine =
      Engine::FromModel(ModelWithLoudPadding(), std::move(text), {.num_threads = 1}, "loud");
  EXPECT_TRUE(engine.ok()) << engine.message();
  const auto sequence = NewSequence(**engine);
  GenerateOptions options;
  options.max_tokens = 20;
  options.sampler.temperature = temperature;
  options.sampler.seed = 7;
  return Answer(**engine, *sequence, kPrompt, options).ids;
}

bool IsPadding(std::int32_t id) { return id >= 645; }

TEST(DecodeLoop, NeverSamplesIdsThatTheTokenizerDoesNotHave) {
  // Without a tokenizer nobody knows which rows are padding.
  const Ids unknown = AnswerOfLoudPadding({}, 0);
  ASSERT_TRUE(std::any_of(unknown.begin(), unknown.end(), IsPadding));
  auto tokenizer = ReadFile(kFamily + "/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  for (const float temperature : {0.0F, 5.0F}) {
    const Ids checkpoint = AnswerOfLoudPadding(FamilyText(), temperature);
    EXPECT_EQ(checkpoint.size(), 20U);
    EXPECT_TRUE(std::none_of(checkpoint.begin(), checkpoint.end(), IsPadding));
    // A bundle whose metadata lists no suppressed token.
    std::vector<std::string> warnings;
    auto text = MakeMetadataText({}, *tokenizer, {}, warnings);
    ASSERT_TRUE(text.ok()) << text.message();
    ASSERT_TRUE(text->suppress_ids.empty());
    const Ids bundle = AnswerOfLoudPadding(*std::move(text), temperature);
    EXPECT_EQ(bundle.size(), 20U);
    EXPECT_TRUE(std::none_of(bundle.begin(), bundle.end(), IsPadding));
  }
}

TEST(DecodeLoop, SuppressesWhatTheSourceListsAndHolesOfTheTokenizer) {
  const char* vocab = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 4},
      "merges": []}})";
  auto tokenizer = bridge::Tokenizer::FromJson(vocab);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  TextSetup text;
  text.tokenizer = *std::move(tokenizer);
  text.suppress_ids = {6, 1};
  SuppressUnusedIds(7, text);
  EXPECT_EQ(text.suppress_ids, (Ids{1, 2, 3, 5, 6}));
}

TEST(TextStream, HoldsBackOnlyWhatMayBeginAStopString) {
  const TextSetup text = FamilyText();
  auto ids = text.tokenizer->Encode("one two END three");
  ASSERT_TRUE(ids.ok());
  std::vector<std::string> parts;
  TextStream stream(&*text.tokenizer, true, {"ENDING", ""},
                    [&](std::string_view part) { parts.emplace_back(part); });
  for (const std::int32_t id : *ids) {
    auto stop = stream.Push(id);
    ASSERT_TRUE(stop.ok()) << stop.message();
    EXPECT_FALSE(*stop);
    EXPECT_FALSE(stream.text().ends_with("E")) << stream.text();
  }
  ASSERT_TRUE(stream.Finish(" tail").ok());
  EXPECT_EQ(stream.text(), "one two END three tail");
  EXPECT_GT(parts.size(), 2U);
}

TEST(TextStream, ShowsTheSpecialTokensThatItIsToldToShow) {
  const TextSetup text = FamilyText();
  auto ids = text.tokenizer->Encode("a<s>\xf0\x9f\x98\x8a<|im_end|>b</s>");
  ASSERT_TRUE(ids.ok());
  TextStream stream(&*text.tokenizer, true, {}, {}, {3});
  for (const std::int32_t id : *ids) ASSERT_TRUE(stream.Push(id).ok());
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.text(), "a\xf0\x9f\x98\x8a<|im_end|>b");
}

TEST(TextStream, FindsStopStringsThatSpellHiddenSpecialTokens) {
  const TextSetup text = FamilyText();
  auto ids = text.tokenizer->Encode("yes<|im_end|>\nmore");
  ASSERT_TRUE(ids.ok());
  TextStream stream(&*text.tokenizer, true, {"<|im_end|>\n"}, {});
  bool stopped = false;
  for (const std::int32_t id : *ids) {
    auto stop = stream.Push(id);
    ASSERT_TRUE(stop.ok()) << stop.message();
    stopped = *stop;
    if (stopped) break;
  }
  EXPECT_TRUE(stopped);
  EXPECT_EQ(stream.text(), "yes");
}

TEST(TextStream, FindsStopStringsThatAHiddenTokenInterrupts) {
  const TextSetup text = FamilyText();
  auto ids = text.tokenizer->Encode("say st<s>op now");
  ASSERT_TRUE(ids.ok());
  TextStream stream(&*text.tokenizer, true, {"stop", "<s>other"}, {});
  bool stopped = false;
  for (const std::int32_t id : *ids) {
    auto stop = stream.Push(id);
    ASSERT_TRUE(stop.ok()) << stop.message();
    stopped = *stop;
    if (stopped) break;
  }
  EXPECT_TRUE(stopped);
  EXPECT_EQ(stream.text(), "say ");
}

TEST(TextStream, LeavesOutHeldBytesAfterAStopString) {
  const char* vocab = R"({"model": {"type": "BPE", "vocab": {"a": 0, "s": 1, "\u00e2": 2,
      "s\u00e2": 3}, "merges": ["s \u00e2"]}, "decoder": {"type": "ByteLevel",
      "add_prefix_space": false, "trim_offsets": false, "use_regex": false}})";
  auto tokenizer = bridge::Tokenizer::FromJson(vocab);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  TextStream stream(&*tokenizer, true, {"s"}, {});
  ASSERT_FALSE(*stream.Push(0));
  ASSERT_TRUE(*stream.Push(3));  // the stop string, then a byte that begins a character
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.text(), "a");
}

TEST(TextStream, NeverSplitsACharacter) {
  const TextSetup text = FamilyText();
  const std::string want = "a\xe2\x82\xac\xf0\x9f\x98\x80z";
  auto ids = text.tokenizer->Encode(want);
  ASSERT_TRUE(ids.ok());
  ASSERT_GT(ids->size(), 4U);  // the euro sign and the emoji are several tokens
  std::string got;
  TextStream stream(&*text.tokenizer, true, {}, [&](std::string_view part) {
    EXPECT_NE(static_cast<unsigned char>(part[0]) & 0xc0U, 0x80U);
    got += part;
  });
  for (const std::int32_t id : *ids) ASSERT_TRUE(stream.Push(id).ok());
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace hone::runtime
