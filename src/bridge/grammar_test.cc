// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace hone::bridge {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kLogits = 704;  // the tokenizer has 645 pieces
constexpr std::int32_t kEnd = 3;       // <|im_end|>
constexpr std::int32_t kFusedStop = 643;

const char kPersonSchema[] = R"({
  "type": "object",
  "properties": {
    "name": {"type": "string", "maxLength": 6},
    "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "role": {"enum": ["user", "admin", "гость"]},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
    "at": {"type": "object", "properties": {"x": {"type": "number", "minimum": -1e4, "maximum": 1e4}, "y": {"type": "null"}},
           "required": ["x", "y"], "additionalProperties": false}
  },
  "required": ["name", "age", "role", "tags", "at"],
  "additionalProperties": false})";

const Tokenizer& GoldenTokenizer() {
  static const Tokenizer tokenizer = [] {
    auto json = ReadFile(HONE_SHARED_DATA "/golden/families/llama-gqa8/hf/tokenizer.json");
    EXPECT_TRUE(json.ok()) << json.message();
    auto made = Tokenizer::FromJson(*json);
    EXPECT_TRUE(made.ok()) << made.message();
    return *std::move(made);
  }();
  return tokenizer;
}

Vocabulary MakeVocabulary(const Ids& stops = {kEnd, 1}, const Ids& blocked = {kFusedStop}) {
  auto made = Vocabulary::Make(GoldenTokenizer(), kLogits, stops, blocked);
  EXPECT_TRUE(made.ok()) << made.message();
  return *std::move(made);
}

const Vocabulary& GoldenVocabulary() {
  static const Vocabulary vocabulary = MakeVocabulary();
  return vocabulary;
}

TokenMatcher Compile(const Grammar& grammar, const Vocabulary& vocabulary = GoldenVocabulary()) {
  auto made = TokenMatcher::Compile(vocabulary, grammar);
  EXPECT_TRUE(made.ok()) << made.message();
  return *std::move(made);
}

TokenMatcher Clone(const TokenMatcher& matcher) {
  auto made = matcher.Clone();
  EXPECT_TRUE(made.ok()) << made.message();
  return *std::move(made);
}

Ids Encode(const std::string& text, const Tokenizer& tokenizer = GoldenTokenizer()) {
  auto ids = tokenizer.Encode(text, {.parse_special_tokens = false});
  EXPECT_TRUE(ids.ok()) << ids.message();
  return *std::move(ids);
}

bool HasBit(std::span<const std::uint32_t> words, std::int32_t id) {
  return (words[static_cast<std::size_t>(id) / 32] >> (static_cast<std::uint32_t>(id) % 32) & 1) !=
         0;
}

Ids Allowed(TokenMatcher& matcher) {
  auto words = matcher.Mask();
  EXPECT_TRUE(words.ok()) << words.message();
  Ids ids;
  if (!words.ok()) return ids;
  for (std::int32_t id = 0; id < matcher.num_logits(); ++id) {
    if (HasBit(*words, id)) ids.push_back(id);
  }
  return ids;
}

