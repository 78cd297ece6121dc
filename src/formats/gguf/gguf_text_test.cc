// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/gguf_test_builder.h"
#include "formats/gguf/gguf_text_internal.h"

namespace hone::formats {
namespace {

using testing::GgufBuilder;

#define EXPECT_HAS(text, word) \
  EXPECT_NE(std::string(text).find(word), std::string::npos) << std::string(text)

// A byte-level BPE vocabulary of six pieces, and keys that a test may leave out.
GgufBuilder Bpe(std::string_view pre = "smollm") {
  GgufBuilder builder;
  builder.String("tokenizer.ggml.model", "gpt2");
  if (!pre.empty()) builder.String("tokenizer.ggml.pre", pre);
  builder.Strings("tokenizer.ggml.tokens", {"<|im_end|>", "a", "b", "ab", "<tool>", "\xc4\xa0"});
  builder.Array<std::int32_t>("tokenizer.ggml.token_type", 5, {3, 1, 1, 1, 4, 1});
  builder.Strings("tokenizer.ggml.merges", {"a b"});
  return builder;
}
GgufBuilder Spm() {
  GgufBuilder builder;
  builder.String("tokenizer.ggml.model", "llama");
  builder.Strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "<0x0A>", "a", "b", "c", "ab", "bc",
                                            "abc", "\u2581", "\u2581a"});
  builder.Array<std::int32_t>("tokenizer.ggml.token_type", 5, {2, 3, 6, 1, 1, 1, 1, 1, 1, 1, 1});
  builder.Array<float>("tokenizer.ggml.scores", 6, {0, 0, 0, -9, -9, -9, -1, -2, -3, -9, -0.5F});
  return builder;
}

Result<TextFacts> Read(const GgufBuilder& builder) {
  const std::string bytes = builder.Bytes();
  auto file = GgufFile::Parse(AsBytes(bytes), "x.gguf");
  if (!file.ok()) return std::move(file).status();
  return ReadGgufText(**file);
}
std::string ErrorOf(const GgufBuilder& builder, Code code = Code::kDataLoss) {
  const auto text = Read(builder);
  EXPECT_FALSE(text.ok());
  EXPECT_EQ(text.code(), code) << text.message();
  EXPECT_EQ(text.message().substr(0, 7), "x.gguf:") << text.message();
  return std::string(text.message());
}
Json TokenizerOf(const TextFacts& text) {
  auto json = ParseJson(text.tokenizer_json);
  EXPECT_TRUE(json.ok()) << json.message();
  return json.ok() ? *std::move(json) : Json();
}

TEST(GgufText, ByteLevelBpeBecomesAWholeTokenizer) {
  const auto text = Read(Bpe()
                             .U32("tokenizer.ggml.bos_token_id", 1)
                             .U32("tokenizer.ggml.eos_token_id", 0)
                             .U32("tokenizer.ggml.eot_token_id", 4)
                             .U32("tokenizer.ggml.eom_token_id", 0)
                             .U32("tokenizer.ggml.padding_token_id", 0)
                             .Bool("tokenizer.ggml.add_bos_token", false)
                             .String("tokenizer.chat_template", "{{ x }}")
                             .String("tokenizer.chat_template.tool_use", "{{ y }}"));
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(
      text->tokenizer_json,
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)"
      R"({"id":0,"content":"<|im_end|>","single_word":false,"lstrip":false,"rstrip":false,)"
      R"("normalized":false,"special":true},)"
      R"({"id":4,"content":"<tool>","single_word":false,"lstrip":false,"rstrip":false,)"
      R"("normalized":false,"special":false}],"normalizer":null,)"
      R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[)"
      R"({"type":"Digits","individual_digits":true},)"
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]},)"
      R"("post_processor":null,)"
      R"("decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,)"
      R"("use_regex":true},)"
      R"("model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
      R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,)"
      "\"vocab\":{\"<|im_end|>\":0,\"a\":1,\"b\":2,\"ab\":3,\"<tool>\":4,\"\xc4\xa0\":5},"
      R"("merges":["a b"]}})");
  EXPECT_EQ(text->bos_token, "a");
  EXPECT_EQ(text->eos_token, "<|im_end|>");
  EXPECT_EQ(text->pad_token, "<|im_end|>");
  EXPECT_EQ(text->unk_token, "");
  EXPECT_EQ(text->add_bos_token, std::optional<bool>(false));
  EXPECT_EQ(text->eos_ids, (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(text->chat_template, "{{ x }}");
  const std::vector<std::pair<std::string, std::string>> named = {{"tool_use", "{{ y }}"}};
  EXPECT_EQ(text->named_templates, named);
  EXPECT_TRUE(text->warnings.empty());
}

TEST(GgufText, ATextThatBeginsWithBosGetsAPostProcessor) {
  const auto text =
      Read(Bpe().U32("tokenizer.ggml.bos_token_id", 0).Bool("tokenizer.ggml.add_bos_token", true));
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(text->add_bos_token, std::optional<bool>(true));
  const Json tokenizer = TokenizerOf(*text);
  EXPECT_EQ(tokenizer.Find("post_processor")->Find("single")->Dump(),
            R"([{"SpecialToken":{"id":"<|im_end|>","type_id":0}},)"
            R"({"Sequence":{"id":"A","type_id":0}}])");
  EXPECT_EQ(tokenizer.Find("post_processor")->Find("special_tokens")->Dump(),
            R"({"<|im_end|>":{"id":"<|im_end|>","ids":[0],"tokens":["<|im_end|>"]}})");
}

TEST(GgufText, SmolLm2SplitsDigitsBeforeByteLevel) {
  const auto pre = internal::FindPreTokenizer("smollm");
  ASSERT_TRUE(pre.has_value());
  EXPECT_EQ(pre->pre_tokenizer.Dump(),
            R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},)"
            R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)"
            R"("use_regex":true}]})");
  EXPECT_FALSE(pre->ignore_merges);
}

