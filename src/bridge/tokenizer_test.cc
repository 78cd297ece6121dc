// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "bridge/chat_template.h"

namespace hone::bridge {
namespace {

std::string SharedText(const std::string& name) {
  auto text = ReadFile(std::string(HONE_SHARED_DATA) + "/" + name);
  if (!text.ok()) {
    ADD_FAILURE() << text.message();
    return {};
  }
  return *std::move(text);
}

const char kGoldenTokenizer[] = "golden/families/llama-gqa8/hf/tokenizer.json";

std::vector<std::int32_t> Ids(const Json& list) {
  std::vector<std::int32_t> ids;
  for (const Json& id : list.AsArray()) ids.push_back(static_cast<std::int32_t>(id.AsInt()));
  return ids;
}

// A tokenizer.json around a model, a decoder and added tokens, each as JSON text.
std::string TokenizerJson(const std::string& model, const std::string& decoder = "null",
                          const std::string& added = "[]") {
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)" + added +
         R"(,"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":)" + decoder +
         R"(,"model":)" + model + "}";
}

std::string WordLevel(const std::string& vocab) {
  return R"({"type":"WordLevel","unk_token":"<unk>","vocab":{)" + vocab + "}}";
}

const char kSentencePieceDecoder[] =
    R"({"type":"Sequence","decoders":[)"
    R"({"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},)"
    R"({"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";

std::string Streamed(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                     bool skip_special = false) {
  StreamDecoder stream(tokenizer, skip_special);
  std::string text;
  for (const std::int32_t id : ids) {
    auto part = stream.Push(id);
    EXPECT_TRUE(part.ok()) << part.message();
    // ParseJson refuses text that is not UTF-8, which is what a split sequence would be.
    EXPECT_TRUE(ParseJson(Json(*part).Dump()).ok()) << "a part is not UTF-8";
    text += *part;
  }
  auto rest = stream.Finish();
  EXPECT_TRUE(rest.ok()) << rest.message();
  return text + *rest;
}