bool Contains(const Ids& ids, std::int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Whether a text is in the language of a fresh matcher, token by token.
bool Matches(const TokenMatcher& fresh, const std::string& text) {
  TokenMatcher matcher = Clone(fresh);
  for (const std::int32_t id : Encode(text)) {
    const Status status = matcher.Accept(id);
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
    return false;
  }
  return matcher.MayEnd();
}

struct Walk {
  Ids ids;
  std::string text;
  bool ended = false;
};

// A random text of the grammar, each token drawn among the allowed ones.
Walk RandomWalk(TokenMatcher matcher, std::uint32_t seed, std::size_t most = 300) {
  std::mt19937 random(seed);
  Walk walk;
  while (walk.ids.size() < most && !walk.ended) {
    const Ids allowed = Allowed(matcher);
    if (allowed.empty()) {
      ADD_FAILURE() << "nothing is allowed after " << walk.text;
      break;
    }
    const std::int32_t id = allowed[random() % allowed.size()];
    EXPECT_EQ(*matcher.CountAllowed(Ids{id}), 1);
    const Status status = matcher.Accept(id);
    EXPECT_TRUE(status.ok()) << status.message();
    if (id == kEnd || id == 1) {
      EXPECT_TRUE(matcher.HasEnded());
      walk.ended = true;
    } else {
      walk.ids.push_back(id);
      walk.text += *GoldenTokenizer().TokenBytes(id);
      walk.ended = matcher.HasEnded();
    }
  }
  return walk;
}

TEST(Grammar, TakesTextsOfASchemaAndNoOthers) {
  const TokenMatcher matcher = Compile({GrammarKind::kJsonSchema, kPersonSchema});
  EXPECT_TRUE(Matches(
      matcher,
      R"({"name":"A\"\n\u001fb","age":7,"role":"admin","tags":[],"at":{"x":-1.5,"y":null}})"));
  EXPECT_TRUE(Matches(matcher,
                      "{\n  \"name\": \"\",\n  \"age\": 150,\n  \"role\": \"гость\",\n  \"tags\": "
                      "[\"é\", \"🙂\"],\n  \"at\": {\n    \"x\": 0,\n    \"y\": null\n  }\n}"));
  for (const char* wrong : {
           R"({"name":"too long","age":7,"role":"user","tags":[],"at":{"x":1,"y":null}})",
           R"({"name":"A","age":151,"role":"user","tags":[],"at":{"x":1,"y":null}})",
           R"({"name":"A","age":7,"role":"root","tags":[],"at":{"x":1,"y":null}})",
           R"({"name":"A","age":7,"role":"user","tags":["a","b","c"],"at":{"x":1,"y":null}})",
           R"({"name":"A","age":7,"role":"user","tags":[],"at":{"x":1}})",
           R"({"name":"A","age":7,"role":"user","tags":[],"at":{"x":1,"y":null},"z":0})",
           R"({"name":"A)",
           "Sure! {",
       }) {
    EXPECT_FALSE(Matches(matcher, wrong)) << wrong;
  }
}

