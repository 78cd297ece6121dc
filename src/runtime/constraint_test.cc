// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Answers that obey a grammar: the chooser on logits made by hand, Generate and Batcher on random
// models.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/batcher.h"
#include "runtime/decode_loop.h"
#include "runtime/text_setup.h"
#include "runtime/tiny_model.h"
#include "runtime/token_chooser.h"

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;
using bridge::Grammar;
using bridge::GrammarKind;
using bridge::TokenMatcher;
using bridge::Vocabulary;

const std::string kFamily = HONE_SHARED_DATA "/golden/families/llama-gqa8/hf";
constexpr std::int64_t kVocab = 704;  // of them 645 have a piece
constexpr std::int32_t kEnd = 3;
const Ids kPrompt = {0, 276, 529, 508, 262};

const Grammar kSchema = {GrammarKind::kJsonSchema, R"({
  "type": "object",
  "properties": {
    "first_name": {"type": "string", "maxLength": 8},
    "favourite_number": {"type": "integer", "minimum": -99, "maximum": 99},
    "tags": {"type": "array", "items": {"enum": ["one", "two", "three"]}, "maxItems": 3},
    "place": {"type": "object", "properties": {"city": {"type": ["string", "null"],
              "maxLength": 5}}, "required": ["city"], "additionalProperties": false}
  },
  "required": ["first_name", "favourite_number", "tags", "place"],
  "additionalProperties": false})"};

TextSetup FamilyText() {
  auto text = LoadText(kFamily, nullptr);
  EXPECT_TRUE(text.ok()) << text.message();
  return *std::move(text);
}

std::unique_ptr<Engine> MakeEngine(std::uint64_t seed, TextSetup text) {
  auto engine =
      Engine::FromModel(MakeTinyModel({.seed = seed, .vocab = kVocab, .max_positions = 400}),
                        std::move(text), {.num_threads = 1}, "tiny");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

std::unique_ptr<Sequence> NewSequence(Engine& engine) {
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok()) << sequence.message();
  return *std::move(sequence);
}

Vocabulary EngineVocabulary(const Engine& engine) {
  auto made = MakeVocabulary(engine);
  EXPECT_TRUE(made.ok()) << made.message();
  return *std::move(made);
}

TokenMatcher Compile(const Vocabulary& vocabulary, const Grammar& grammar) {
  auto made = TokenMatcher::Compile(vocabulary, grammar);
  EXPECT_TRUE(made.ok()) << made.message();
  return *std::move(made);
}

TokenMatcher Clone(const TokenMatcher& matcher) {
  auto made = matcher.Clone();
  EXPECT_TRUE(made.ok()) << made.message();
  return *std::move(made);
}

SamplerOptions Hot(std::uint64_t seed) {
  return {.temperature = 1.3F,
          .top_k = 60,
          .top_p = 0.97F,
          .repetition_penalty = 1.2F,
          .presence_penalty = 0.2F,
          .seed = seed};
}

Generation Answer(Engine& engine, const GenerateOptions& options) {
  const auto sequence = NewSequence(engine);
  auto answer = Generate(engine, *sequence, kPrompt, options);
  EXPECT_TRUE(answer.ok()) << answer.message();
  return answer.ok() ? *std::move(answer) : Generation{};
}

void CheckFollowsSchema(const std::string& text) {
  const auto json = ParseJson(text);
  ASSERT_TRUE(json.ok()) << text << ": " << json.message();
  ASSERT_TRUE(json->IsObject());
  ASSERT_EQ(json->AsObject().size(), 4U) << text;
  EXPECT_TRUE(json->Find("first_name")->IsString());
  ASSERT_TRUE(json->Find("favourite_number")->IsInt()) << text;
  EXPECT_LE(std::abs(json->Find("favourite_number")->AsInt()), 99);
  EXPECT_LE(json->Find("tags")->AsArray().size(), 3U);
  for (const Json& tag : json->Find("tags")->AsArray()) {
    EXPECT_TRUE(tag.AsString() == "one" || tag.AsString() == "two" || tag.AsString() == "three");
  }
  const Json& city = *json->Find("place")->Find("city");
  EXPECT_TRUE(city.IsNull() || city.IsString());
}

std::vector<SamplerOptions> Samplers() {
  SamplerOptions careful;
  careful.frequency_penalty = 0.5F;
  return {{}, careful, Hot(1), Hot(2), Hot(3)};
}