TEST(Tokenizer, GivesTheGoldenIdsAndTexts) {
  auto tokenizer = Tokenizer::FromJson(SharedText(kGoldenTokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  auto golden = ParseJson(SharedText("golden/tokenizer_golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.message();
  EXPECT_EQ(tokenizer->size(), golden->Find("vocab")->AsInt());
  ASSERT_GE(golden->Find("encode")->AsArray().size(), 10U);
  for (const Json& entry : golden->Find("encode")->AsArray()) {
    const std::string& text = entry.Find("text")->AsString();
    const std::vector<std::int32_t> ids = Ids(*entry.Find("ids"));
    EXPECT_EQ(*tokenizer->Encode(text), ids) << text;
    EXPECT_EQ(*tokenizer->Encode(text, {.add_special_tokens = true}),
              Ids(*entry.Find("ids_with_bos")))
        << text;
    EXPECT_EQ(*tokenizer->Decode(ids, false), entry.Find("decode")->AsString());
    EXPECT_EQ(*tokenizer->Decode(ids, true), entry.Find("decode_skip_special")->AsString());
    EXPECT_EQ(Streamed(*tokenizer, ids), entry.Find("decode")->AsString());
    EXPECT_EQ(Streamed(*tokenizer, ids, true), entry.Find("decode_skip_special")->AsString());
  }
}

TEST(Tokenizer, GivesTheGoldenChats) {
  auto tokenizer = Tokenizer::FromJson(SharedText(kGoldenTokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  auto compiled =
      ChatTemplate::Compile(SharedText("golden/families/llama-gqa8/hf/chat_template.jinja"));
  ASSERT_TRUE(compiled.ok()) << compiled.message();
  auto golden = ParseJson(SharedText("golden/tokenizer_golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.message();
  ASSERT_FALSE(golden->Find("chat")->AsArray().empty());
  for (const Json& entry : golden->Find("chat")->AsArray()) {
    Json context{Json::Object{}};
    context.Set("messages", *entry.Find("messages"));
    context.Set("add_generation_prompt", true);
    context.Set("bos_token", "<s>");
    if (!entry.Find("enable_thinking")->IsNull()) {
      context.Set("enable_thinking", *entry.Find("enable_thinking"));
    }
    auto text = compiled->Render(context.Dump(), 0);
    ASSERT_TRUE(text.ok()) << text.message();
    EXPECT_EQ(*text, entry.Find("text")->AsString());
    EXPECT_EQ(*tokenizer->Encode(*text), Ids(*entry.Find("ids")));
  }
}

TEST(Tokenizer, ReadsSpecialTokensAsTextWhenAsked) {
  auto tokenizer = Tokenizer::FromJson(SharedText(kGoldenTokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  const std::optional<std::int32_t> end = tokenizer->TokenId("<|im_end|>");
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(*tokenizer->Encode("<|im_end|>"), std::vector<std::int32_t>{*end});
  auto plain = tokenizer->Encode("<|im_end|>", {.parse_special_tokens = false});
  ASSERT_TRUE(plain.ok()) << plain.message();
  EXPECT_GT(plain->size(), 1U);
  EXPECT_EQ(*tokenizer->Decode(*plain, false), "<|im_end|>");
}

TEST(Tokenizer, KnowsPiecesBytesAndAddedTokens) {
  auto tokenizer = Tokenizer::FromJson(SharedText(kGoldenTokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  EXPECT_EQ(*tokenizer->Piece(224), "\xc4\xa0");  // the sign for a space
  EXPECT_EQ(*tokenizer->TokenBytes(224), " ");
  EXPECT_EQ(tokenizer->TokenId("\xc4\xa0"), 224);
  EXPECT_EQ(tokenizer->TokenId("no such piece"), std::nullopt);
  // All 256 bytes occur, each as what it is.
  std::string seen;
  for (std::int32_t id = 0; id < tokenizer->size(); ++id) {
    auto bytes = tokenizer->TokenBytes(id);
    if (bytes.ok() && bytes->size() == 1) seen += *bytes;
  }
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_NE(seen.find(static_cast<char>(byte)), std::string::npos) << byte;
  }
  bool found = false;
  for (const AddedToken& token : tokenizer->added_tokens()) {
    found = found || (token.content == "<s>" && token.id == 0 && token.special);
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(tokenizer->Piece(100000).code(), Code::kInvalidArgument);
  EXPECT_EQ(tokenizer->Piece(-1).code(), Code::kInvalidArgument);
  EXPECT_EQ(tokenizer->Decode(std::vector<std::int32_t>{-5}, false).code(), Code::kInvalidArgument);
}

// Nothing about a tokenizer is recognized by its hash: a fine-tune with a token more is read.
TEST(Tokenizer, AnAddedTokenMoreChangesNothingElse) {
  const std::string source = SharedText(kGoldenTokenizer);
  const auto plain = Tokenizer::FromJson(source);
  ASSERT_TRUE(plain.ok()) << plain.message();
  auto json = ParseJson(source);
  ASSERT_TRUE(json.ok()) << json.message();
  Json::Array added = json->Find("added_tokens")->AsArray();
  added.push_back(*ParseJson(
      StrCat(R"({"content":"<|mine|>","single_word":false,"lstrip":false,"rstrip":false,)"
             R"("normalized":false,"special":true,"id":)",
             plain->size(), "}")));
  json->Set("added_tokens", std::move(added));
  const auto more = Tokenizer::FromJson(json->Dump());
  ASSERT_TRUE(more.ok()) << more.message();
  EXPECT_EQ(more->size(), plain->size() + 1);
  EXPECT_EQ(*more->Encode("<|mine|>"),
            std::vector<std::int32_t>{static_cast<std::int32_t>(plain->size())});
  for (const char* text : {"it's 2024!", "  a\n\n b", "नमस्ते 😊", "<|im_end|>"}) {
    EXPECT_EQ(*more->Encode(text), *plain->Encode(text)) << text;
  }
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  auto tokenizer = Tokenizer::FromJson(SharedText(kGoldenTokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  auto ids = tokenizer->Encode("ab\xff");
  EXPECT_EQ(ids.code(), Code::kInvalidArgument);
  EXPECT_NE(ids.message().find("byte 2"), std::string::npos) << ids.message();
}

TEST(Tokenizer, WorksFromManyThreads) {
  auto tokenizer = Tokenizer::FromJson(SharedText(kGoldenTokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  const auto expected = *tokenizer->Encode("Hello world 123, the quick brown fox.\n");
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Tokenizer copy = *tokenizer;
      for (int i = 0; i < 50; ++i) {
        const auto ids = copy.Encode("Hello world 123, the quick brown fox.\n");
        wrong[static_cast<std::size_t>(t)] += ids.ok() && *ids == expected ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Stream, EqualsTheWholeDecodeOnRandomIds) {
  auto tokenizer = Tokenizer::FromJson(SharedText(kGoldenTokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  std::mt19937 random(7);
  std::uniform_int_distribution<std::int32_t> any(0, static_cast<std::int32_t>(tokenizer->size()));
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int32_t> ids(1 + static_cast<std::size_t>(round) % 40);
    for (std::int32_t& id : ids) id = any(random);
    const bool skip = round % 2 == 1;
    EXPECT_EQ(Streamed(*tokenizer, ids, skip), *tokenizer->Decode(ids, skip)) << round;
  }
}

TEST(Stream, HoldsAnEmojiBackUntilItIsWhole) {
  auto tokenizer = Tokenizer::FromJson(SharedText(kGoldenTokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  const auto ids = *tokenizer->Encode("🙂");
  ASSERT_GE(ids.size(), 2U);
  StreamDecoder stream(*tokenizer, false);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(*stream.Push(ids[i]), "") << i;
  EXPECT_EQ(*stream.Push(ids.back()), "🙂");
  EXPECT_EQ(*stream.Push(ids[0]), "");
  EXPECT_EQ(*stream.Push(*tokenizer->TokenId("a")),
            "\xef\xbf\xbd"
            "a");
  EXPECT_EQ(*stream.Push(ids[0]), "");
  EXPECT_EQ(*stream.Finish(), "\xef\xbf\xbd");
}

// The pieces of "Hello! 😊" in byte-level form, as Qwen3 says them.
TEST(Stream, NeverShowsByteLevelLetters) {
  auto tokenizer = Tokenizer::FromJson(TokenizerJson(
      WordLevel(R"("<unk>":0,"Hello":1,"!":2,"Ġ":3,"ðŁ":4,"ĺĬ":5)"),
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  StreamDecoder stream(*tokenizer, false);
  std::vector<std::string> parts;
  for (const std::int32_t id : {1, 2, 3, 4, 5}) parts.push_back(*stream.Push(id));
  EXPECT_EQ(parts, (std::vector<std::string>{"Hello", "!", " ", "", "😊"}));
  EXPECT_EQ(*stream.Finish(), "");
  EXPECT_EQ(*tokenizer->Decode(std::vector<std::int32_t>{1, 2, 3, 4, 5}, false), "Hello! 😊");
}

TEST(Stream, PutsByteFallbackTogether) {
  auto tokenizer = Tokenizer::FromJson(TokenizerJson(
      WordLevel(R"("<unk>":0,"▁Hi":1,"<0xF0>":2,"<0x9F>":3,"<0x98>":4,"<0x8A>":5,"▁x":6)"),
      kSentencePieceDecoder));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  const std::vector<std::int32_t> ids = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(*tokenizer->Decode(ids, false), "Hi😊 x");
  EXPECT_EQ(Streamed(*tokenizer, ids), "Hi😊 x");
}

TEST(Stream, OutlivesTheTokenizer) {
  auto tokenizer = Tokenizer::FromJson(SharedText(kGoldenTokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  StreamDecoder stream(*tokenizer, false);
  tokenizer = Status(Code::kNotFound, "gone");
  EXPECT_EQ(*stream.Push(224), " ");
}

TEST(Stream, FollowsSentencePieceDecoders) {
  const std::string vocab =
      R"("<unk>":0,"▁Hi":1,"▁there":2,"<0xF0>":3,"<0x9F>":4,"<0x99>":5,"<0x82>":6,"▁":7,"!":8)";
  auto tokenizer = Tokenizer::FromJson(TokenizerJson(WordLevel(vocab), kSentencePieceDecoder));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  EXPECT_EQ(*tokenizer->TokenBytes(1), " Hi");
  EXPECT_EQ(*tokenizer->TokenBytes(3), "\xf0");
  const std::vector<std::int32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(*tokenizer->Decode(ids, false), "Hi there🙂 !");
  EXPECT_EQ(Streamed(*tokenizer, ids), "Hi there🙂 !");
  // Only the first space goes, even if it comes alone.
  const std::vector<std::int32_t> spaces = {7, 7, 1};
  EXPECT_EQ(Streamed(*tokenizer, spaces), *tokenizer->Decode(spaces, false));
}

TEST(Stream, FollowsMetaspaceAndNoDecoderAndWindows) {
  const std::string vocab = R"("<unk>":0,"▁a":1,"b":2,"▁":3,"##c":4,".":5)";
  const char* decoders[] = {
      R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})",
      R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":true})",
      "null",
      R"({"type":"WordPiece","prefix":"##","cleanup":false})",
  };
  for (const char* decoder : decoders) {
    auto tokenizer = Tokenizer::FromJson(TokenizerJson(WordLevel(vocab), decoder));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
    for (const std::vector<std::int32_t>& ids :
         {std::vector<std::int32_t>{1, 2, 3, 1}, {2, 2}, {3, 3, 1}, {2, 4, 5, 1}, {}}) {
      EXPECT_EQ(Streamed(*tokenizer, ids), *tokenizer->Decode(ids, false)) << decoder;
    }
  }
}

TEST(Tokenizer, TurnsTruncationAndPaddingOff) {
  auto json = ParseJson(SharedText(kGoldenTokenizer));
  ASSERT_TRUE(json.ok()) << json.message();
  const auto plain = Tokenizer::FromJson(json->Dump());
  ASSERT_TRUE(plain.ok()) << plain.message();
  json->Set("truncation", *ParseJson(R"({"direction":"Right","max_length":2,)"
                                     R"("strategy":"LongestFirst","stride":0})"));
  json->Set("padding",
            *ParseJson(R"({"strategy":{"Fixed":64},"direction":"Right","pad_to_multiple_of":null,)"
                       R"("pad_id":0,"pad_type_id":0,"pad_token":"<s>"})"));
  const auto limited = Tokenizer::FromJson(json->Dump());
  ASSERT_TRUE(limited.ok()) << limited.message();
  EXPECT_EQ(*limited->Encode("Hello world, hello world"),
            *plain->Encode("Hello world, hello world"));
}

struct BadCase {
  std::string name, json, word;
};

TEST(Tokenizer, RefusesBadFilesWithAReason) {
  const std::string deep(100000, '[');
  const BadCase cases[] = {
      {"empty", "", "tokenizer.json"},
      {"garbage", "hello", "line 1"},
      {"null", "null", "tokenizer.json"},
      {"deep", deep, "tokenizer.json"},
      {"not UTF-8", "{\"a\":\"\xff\"}", "UTF-8"},
      {"id over 31 bits", TokenizerJson(WordLevel(R"("<unk>":0,"a":4294967295)")), "4294967295"},
      {"largest int", TokenizerJson(WordLevel(R"("<unk>":0,"a":2147483647)")), "2147483647"},
      {"two pieces, one id", TokenizerJson(WordLevel(R"("<unk>":0,"a":1,"b":1)")),
       "both have id 1"},
      {"added id differs",
       TokenizerJson(WordLevel(R"("<unk>":0,"a":1)"), "null",
                     R"([{"id":9,"content":"<x>","single_word":false,"lstrip":false,)"
                     R"("rstrip":false,"normalized":false,"special":true}])"),
       "id 9"},
      {"WordPiece",
       TokenizerJson(R"({"type":"WordPiece","unk_token":"<unk>","continuing_subword_prefix":"##",)"
                     R"("max_input_chars_per_word":100,"vocab":{"<unk>":0}})"),
       "WordPiece"},
      {"merge out of vocabulary",
       TokenizerJson(R"({"type":"BPE","vocab":{"a":0},"merges":[["a","zzz"]]})"), "merges"},
      {"unknown model", TokenizerJson(R"({"type":"Nonsense","vocab":{}})"), "tokenizer.json"},
      {"bad regex",
       R"({"version":"1.0","added_tokens":[],"pre_tokenizer":{"type":"Split","pattern":)"
       R"({"Regex":"(("},"behavior":"Isolated","invert":false},"model":)" +
           WordLevel(R"("<unk>":0)") + "}",
       "tokenizer.json"},
      // A map that the library unpacks without checking: it panics.
      {"broken charsmap",
       R"({"version":"1.0","added_tokens":[],"normalizer":{"type":"Precompiled",)"
       R"("precompiled_charsmap":"AAAA"},"model":)" +
           WordLevel(R"("<unk>":0)") + "}",
       ""},
  };
  for (const BadCase& bad : cases) {
    const auto tokenizer = Tokenizer::FromJson(bad.json);
    ASSERT_FALSE(tokenizer.ok()) << bad.name;
    EXPECT_NE(tokenizer.code(), Code::kInternal) << bad.name;
    EXPECT_NE(tokenizer.message().find(bad.word), std::string::npos)
        << bad.name << ": " << tokenizer.message();
  }
}

}  // namespace
}  // namespace hone::bridge