TEST(Grammar, RandomTextsOfASchemaAreJsonThatFollowsIt) {
  const TokenMatcher matcher = Compile({GrammarKind::kJsonSchema, kPersonSchema});
  int ended = 0;
  bool multi_byte = false, escaped = false;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const Walk walk = RandomWalk(Clone(matcher), seed);
    if (!walk.ended) continue;  // a number may grow and grow
    ++ended;
    const auto json = ParseJson(walk.text);
    ASSERT_TRUE(json.ok()) << walk.text << ": " << json.message();
    ASSERT_EQ(json->AsObject().size(), 5U) << walk.text;
    EXPECT_LE(json->Find("age")->AsInt(), 150);
    EXPECT_LE(json->Find("tags")->AsArray().size(), 2U);
    EXPECT_TRUE(json->Find("at")->Find("y")->IsNull());
    const std::string& role = json->Find("role")->AsString();
    EXPECT_TRUE(role == "user" || role == "admin" || role == "гость") << role;
    escaped |= walk.text.find('\\') != std::string::npos;
    multi_byte |= std::any_of(walk.text.begin(), walk.text.end(),
                              [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  }
  EXPECT_GE(ended, 30);
  EXPECT_TRUE(multi_byte);
  EXPECT_TRUE(escaped);
}

TEST(Grammar, CharactersMayBeCutOverTokens) {
  const std::string text = "\"日本é🙂\"";
  const Ids ids = Encode(text);
  // The test needs a token that begins inside a character.
  ASSERT_TRUE(std::any_of(ids.begin(), ids.end(), [](std::int32_t id) {
    return (static_cast<unsigned char>((*GoldenTokenizer().TokenBytes(id))[0]) & 0xc0U) == 0x80U;
  }));
  TokenMatcher matcher = Compile({GrammarKind::kJsonSchema, R"({"type":"string","maxLength":4})"});
  for (const std::int32_t id : ids) {
    EXPECT_FALSE(matcher.MayEnd());
    EXPECT_TRUE(Contains(Allowed(matcher), id));
    ASSERT_TRUE(matcher.Accept(id).ok());
  }
  EXPECT_TRUE(matcher.HasEnded());
  // A character that has begun must go on: no quote in its middle.
  matcher = Compile({GrammarKind::kJsonSchema, R"({"type":"string"})"});
  const Ids quote = Encode("\"");
  ASSERT_EQ(quote.size(), 1U);
  ASSERT_TRUE(matcher.Accept(quote[0]).ok());
  const auto first_byte = GoldenTokenizer().TokenId("ð");  // 0xf0
  ASSERT_TRUE(first_byte);
  ASSERT_TRUE(matcher.Accept(*first_byte).ok());
  EXPECT_EQ(matcher.Accept(quote[0]).code(), Code::kInvalidArgument);
  for (const std::int32_t id : Allowed(matcher)) {
    EXPECT_EQ(static_cast<unsigned char>((*GoldenTokenizer().TokenBytes(id))[0]) & 0xc0U, 0x80U);
  }
}

TEST(Grammar, AnyObjectIsAnObject) {
  const TokenMatcher matcher = Compile({GrammarKind::kJsonObject, "not read"});
  EXPECT_TRUE(Matches(matcher, "{}"));
  EXPECT_TRUE(Matches(matcher, R"({"a": [1, {"b": "\\é"}, true, null]})"));
  EXPECT_FALSE(Matches(matcher, "[1]"));
  EXPECT_FALSE(Matches(matcher, "1"));
}

TEST(Grammar, ARegularExpressionMatchesTheWholeText) {
  const TokenMatcher matcher = Compile({GrammarKind::kRegex, R"(^(19|20)\d\d-[01]\d$)"});
  EXPECT_TRUE(Matches(matcher, "1999-12"));
  EXPECT_FALSE(Matches(matcher, "1999-1"));
  EXPECT_FALSE(Matches(matcher, "x1999-12"));
  EXPECT_FALSE(Matches(matcher, "1999-12x"));
  EXPECT_TRUE(Matches(Compile({GrammarKind::kRegex, "[α-ω]+/"}), "λγ/"));
}

TEST(Grammar, LarkMayRecurse) {
  const TokenMatcher matcher = Compile({GrammarKind::kLark, R"lark(
start: sum
sum: product ("+" product)*
product: atom ("*" atom)*
atom: /[0-9]+/ | "(" sum ")"
)lark"});
  EXPECT_TRUE(Matches(matcher, "1+2*(30+4)"));
  EXPECT_FALSE(Matches(matcher, "1+2*(30+4"));
  EXPECT_FALSE(Matches(matcher, "1++2"));
  EXPECT_TRUE(Matches(Compile({GrammarKind::kLark, "start: %json {\"enum\": [1, 2]}"}), "2"));
}

TEST(Grammar, StopTokensComeOnlyWhereTheGrammarMayEnd) {
  TokenMatcher matcher = Compile({GrammarKind::kRegex, "a{2,3}"});
  const std::int32_t a = Encode("a")[0];
  for (int taken = 0; taken < 3; ++taken) {
    EXPECT_EQ(matcher.MayEnd(), taken == 2);
    const Ids allowed = Allowed(matcher);
    for (const std::int32_t stop : {kEnd, 1}) EXPECT_EQ(Contains(allowed, stop), taken == 2);
    EXPECT_EQ(Clone(matcher).Accept(kEnd).ok(), taken == 2);
    ASSERT_TRUE(matcher.Accept(a).ok());
  }
  EXPECT_TRUE(matcher.HasEnded());
  EXPECT_EQ(Allowed(matcher), (Ids{1, kEnd}));
  EXPECT_EQ(matcher.Accept(a).code(), Code::kInvalidArgument);
  EXPECT_TRUE(matcher.Accept(kEnd).ok());
}

TEST(Grammar, WithoutStopTokensAnEndedTextAllowsNothing) {
  TokenMatcher matcher = Compile({GrammarKind::kRegex, "a"}, MakeVocabulary({}, {}));
  ASSERT_TRUE(matcher.Accept(Encode("a")[0]).ok());
  EXPECT_TRUE(matcher.HasEnded());
  EXPECT_TRUE(Allowed(matcher).empty());
}

TEST(Grammar, NeverAllowsPaddingBlockedIdsAndSpecialTokens) {
  const std::int32_t blocked = Encode("a")[0];
  const Vocabulary vocabulary = MakeVocabulary({kEnd}, {blocked, 5000});
  const Grammar grammars[] = {{GrammarKind::kRegex, "(?s:.*)"},
                              {GrammarKind::kLark, "start: /[\\s\\S]*/ | <[0-703]>*"}};
  for (const Grammar& grammar : grammars) {
    TokenMatcher matcher = Compile(grammar, vocabulary);
    for (int step = 0; step < 3; ++step) {
      const Ids allowed = Allowed(matcher);
      EXPECT_GT(allowed.size(), 500U);
      for (std::int32_t id = 645; id < kLogits; ++id) EXPECT_FALSE(Contains(allowed, id)) << id;
      EXPECT_FALSE(Contains(allowed, blocked));
      for (const std::int32_t id : {blocked, 645, 703, 704, 100000}) {
        EXPECT_FALSE(matcher.Accept(id).ok()) << id;
      }
      EXPECT_EQ(matcher.Accept(-1).code(), Code::kInvalidArgument);
      ASSERT_TRUE(matcher.Accept(Encode("b")[0]).ok());
    }
  }
  // Special tokens are no text; a stop token is none even if the tokenizer calls it text (644).
  TokenMatcher matcher =
      Compile({GrammarKind::kRegex, "(?s:.*)"}, MakeVocabulary({kEnd, 644}, {kFusedStop}));
  const Ids allowed = Allowed(matcher);
  for (const std::int32_t id : {0, 2, 642, kFusedStop}) EXPECT_FALSE(Contains(allowed, id)) << id;
  for (const std::int32_t id : {kEnd, 644, 640}) EXPECT_TRUE(Contains(allowed, id)) << id;
}

TEST(Grammar, ForcedTokensSpellWhatHasOneWayOnly) {
  TokenMatcher matcher = Compile(
      {GrammarKind::kLark, "start: \"{\\\"temperature\\\": \" /[0-9]+/ \", \\\"unit\\\": 1}\""});
  auto forced = matcher.Forced();
  ASSERT_TRUE(forced.ok()) << forced.message();
  ASSERT_GE(forced->size(), 3U);
  std::string text;
  for (const std::int32_t id : *forced) {
    EXPECT_EQ(Allowed(matcher), Ids{id});
    ASSERT_TRUE(matcher.Accept(id).ok());
    text += *GoldenTokenizer().TokenBytes(id);
  }
  EXPECT_TRUE(std::string("{\"temperature\": ").starts_with(text)) << text;
  EXPECT_GE(text.size(), 14U);
  // Another way to write the same text is taken as well.
  matcher = Compile({GrammarKind::kRegex, "temperature"});
  for (const char c : std::string("temperature")) {
    ASSERT_TRUE(matcher.Accept(Encode(std::string(1, c))[0]).ok()) << c;
  }
  EXPECT_TRUE(matcher.HasEnded());
}

TEST(Grammar, RollbackAndClonesLeadBackToTheSameMasks) {
  const TokenMatcher fresh = Compile({GrammarKind::kJsonSchema, kPersonSchema});
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    const Walk walk = RandomWalk(Clone(fresh), seed, 40);
    TokenMatcher matcher = Clone(fresh);
    std::vector<Ids> masks;
    std::vector<TokenMatcher> clones;
    for (const std::int32_t id : walk.ids) {
      masks.push_back(Allowed(matcher));
      clones.push_back(Clone(matcher));
      ASSERT_TRUE(matcher.Accept(id).ok());
    }
    std::mt19937 random(seed);
    std::size_t at = walk.ids.size();
    while (at > 0) {
      const std::size_t back = 1 + random() % at;
      ASSERT_TRUE(matcher.Rollback(static_cast<std::int64_t>(back)).ok());
      at -= back;
      EXPECT_EQ(Allowed(matcher), masks[at]);
      EXPECT_EQ(Allowed(clones[at]), masks[at]);
    }
    EXPECT_EQ(matcher.Rollback(1).code(), Code::kInvalidArgument);
    EXPECT_EQ(matcher.Rollback(-1).code(), Code::kInvalidArgument);
  }
}

TEST(Grammar, RefusesBadGrammarsWithTheReason) {
  const struct {
    Grammar grammar;
    const char* words;
  } cases[] = {
      {{GrammarKind::kJsonSchema, "{\"type\":"}, "the JSON schema"},
      {{GrammarKind::kJsonSchema, "[1]"}, "expected an object"},
      {{GrammarKind::kJsonSchema, R"({"type":"xml"})"}, "xml"},
      {{GrammarKind::kJsonSchema, R"({"$ref":"https://example.com/s"})"}, "nothing is downloaded"},
      {{GrammarKind::kJsonSchema, R"({"type":"string","pattern":"[a"})"}, "unclosed"},
      {{GrammarKind::kJsonSchema, R"({"if":{"type":"null"},"then":{"type":"string"}})"}, "if"},
      {{GrammarKind::kJsonSchema, R"({"type":"array","uniqueItems":true})"}, "uniqueItems"},
      {{GrammarKind::kRegex, "(a"}, "the regular expression"},
      {{GrammarKind::kRegex, "a(?!b)"}, "look-"},
      {{GrammarKind::kLark, "start: x"}, "the Lark grammar"},
      {{GrammarKind::kLark, ""}, "it is empty"},
      {{GrammarKind::kRegex, std::string(2 << 20, 'a')}, "the limit is"},
      {{GrammarKind::kRegex, "\xff"}, "UTF-8"},
  };
  for (const auto& c : cases) {
    const Status check = CheckGrammar(c.grammar);
    EXPECT_EQ(check.code(), Code::kInvalidArgument) << c.words << ": " << check.message();
    EXPECT_NE(check.message().find(c.words), std::string::npos) << check.message();
    EXPECT_EQ(check.message().find('\n'), std::string::npos) << check.message();
    const auto made = TokenMatcher::Compile(GoldenVocabulary(), c.grammar);
    EXPECT_EQ(made.code(), Code::kInvalidArgument) << c.words;
    EXPECT_NE(made.message().find(c.words), std::string::npos) << made.message();
  }
  // Only the tokenizer can tell.
  const Grammar unknown = {GrammarKind::kLark, "start: <|none|>"};
  EXPECT_TRUE(CheckGrammar(unknown).ok());
  EXPECT_EQ(TokenMatcher::Compile(GoldenVocabulary(), unknown).code(), Code::kInvalidArgument);
  EXPECT_TRUE(CheckGrammar({GrammarKind::kLark, "start: <|im_start|> \"a\""}).ok());
  EXPECT_TRUE(Matches(Compile({GrammarKind::kJsonSchema, R"({"type":"string","format":"date"})"}),
                      "\"2026-12-01\""));
}

TEST(Grammar, RefusesVocabulariesThatCannotBe) {
  const Tokenizer& tokenizer = GoldenTokenizer();
  EXPECT_EQ(Vocabulary::Make(tokenizer, 0, {}, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(Vocabulary::Make(tokenizer, 1LL << 40, {}, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(Vocabulary::Make(tokenizer, 10, Ids{10}, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(Vocabulary::Make(tokenizer, 10, Ids{-1}, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(Vocabulary::Make(Tokenizer(), 10, {}, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(TokenMatcher::Compile(Vocabulary(), {}).code(), Code::kInvalidArgument);
  auto words = Tokenizer::FromJson(R"({"version":"1.0","added_tokens":[],"decoder":null,"model":
      {"type":"WordLevel","unk_token":"<unk>","vocab":{"<unk>":0,"a":1}}})");
  ASSERT_TRUE(words.ok()) << words.message();
  EXPECT_EQ(Vocabulary::Make(*words, 2, {}, {}).code(), Code::kUnsupported);
}

// Pieces with U+2581 for the space and bytes as <0xNN>, as SentencePiece models have them.
TEST(Grammar, WorksOnByteFallbackTokenizers) {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    char name[32];
    std::snprintf(name, sizeof name, "\"<0x%02X>\":%d,", static_cast<unsigned>(byte), byte + 3);
    vocab += name;
  }
  auto tokenizer = Tokenizer::FromJson(
      R"({"version":"1.0","added_tokens":[{"id":2,"content":"</s>","special":true,"single_word":false,
      "lstrip":false,"rstrip":false,"normalized":false}],"normalizer":null,"pre_tokenizer":null,
      "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},
      "content":" "},{"type":"ByteFallback"},{"type":"Fuse"}]},
      "model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>","merges":[],"vocab":{)" +
      vocab + R"("<unk>":0,"<s>":1,"</s>":2,"▁a":300,"b":301,"é":302}}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  auto vocabulary = Vocabulary::Make(*tokenizer, 310, Ids{2}, {});
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.message();
  TokenMatcher matcher = Compile({GrammarKind::kRegex, "b? aé\n"}, *vocabulary);
  EXPECT_EQ(Allowed(matcher), (Ids{' ' + 3, 'b' + 3, 300, 301}));
  ASSERT_TRUE(matcher.Accept(301).ok());
  ASSERT_TRUE(matcher.Accept(300).ok());
  EXPECT_EQ(Allowed(matcher), (Ids{0xc3 + 3, 302}));
  EXPECT_TRUE(matcher.Forced()->empty());
  ASSERT_TRUE(matcher.Accept(302).ok());
  ASSERT_TRUE(matcher.Accept('\n' + 3).ok());
  EXPECT_TRUE(matcher.HasEnded());
}

TEST(Grammar, WarnsAboutWhatHasNoEffect) {
  const TokenMatcher plain = Compile({GrammarKind::kLark, "start: \"a\""});
  EXPECT_TRUE(plain.Warnings().empty());
  const TokenMatcher warm = Compile({GrammarKind::kLark, "start: x\nx[temperature=0.3]: /a+/"});
  ASSERT_EQ(warm.Warnings().size(), 1U);
  EXPECT_NE(warm.Warnings()[0].find("temperature"), std::string::npos);
}

TEST(Grammar, ThreadsShareAVocabularyAndCloneMatchers) {
  const TokenMatcher fresh = Compile({GrammarKind::kJsonSchema, kPersonSchema});
  constexpr std::uint32_t kSeeds = 12;
  std::vector<Walk> expected;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    expected.push_back(RandomWalk(Clone(fresh), seed, 80));
  }
  std::vector<std::vector<Walk>> got(3);
  std::vector<TokenMatcher> starts;
  for (std::size_t i = 0; i < got.size(); ++i) starts.push_back(Clone(fresh));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] {
      for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
        TokenMatcher start =
            seed % 2 == 0 ? Clone(starts[i]) : Compile({GrammarKind::kJsonSchema, kPersonSchema});
        got[i].push_back(RandomWalk(std::move(start), seed, 80));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& walks : got) {
    for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
      EXPECT_EQ(walks[seed].ids, expected[seed].ids) << seed;
    }
  }
}

}  // namespace
}  // namespace hone::bridge