TEST(Constraint, RandomWeightsGiveJsonThatFollowsTheSchema) {
  int complete = 0, cut = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const auto engine = MakeEngine(seed, FamilyText());
    const TokenMatcher fresh = Compile(EngineVocabulary(*engine), kSchema);
    for (const SamplerOptions& sampler : Samplers()) {
      for (const std::int64_t most : {std::int64_t{0}, std::int64_t{12}}) {
        TokenMatcher matcher = Clone(fresh);
        std::string streamed;
        GenerateOptions options;
        options.sampler = sampler;
        options.max_tokens = most;
        options.constraint.matcher = &matcher;
        options.on_text = [&](std::string_view text) { streamed += text; };
        const Generation answer = Answer(*engine, options);
        EXPECT_EQ(streamed, answer.text);
        if (answer.finish == FinishReason::kStop) {
          ++complete;
          EXPECT_TRUE(matcher.HasEnded());
          CheckFollowsSchema(answer.text);
        } else {
          ++cut;
          EXPECT_EQ(answer.finish, FinishReason::kLength);
          EXPECT_FALSE(matcher.HasEnded());
          EXPECT_EQ(answer.ids.size(), most == 0 ? 395U : 12U);
        }
      }
    }
  }
  EXPECT_GE(complete, 12);
  EXPECT_GE(cut, 12);
}

// Asks a batcher for an answer as a server would.
struct Client {
  Client(Engine& model, TokenMatcher grammar, const SamplerOptions& sampler, std::int64_t tokens)
      : engine(model),
        matcher(std::move(grammar)),
        chooser(model.text(), sampler, {.matcher = &matcher}),
        sequence(NewSequence(model)),
        limit(tokens) {}

  std::optional<std::int32_t> Choose(std::span<const float> logits,
                                     std::span<const std::int32_t> history) {
    auto next = chooser.Choose(logits, history);
    if (!next.ok()) error = next.message();
    if (!next.ok() || !*next) return std::nullopt;
    const Ids& stops = engine.text().stop_ids;
    if (std::find(stops.begin(), stops.end(), **next) != stops.end()) return std::nullopt;
    ids.push_back(**next);
    if (chooser.done() || static_cast<std::int64_t>(ids.size()) == limit) return std::nullopt;
    return *next;
  }

  BatchRequest Request() {
    return {.sequence = sequence.get(),
            .prompt = kPrompt,
            .choose = [this](auto logits, auto history) { return Choose(logits, history); },
            .done = [this](const Result<FinishReason>& end) { ended = end.ok(); }};
  }

  Engine& engine;
  TokenMatcher matcher;
  TokenChooser chooser;
  std::unique_ptr<Sequence> sequence;
  std::int64_t limit;
  Ids ids;
  std::string error;
  bool ended = false;
};

TEST(Constraint, ABatcherGivesTheAnswersOfGenerate) {
  const auto engine = MakeEngine(1, FamilyText());
  const TokenMatcher fresh = Compile(EngineVocabulary(*engine), kSchema);
  constexpr std::int64_t kTokens = 120;
  std::vector<std::unique_ptr<Client>> clients;
  Batcher batcher(*engine);
  for (const SamplerOptions& sampler : Samplers()) {
    clients.push_back(std::make_unique<Client>(*engine, Clone(fresh), sampler, kTokens));
    ASSERT_TRUE(batcher.Submit(clients.back()->Request()).ok());
  }
  for (int i = 0; i < 1000 && batcher.Step(); ++i) {
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    TokenMatcher matcher = Clone(fresh);
    GenerateOptions options;
    options.sampler = Samplers()[i];
    options.max_tokens = kTokens;
    options.constraint.matcher = &matcher;
    EXPECT_TRUE(clients[i]->ended);
    EXPECT_EQ(clients[i]->error, "");
    EXPECT_EQ(clients[i]->ids, Answer(*engine, options).ids) << i;
  }
}