TEST(GgufText, MiniCpm5SplitsAsItsOwnTokenizerDoes) {
  const auto file =
      ReadFile(std::string(HONE_SHARED_DATA) + "/golden/bad/00-control-ok/tokenizer.json");
  ASSERT_TRUE(file.ok()) << file.message();
  const auto golden = ParseJson(*file);
  ASSERT_TRUE(golden.ok());
  const auto pre = internal::FindPreTokenizer("minicpm5");
  ASSERT_TRUE(pre.has_value());
  EXPECT_EQ(pre->pre_tokenizer.Dump(), golden->Find("pre_tokenizer")->Dump());
  EXPECT_TRUE(pre->ignore_merges);
}

TEST(GgufText, PatternsAreTheOriginalForms) {
  const auto pattern = [](const char* name) {
    const auto pre = internal::FindPreTokenizer(name);
    return pre->pre_tokenizer.Find("pretokenizers")
        ->AsArray()[0]
        .Find("pattern")
        ->Find("Regex")
        ->AsString();
  };
  EXPECT_EQ(pattern("llama-bpe"),
            R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
            R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  EXPECT_EQ(pattern("qwen2"), R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  EXPECT_EQ(pattern("tekken"),
            R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
            R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
            R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
}

TEST(GgufText, AnUnknownPreTokenizerOrModelIsRefusedByName) {
  EXPECT_HAS(ErrorOf(Bpe(""), Code::kUnsupported), "tokenizer.ggml.pre is missing");
  EXPECT_HAS(ErrorOf(Bpe("default"), Code::kUnsupported), "\"default\"");
  EXPECT_HAS(ErrorOf(Bpe("foo-9"), Code::kUnsupported), "\"foo-9\"");
  EXPECT_HAS(ErrorOf(GgufBuilder().String("tokenizer.ggml.model", "bert"), Code::kUnsupported),
             "\"bert\"");
  EXPECT_HAS(ErrorOf(GgufBuilder(), Code::kNotFound), "tokenizer.ggml.model");
}

TEST(GgufText, ALlamaVocabularyBecomesBpeWithMergesByScore) {
  const auto text = Read(Spm().U32("tokenizer.ggml.bos_token_id", 1));
  ASSERT_TRUE(text.ok()) << text.message();
  const Json tokenizer = TokenizerOf(*text);
  const Json& model = *tokenizer.Find("model");
  EXPECT_EQ(model.Find("merges")->Dump(),
            "[[\"\u2581\",\"a\"],[\"a\",\"b\"],[\"b\",\"c\"],[\"ab\",\"c\"],[\"a\",\"bc\"]]");
  EXPECT_TRUE(model.Find("byte_fallback")->AsBool());
  EXPECT_TRUE(model.Find("fuse_unk")->AsBool());
  EXPECT_EQ(model.Find("unk_token")->AsString(), "<unk>");
  EXPECT_EQ(text->unk_token, "<unk>");
  EXPECT_TRUE(tokenizer.Find("pre_tokenizer")->IsNull());
  EXPECT_EQ(tokenizer.Find("normalizer")->Dump(),
            "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},"
            "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]}");
  EXPECT_EQ(tokenizer.Find("decoder")->Dump(),
            "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
            "\"\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
            "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}");
  EXPECT_EQ(text->add_bos_token, std::optional<bool>(true));
  EXPECT_EQ(tokenizer.Find("added_tokens")->AsArray().size(), 2U);
}

TEST(GgufText, WithoutASpacePrefixNothingIsPrependedOrStripped) {
  const auto text = Read(Spm().Bool("tokenizer.ggml.add_space_prefix", false));
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(text->tokenizer_json.find("Prepend"), std::string::npos);
  EXPECT_EQ(text->tokenizer_json.find("Strip"), std::string::npos);
  EXPECT_EQ(text->add_bos_token, std::optional<bool>(false)) << "there is no BOS to add";
}

TEST(GgufText, ASpecialIdOutsideTheVocabularyIsIgnoredAndSaid) {
  const auto text = Read(Bpe()
                             .U32("tokenizer.ggml.padding_token_id", 0xFFFFFFFFU)
                             .U32("tokenizer.ggml.eos_token_id", 3));
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(text->pad_token, "");
  EXPECT_EQ(text->eos_ids, std::vector<std::int64_t>{3});
  ASSERT_EQ(text->warnings.size(), 1U);
  EXPECT_HAS(text->warnings[0], "padding_token_id is 4294967295");
  EXPECT_HAS(ErrorOf(Bpe().String("tokenizer.ggml.eos_token_id", "x"), Code::kInvalidArgument),
             "eos_token_id");
}

TEST(GgufText, SamplingComesFromTheGeneralKeys) {
  const auto text = Read(Bpe()
                             .F32("general.sampling.temp", 0.5F)
                             .Scalar<std::int32_t>("general.sampling.top_k", 5, 7));
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_TRUE(text->sampling.do_sample);
  EXPECT_EQ(text->sampling.temperature, std::optional<double>(0.5));
  EXPECT_EQ(text->sampling.top_k, std::optional<std::int64_t>(7));
}

TEST(GgufText, RefusesDamagedVocabularies) {
  const auto bpe = [](std::vector<std::string> tokens, std::vector<std::int32_t> types,
                      std::vector<std::string> merges) {
    GgufBuilder builder;
    builder.String("tokenizer.ggml.model", "gpt2").String("tokenizer.ggml.pre", "gpt-2");
    builder.Strings("tokenizer.ggml.tokens", tokens);
    builder.Array<std::int32_t>("tokenizer.ggml.token_type", 5, types);
    return builder.Strings("tokenizer.ggml.merges", merges);
  };
  EXPECT_TRUE(Read(bpe({"a"}, {1}, {})).ok());
  EXPECT_HAS(ErrorOf(bpe({}, {}, {})), "at least one");
  EXPECT_HAS(ErrorOf(bpe({"a", "b"}, {1}, {})), "2 texts");
  EXPECT_HAS(ErrorOf(bpe({"a", "a"}, {1, 1}, {})), "same text \"a\"");
  EXPECT_HAS(ErrorOf(bpe({"\xff"}, {1}, {})), "not UTF-8");
  EXPECT_HAS(ErrorOf(bpe({"a"}, {7}, {})), "type 7");
  EXPECT_HAS(ErrorOf(bpe({"a", "b"}, {1, 1}, {"a b"})), "rank 0");
  EXPECT_HAS(ErrorOf(bpe({"a"}, {1}, {"a"})), "rank 0");
  EXPECT_HAS(ErrorOf(bpe({"a"}, {1}, {"\xff b"})), "rank 0");
  EXPECT_HAS(ErrorOf(GgufBuilder()
                         .String("tokenizer.ggml.model", "gpt2")
                         .String("tokenizer.ggml.pre", "gpt-2")
                         .Strings("tokenizer.ggml.tokens", {"a"}),
                     Code::kNotFound),
             "token_type");
  EXPECT_HAS(
      ErrorOf(Spm().Bool("tokenizer.ggml.remove_extra_whitespaces", true), Code::kUnsupported),
      "remove_extra_whitespaces");
  EXPECT_HAS(ErrorOf(Spm().Array<std::uint8_t>("tokenizer.ggml.precompiled_charsmap", 0, {1}),
                     Code::kUnsupported),
             "precompiled_charsmap");
  EXPECT_HAS(ErrorOf(Bpe().String("tokenizer.chat_template", "\xff")), "not UTF-8");
  GgufBuilder no_scores;
  no_scores.String("tokenizer.ggml.model", "llama").Strings("tokenizer.ggml.tokens", {"a"});
  no_scores.Array<std::int32_t>("tokenizer.ggml.token_type", 5, {1});
  EXPECT_HAS(ErrorOf(no_scores, Code::kNotFound), "scores");
  EXPECT_HAS(ErrorOf(GgufBuilder(no_scores).Array<float>(
                 "tokenizer.ggml.scores", 6, {std::numeric_limits<float>::quiet_NaN()})),
             "not finite");
  EXPECT_HAS(ErrorOf(no_scores.Array<float>("tokenizer.ggml.scores", 6, {1, 2})), "scores has 2");
}

}  // namespace
}  // namespace hone::formats