TEST(Constraint, ForcedAndGuessedTokensChangeNothing) {
  std::int64_t forced = 0, accepted = 0;
  for (const std::uint64_t seed : {1U, 2U}) {
    const auto engine = MakeEngine(seed, FamilyText());
    const Vocabulary vocabulary = EngineVocabulary(*engine);
    const Grammar grammars[] = {kSchema, {GrammarKind::kRegex, "(one two three four |no ){20}"}};
    for (const Grammar& grammar : grammars) {
      const TokenMatcher fresh = Compile(vocabulary, grammar);
      for (const SamplerOptions& sampler : Samplers()) {
        for (const std::int64_t most : {7, 40, 200}) {
          Generation answers[2];
          for (const std::size_t i : {0U, 1U}) {
            TokenMatcher matcher = Clone(fresh);
            GenerateOptions options;
            options.sampler = sampler;
            options.max_tokens = most;
            options.constraint.matcher = &matcher;
            options.speculation = i == 0 ? Speculation::kOff : Speculation::kOn;
            answers[i] = Answer(*engine, options);
          }
          EXPECT_EQ(answers[0].speculation.forced, 0);
          EXPECT_EQ(answers[1].ids, answers[0].ids);
          EXPECT_EQ(answers[1].text, answers[0].text);
          EXPECT_EQ(answers[1].finish, answers[0].finish);
          forced += answers[1].speculation.forced;
          accepted += answers[1].speculation.accepted;
        }
      }
    }
  }
  EXPECT_GT(forced, 100);
  EXPECT_GT(accepted, 0);
}

TEST(Constraint, ACompleteAnswerNeedsNoStopToken) {
  TextSetup text = FamilyText();
  text.stop_ids.clear();
  const auto engine = MakeEngine(1, std::move(text));
  TokenMatcher matcher = Compile(EngineVocabulary(*engine), {GrammarKind::kRegex, "yes|no"});
  GenerateOptions options;
  options.constraint.matcher = &matcher;
  Generation answer = Answer(*engine, options);
  EXPECT_TRUE(answer.text == "yes" || answer.text == "no") << answer.text;
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  // The same matcher has nothing more to say.
  answer = Answer(*engine, options);
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_TRUE(answer.ids.empty());
}

TEST(Constraint, TheGrammarBeginsBehindTheFreePart) {
  TextSetup text = FamilyText();
  text.stop_ids.clear();
  const auto engine = MakeEngine(2, std::move(text));
  const TokenMatcher fresh = Compile(EngineVocabulary(*engine), kSchema);
  for (const SamplerOptions& sampler : {SamplerOptions(), Hot(4)}) {
    GenerateOptions options;
    options.sampler = sampler;
    options.max_tokens = 20;
    const Ids free = Answer(*engine, options).ids;
    // The first token that has not come before.
    std::size_t at = 4;
    while (std::find(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(at), free[at]) !=
           free.begin() + static_cast<std::ptrdiff_t>(at)) {
      ++at;
      ASSERT_LT(at, free.size());
    }
    TokenMatcher matcher = Clone(fresh);
    options.max_tokens = 0;
    options.constraint = {.matcher = &matcher, .free_until_id = free[at]};
    const Generation answer = Answer(*engine, options);
    ASSERT_GT(answer.ids.size(), at + 1);
    EXPECT_TRUE(std::equal(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                           answer.ids.begin()));
    if (answer.finish != FinishReason::kStop) continue;
    auto rest = engine->text().tokenizer->Decode(std::span(answer.ids).subspan(at + 1), true);
    ASSERT_TRUE(rest.ok()) << rest.message();
    CheckFollowsSchema(*rest);
  }
}

// The chooser on logits made by hand: the ids are the best ones, in order.
class ChooserTest : public ::testing::Test {
 protected:
  ChooserTest() : text_(FamilyText()) {
    text_.stop_ids = {kEnd, 643};
    auto made = Vocabulary::Make(*text_.tokenizer, kVocab, Ids{kEnd}, Ids{643});
    EXPECT_TRUE(made.ok()) << made.message();
    vocabulary_ = *std::move(made);
  }

  std::int32_t Id(const std::string& piece) {
    const auto id = text_.tokenizer->TokenId(piece);
    EXPECT_TRUE(id) << piece;
    return id.value_or(-1);
  }

  static std::vector<float> Logits(const Ids& best) {
    std::vector<float> logits(kVocab, 0.0F);
    float value = 100;
    for (const std::int32_t id : best) logits[static_cast<std::size_t>(id)] = value--;
    return logits;
  }

  static std::int32_t Choose(TokenChooser& chooser, const Ids& best) {
    auto next = chooser.Choose(Logits(best), {});
    EXPECT_TRUE(next.ok()) << next.message();
    return next.ok() && *next ? **next : -1;
  }

  TextSetup text_;
  Vocabulary vocabulary_;
};

TEST_F(ChooserTest, TakesTheBestAllowedToken) {
  TokenMatcher matcher = Compile(vocabulary_, {GrammarKind::kRegex, "[ab]{1,2}"});
  TokenChooser chooser(text_, {}, {.matcher = &matcher});
  EXPECT_EQ(Choose(chooser, {kEnd, 700, 643, Id("c"), Id("b"), Id("a")}), Id("b"));
  EXPECT_FALSE(chooser.done());
  EXPECT_EQ(Choose(chooser, {643, kEnd, Id("a")}), kEnd);
  EXPECT_TRUE(chooser.done());
  auto more = chooser.Choose(Logits({Id("a")}), {});
  ASSERT_TRUE(more.ok());
  EXPECT_FALSE(more->has_value());
}

TEST_F(ChooserTest, SamplingSeesOnlyWhatIsAllowed) {
  // top-k counts allowed tokens: the two of the grammar are left although many are better.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TokenMatcher matcher = Compile(vocabulary_, {GrammarKind::kRegex, "[ab]"});
    TokenChooser chooser(text_, {.temperature = 1, .top_k = 2, .top_p = 0.9F, .seed = seed},
                         {.matcher = &matcher});
    Ids better;
    for (std::int32_t id = 400; id < 500; ++id) better.push_back(id);
    const std::int32_t id = Choose(chooser, better);
    EXPECT_TRUE(id == Id("a") || id == Id("b")) << id;
  }
}

TEST_F(ChooserTest, StopTokensDoNotEndTheFreePart) {
  TokenMatcher matcher = Compile(vocabulary_, {GrammarKind::kRegex, "a*"});
  TokenChooser chooser(text_, {}, {.matcher = &matcher, .free_until_id = 641});
  EXPECT_EQ(Choose(chooser, {kEnd, 643, Id("z"), Id("a")}), Id("z"));
  EXPECT_TRUE(chooser.Forced().empty());
  EXPECT_EQ(Choose(chooser, {641}), 641);
  EXPECT_EQ(Choose(chooser, {Id("z"), kEnd, Id("a")}), kEnd);
  EXPECT_TRUE(chooser.done());
}

TEST_F(ChooserTest, TheFreePartEndsWithATextOverTokens) {
  TokenMatcher matcher = Compile(vocabulary_, {GrammarKind::kRegex, "ab"});
  TokenChooser chooser(text_, {}, {.matcher = &matcher, .free_until_text = "</z>"});
  for (const char* piece : {"<", "<", "/", "z", "/", "<", "/", "z"}) {
    EXPECT_EQ(Choose(chooser, {kEnd, Id(piece)}), Id(piece));
  }
  EXPECT_TRUE(chooser.Forced().empty());
  EXPECT_EQ(Choose(chooser, {kEnd, Id(">")}), Id(">"));
  EXPECT_FALSE(chooser.Forced().empty());
  Ids ids;
  while (!chooser.done()) ids.push_back(Choose(chooser, {kEnd, Id("z")}));
  EXPECT_EQ(*text_.tokenizer->Decode(ids, true), "ab");
}

TEST_F(ChooserTest, ATokenOfTheTextThatEndsTheFreePartWorksToo) {
  // "</think>" is one token here.
  TokenMatcher matcher = Compile(vocabulary_, {GrammarKind::kRegex, "a"});
  TokenChooser chooser(text_, {}, {.matcher = &matcher, .free_until_text = "</think>"});
  EXPECT_EQ(Choose(chooser, {641}), 641);
  EXPECT_EQ(Choose(chooser, {Id("z")}), Id("a"));
  EXPECT_TRUE(chooser.done());
}

TEST_F(ChooserTest, RefusesATokenThatEndsTheFreePartAndBeginsTheAnswer) {
  // A token of two letters whose first one is the marker.
  std::int32_t longer = -1;
  std::string bytes;
  for (std::int32_t id = 4; id < 640 && longer < 0; ++id) {
    bytes = *text_.tokenizer->TokenBytes(id);
    if (bytes.size() == 2 && std::isalpha(static_cast<unsigned char>(bytes[0])) != 0 &&
        std::isalpha(static_cast<unsigned char>(bytes[1])) != 0) {
      longer = id;
    }
  }
  ASSERT_GE(longer, 0);
  TokenMatcher matcher = Compile(vocabulary_, {GrammarKind::kRegex, "[0-9]"});
  TokenChooser chooser(text_, {}, {.matcher = &matcher, .free_until_text = bytes.substr(0, 1)});
  EXPECT_EQ(Choose(chooser, {longer, Id("1")}), Id("1"));  // still free
  EXPECT_EQ(Choose(chooser, {longer, Id(bytes.substr(0, 1))}), Id(bytes.substr(0, 1)));
  EXPECT_EQ(Choose(chooser, {longer, Id("7")}), Id("7"));
  EXPECT_TRUE(chooser.done());
}

TEST_F(ChooserTest, AnAnswerMayOpenTheFreePartItself) {
  const Constraint constraint = {.free_until_id = 641, .free_from_id = 640};
  for (const bool opens : {true, false}) {
    TokenMatcher matcher = Compile(vocabulary_, {GrammarKind::kRegex, "ab?"});
    Constraint mine = constraint;
    mine.matcher = &matcher;
    TokenChooser chooser(text_, {}, mine);
    if (opens) {
      EXPECT_EQ(Choose(chooser, {Id("z"), 640}), 640);
      EXPECT_EQ(Choose(chooser, {Id("z"), 641}), Id("z"));
      EXPECT_EQ(Choose(chooser, {641}), 641);
    }
    EXPECT_EQ(Choose(chooser, {Id("z"), Id("a"), 640}), Id("a"));
    EXPECT_EQ(Choose(chooser, {640, Id("b")}), Id("b"));
    EXPECT_TRUE(chooser.done());
  }
}

TEST_F(ChooserTest, GoesOnBehindTokensThatItsCallerChose) {
  for (const bool opens : {true, false}) {
    TokenMatcher matcher = Compile(vocabulary_, {GrammarKind::kRegex, "abc?"});
    Constraint constraint = {.matcher = &matcher, .free_until_id = 641};
    if (opens) constraint.free_from_id = 640;
    TokenChooser chooser(text_, {}, constraint);
    if (opens) {
      EXPECT_TRUE(chooser.Take(640).ok());
    }
    EXPECT_TRUE(chooser.Take(Id("z")).ok());
    EXPECT_EQ(Choose(chooser, {Id("z")}), Id("z"));
    EXPECT_TRUE(chooser.Take(641).ok());
    EXPECT_EQ(chooser.Take(Id("z")).code(), Code::kInvalidArgument);
    EXPECT_TRUE(chooser.Take(Id("a")).ok());
    EXPECT_EQ(Choose(chooser, {641, Id("z"), Id("b")}), Id("b"));
    EXPECT_FALSE(chooser.done());
    EXPECT_TRUE(chooser.Take(Id("c")).ok());
    EXPECT_TRUE(chooser.done());
  }
  TokenChooser free(text_, {}, {});
  EXPECT_TRUE(free.Take(Id("z")).ok());
  EXPECT_EQ(Choose(free, {Id("a")}), Id("a"));
}

TEST_F(ChooserTest, SaysWhyNothingCanBeChosen) {
  TokenMatcher matcher = Compile(vocabulary_, {GrammarKind::kRegex, "a|b"});
  TokenChooser chooser(text_, {}, {.matcher = &matcher});
  std::vector<float> logits(kVocab, 1.0F);
  for (const char* piece : {"a", "b"}) {
    logits[static_cast<std::size_t>(Id(piece))] = std::numeric_limits<float>::quiet_NaN();
  }
  auto none = chooser.Choose(logits, kPrompt);
  EXPECT_EQ(none.code(), Code::kDataLoss);
  EXPECT_NE(none.message().find("position 5: the grammar allows 2 tokens"), std::string::npos)
      << none.message();
  none = chooser.Choose(std::vector<float>(600), {});
  EXPECT_EQ(none.code(), Code::kInvalidArgument);
  EXPECT_NE(none.message().find("704"), std::string::npos) << none.message();
  EXPECT_NE(none.message().find("600"), std::string::npos) << none.message();
}

TEST(Constraint, AnEngineWithoutTokenizerHasNoVocabulary) {
  const auto engine = MakeEngine(1, {});
  EXPECT_EQ(MakeVocabulary(*engine).code(), Code::kUnsupported);
}

TEST(Constraint, AnEnginesVocabularyKnowsItsStopTokens) {
  // 643 brings an exclamation mark: it would be text that the grammar has not seen.
  TextSetup text = FamilyText();
  ASSERT_TRUE(text.stop_kept_text.contains(643));
  const auto engine = MakeEngine(1, std::move(text));
  TokenMatcher matcher = Compile(EngineVocabulary(*engine), {GrammarKind::kRegex, "(?s:.*)"});
  for (const std::int32_t id : engine->text().stop_ids) {
    EXPECT_EQ(*matcher.CountAllowed(Ids{id}), engine->text().stop_kept_text.contains(id) ? 0 : 1)
        << id;
  }
}

}  // namespace
}  // namespace hone::runtime
