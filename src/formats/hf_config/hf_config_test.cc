// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/hf_config/hf_config.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/test_folder.h"

namespace hone::formats {
namespace {

#define EXPECT_HAS(text, word) \
  EXPECT_NE(std::string(text).find(word), std::string::npos) << std::string(text)

constexpr const char* kTokenizer =
    R"({"added_tokens":[{"id":3,"content":"<s>"}],)"
    R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})";

// A folder with config.json and tokenizer.json.
class Folder : public TestFolder {
 public:
  Folder() {
    Write("config.json", "{\"model_type\":\"llama\"}");
    Write("tokenizer.json", kTokenizer);
  }
  void Remove(const std::string& name) const { std::filesystem::remove(File(name)); }
  TextFacts Read() const {
    auto folder = ReadHfFolder(path());
    EXPECT_TRUE(folder.ok()) << folder.message();
    return folder.ok() ? std::move(folder->text) : TextFacts();
  }
  std::string ErrorOf(Code code) const {
    const auto folder = ReadHfFolder(path());
    EXPECT_FALSE(folder.ok());
    EXPECT_EQ(folder.code(), code) << folder.message();
    return std::string(folder.message());
  }
};

TEST(HfConfig, AFolderWithTheTwoNeededFilesIsEnough) {
  const Folder folder;
  const TextFacts text = folder.Read();
  EXPECT_EQ(text.tokenizer_json, kTokenizer);
  EXPECT_EQ(text.chat_template, "");
  EXPECT_EQ(text.bos_token, "");
  EXPECT_FALSE(text.add_bos_token.has_value());
  EXPECT_TRUE(text.eos_ids.empty());
  EXPECT_FALSE(text.sampling.do_sample);
  EXPECT_TRUE(text.warnings.empty());
}

TEST(HfConfig, MissingFilesAreNotFoundAndSayWhatIsThereInstead) {
  const Folder folder;
  folder.Remove("tokenizer.json");
  EXPECT_HAS(folder.ErrorOf(Code::kNotFound), "tokenizer.json");
  folder.Write("tokenizer.model", "x");
  EXPECT_HAS(folder.ErrorOf(Code::kNotFound), "tokenizer.model is here");
  folder.Remove("config.json");
  EXPECT_HAS(folder.ErrorOf(Code::kNotFound), "config.json");
  folder.Write("adapter_config.json", "{}");
  EXPECT_HAS(folder.ErrorOf(Code::kNotFound), "LoRA");
}

TEST(HfConfig, DamagedJsonNamesItsFile) {
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json",
                           "generation_config.json", "chat_template.json"}) {
    for (const char* text : {"", "{", "[]", "null", "\xff", "{\"a\":1,\"a\":2}", "<!doctype html>",
                             "version https://git-lfs.github.com/spec/v1"}) {
      const Folder folder;
      folder.Write(name, text);
      EXPECT_HAS(folder.ErrorOf(Code::kDataLoss), name);
    }
  }
  const Folder folder;
  folder.Write("config.json", "version https://git-lfs.github.com/spec/v1");
  EXPECT_HAS(folder.ErrorOf(Code::kDataLoss), "Git LFS pointer");
}

TEST(HfConfig, SpecialTokensAreTextOrObjectOrNull) {
  const Folder folder;
  folder.Write("tokenizer_config.json",
               R"({"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},)"
               R"("pad_token":null,"add_bos_token":true})");
  const TextFacts text = folder.Read();
  EXPECT_EQ(text.bos_token, "<s>");
  EXPECT_EQ(text.eos_token, "</s>");
  EXPECT_EQ(text.pad_token, "");
  EXPECT_EQ(text.unk_token, "");
  EXPECT_EQ(text.add_bos_token, std::optional<bool>(true));
  folder.Write("tokenizer_config.json", R"({"eos_token":7})");
  EXPECT_HAS(folder.ErrorOf(Code::kInvalidArgument), "eos_token");
  folder.Write("tokenizer_config.json", R"({"eos_token":{"text":"x"}})");
  EXPECT_HAS(folder.ErrorOf(Code::kInvalidArgument), "content");
  folder.Write("tokenizer_config.json", R"({"add_bos_token":"yes"})");
  EXPECT_HAS(folder.ErrorOf(Code::kInvalidArgument), "add_bos_token");
}

TEST(HfConfig, EndIdsOfBothConfigsAreUnitedInOrder) {
  struct Case {
    const char* config;
    const char* generation;
    std::vector<std::int64_t> ids;
    std::vector<std::string> strings;
  };
  const Case cases[] = {
      {"1", "[1,106]", {1, 106}, {}},
      {"1", "[106,1,50]", {1, 106, 50}, {}},
      {"[5,2]", "2", {5, 2}, {}},
      {"null", "7", {7}, {}},
      {"\"</s>\"", "[\"</s>\",\"<x>\",3,null]", {3}, {"</s>", "<x>"}},
      {"[]", "null", {}, {}},
  };
  for (const Case& c : cases) {
    const Folder folder;
    folder.Write("config.json", StrCat("{\"eos_token_id\":", c.config, "}"));
    folder.Write("generation_config.json", StrCat("{\"eos_token_id\":", c.generation, "}"));
    const TextFacts text = folder.Read();
    EXPECT_EQ(text.eos_ids, c.ids) << c.config;
    EXPECT_EQ(text.eos_strings, c.strings) << c.config;
    EXPECT_TRUE(text.warnings.empty());
  }
}

TEST(HfConfig, EndIdsThatCannotBeIdsAreRefusedOrSaid) {
  const Folder folder;
  folder.Write("config.json", "{\"eos_token_id\":[-1,2]}");
  const TextFacts text = folder.Read();
  EXPECT_EQ(text.eos_ids, std::vector<std::int64_t>{2});
  ASSERT_EQ(text.warnings.size(), 1U);
  EXPECT_HAS(text.warnings[0], "-1");
  for (const char* value : {"1.5", "true", "{}", "[[1]]"}) {
    folder.Write("config.json", StrCat("{\"eos_token_id\":", value, "}"));
    EXPECT_HAS(folder.ErrorOf(Code::kInvalidArgument), "eos_token_id");
  }
}

TEST(HfConfig, EndIdsWrittenAsTextAreIdsAndSaid) {
  const Folder folder;
  folder.Write("config.json", "{\"eos_token_id\":[\"106\",\"</s>\"]}");
  const TextFacts text = folder.Read();
  EXPECT_EQ(text.eos_ids, std::vector<std::int64_t>{106});
  EXPECT_EQ(text.eos_strings, std::vector<std::string>{"</s>"});
  ASSERT_EQ(text.warnings.size(), 1U);
  EXPECT_HAS(text.warnings[0], "106");
}

TEST(HfConfig, ATemplateFileThatIsAPointerOrAPageIsRefused) {
  const Folder folder;
  folder.Write("chat_template.jinja", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_HAS(folder.ErrorOf(Code::kDataLoss), "chat_template.jinja: this is a Git LFS pointer");
  folder.Write("chat_template.jinja", "<!doctype html><p>Sign in</p>");
  EXPECT_HAS(folder.ErrorOf(Code::kDataLoss), "chat_template.jinja: this is a web page");
}

TEST(HfConfig, ALinkToNoFileIsNotTakenForAMissingFile) {
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json",
                           "generation_config.json", "chat_template.jinja", "chat_template.json"}) {
    const Folder folder;
    folder.Remove(name);
    std::filesystem::create_symlink(folder.File("gone"), folder.File(name));
    const std::string error = folder.ErrorOf(Code::kNotFound);
    EXPECT_HAS(error, name);
    EXPECT_HAS(error, "link to no file");
    folder.Remove(name);
    std::filesystem::create_directory(folder.File(name));
    EXPECT_HAS(folder.ErrorOf(Code::kInvalidArgument), "is a folder, expected a file");
  }
}

TEST(HfConfig, NamedTemplatesWithoutADefaultAreSaid) {
  const Folder folder;
  folder.Write("tokenizer_config.json",
               R"({"chat_template":[{"name":"tool_use","template":"T"}]})");
  const TextFacts text = folder.Read();
  EXPECT_EQ(text.chat_template, "");
  ASSERT_EQ(text.warnings.size(), 1U);
  EXPECT_HAS(text.warnings[0], "tool_use");
}

TEST(HfConfig, SamplingFactsComeFromTheGenerationConfig) {
  const Folder folder;
  folder.Write("generation_config.json",
               R"({"do_sample":true,"temperature":0.6,"top_p":0.95,"top_k":20.0,"min_p":null,)"
               R"("repetition_penalty":1.1})");
  const SamplingFacts sampling = folder.Read().sampling;
  EXPECT_TRUE(sampling.do_sample);
  EXPECT_EQ(sampling.temperature, std::optional<double>(0.6));
  EXPECT_EQ(sampling.top_p, std::optional<double>(0.95));
  EXPECT_EQ(sampling.top_k, std::optional<std::int64_t>(20));
  EXPECT_FALSE(sampling.min_p.has_value());
  EXPECT_EQ(sampling.repetition_penalty, std::optional<double>(1.1));
  for (const char* bad : {R"({"top_k":1.5})", R"({"top_k":1e300})", R"({"temperature":"hot"})",
                          R"({"do_sample":1})"}) {
    folder.Write("generation_config.json", bad);
    EXPECT_HAS(folder.ErrorOf(Code::kInvalidArgument), "generation_config.json");
  }
}

TEST(HfConfig, TheJinjaFileWinsAndADifferenceIsSaid) {
  const Folder folder;
  folder.Write("tokenizer_config.json", R"({"chat_template":"A"})");
  EXPECT_EQ(folder.Read().chat_template, "A");
  folder.Write("chat_template.jinja", "A");
  EXPECT_TRUE(folder.Read().warnings.empty());
  folder.Write("chat_template.jinja", "<html>{{ x }}\r\n");
  const TextFacts text = folder.Read();
  EXPECT_EQ(text.chat_template, "<html>{{ x }}\r\n");
  ASSERT_EQ(text.warnings.size(), 1U);
  EXPECT_HAS(text.warnings[0], "chat_template.jinja");
  EXPECT_HAS(text.warnings[0], "tokenizer_config.json");
  folder.Write("chat_template.jinja", "\xff");
  EXPECT_HAS(folder.ErrorOf(Code::kDataLoss), "not UTF-8");
}

TEST(HfConfig, AListOfTemplatesGivesTheDefaultAndTheNamedOnes) {
  const Folder folder;
  folder.Write("tokenizer_config.json",
               R"({"chat_template":[{"name":"tool_use","template":"T"},)"
               R"({"name":"default","template":"D"},{"name":"rag","template":"R"}]})");
  folder.Write("additional_chat_templates/rag.jinja", "file");
  const TextFacts text = folder.Read();
  EXPECT_EQ(text.chat_template, "D");
  const std::vector<std::pair<std::string, std::string>> named = {{"rag", "file"},
                                                                  {"tool_use", "T"}};
  EXPECT_EQ(text.named_templates, named);
  for (const char* bad : {"7", "[7]", "[{\"name\":\"default\"}]", "{}"}) {
    folder.Write("tokenizer_config.json", StrCat("{\"chat_template\":", bad, "}"));
    EXPECT_HAS(folder.ErrorOf(Code::kInvalidArgument), "chat_template");
  }
}

TEST(HfConfig, TheGoldenControlReadsWhole) {
  const auto folder = ReadHfFolder(std::string(HONE_SHARED_DATA) + "/golden/bad/00-control-ok");
  ASSERT_TRUE(folder.ok()) << folder.message();
  EXPECT_EQ(folder->text.bos_token, "<s>");
  EXPECT_EQ(folder->text.eos_token, "</s>");
  EXPECT_EQ(folder->text.eos_ids, std::vector<std::int64_t>{1});
  EXPECT_EQ(folder->text.chat_template.size(), 659U);
  EXPECT_TRUE(folder->text.sampling.do_sample);
  EXPECT_EQ(folder->text.sampling.temperature, std::optional<double>(0.9));
  const auto tokenizer = ParseJson(folder->text.tokenizer_json);
  ASSERT_TRUE(tokenizer.ok());
  const auto size = CheckTokenizerJson(*tokenizer);
  ASSERT_TRUE(size.ok());
  EXPECT_EQ(*size, 320);
}

TEST(HfConfig, GoldenBadFoldersAreRefusedWithTheirWords) {
  struct Case {
    const char* name;
    Code code;
    const char* words[2];
  };
  for (const Case& c : {Case{"config-missing", Code::kNotFound, {"config.json", "not found"}},
                        Case{"tokenizer-wordpiece", Code::kUnsupported, {"WordPiece", "type"}},
                        Case{"tokenizer-bad-merge", Code::kDataLoss, {"rank 5", "zzz"}}}) {
    const auto folder = ReadHfFolder(std::string(HONE_SHARED_DATA) + "/golden/bad/" + c.name);
    ASSERT_FALSE(folder.ok()) << c.name;
    EXPECT_EQ(folder.code(), c.code) << folder.message();
    for (const char* word : c.words) EXPECT_HAS(folder.message(), word);
  }
}

std::string TokenizerError(std::string_view text, Code code = Code::kDataLoss) {
  const auto json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.message();
  const auto size = CheckTokenizerJson(*json);
  EXPECT_FALSE(size.ok()) << text;
  EXPECT_EQ(size.code(), code) << size.message();
  return std::string(size.message());
}
std::int64_t TokenizerSize(std::string_view text) {
  const auto json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.message();
  const auto size = CheckTokenizerJson(*json);
  EXPECT_TRUE(size.ok()) << size.message();
  return size.ok() ? *size : -1;
}

TEST(CheckTokenizerJson, AcceptsBpeWithBothFormsOfMergesAndUnigram) {
  EXPECT_EQ(TokenizerSize(kTokenizer), 4);
  EXPECT_EQ(TokenizerSize(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":9},)"
                          R"("merges":[["a","b"]]}})"),
            10);
  EXPECT_EQ(TokenizerSize(R"({"model":{"vocab":{"a":0,"##b":1,"ab":2},"merges":["a ##b"],)"
                          R"("continuing_subword_prefix":"##"}})"),
            3);
  EXPECT_EQ(TokenizerSize(R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],)"
                          R"(["a",-1.5]]},"added_tokens":[{"id":0,"content":"<unk>"}]})"),
            2);
}

TEST(CheckTokenizerJson, RefusesOtherModelsByName) {
  for (const char* type : {"WordPiece", "WordLevel", "Foo"}) {
    EXPECT_HAS(TokenizerError(StrCat("{\"model\":{\"type\":\"", type, "\",\"vocab\":{\"a\":0}}}"),
                              Code::kUnsupported),
               type);
  }
  EXPECT_HAS(TokenizerError("{}"), "\"model\" is missing");
  EXPECT_HAS(TokenizerError("[]"), "an array");
  EXPECT_HAS(TokenizerError(R"({"model":{"vocab":{}}})"), "type");
  EXPECT_HAS(TokenizerError(R"({"model":{"type":3}})"), "type");
}

TEST(CheckTokenizerJson, RefusesUnknownPartsByName) {
  const auto with = [](std::string_view part) {
    return StrCat(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},)", part, "}");
  };
  EXPECT_HAS(TokenizerError(with(R"("pre_tokenizer":{"type":"Foo"})"), Code::kUnsupported), "Foo");
  const std::string nested =
      with(R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Bar"}]})");
  EXPECT_HAS(TokenizerError(nested, Code::kUnsupported), "Bar");
  EXPECT_EQ(TokenizerSize(with(R"("decoder":{"type":"ByteLevel"},"pre_tokenizer":null)")), 1);
}

TEST(CheckTokenizerJson, RefusesUnknownKeysByName) {
  EXPECT_HAS(TokenizerError(R"({"version":"1.0","truncation":null,"padding":null,"zork":1,)"
                            R"("model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
                            Code::kUnsupported),
             "unknown key \"zork\"");
}

TEST(CheckTokenizerJson, RefusesMergesOfUnknownPiecesByRank) {
  const auto with = [](const char* merges) {
    return StrCat(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":)", merges, "}}");
  };
  EXPECT_HAS(TokenizerError(with(R"(["a b","a c"])")), "rank 1");
  EXPECT_HAS(TokenizerError(with(R"([["c","a"]])")), "\"c\"");
  EXPECT_HAS(TokenizerError(with(R"(["b a"])")), "\"ba\"");
  for (const char* merges : {R"(["ab"])", R"(["a b c"])", "[7]", R"([["a"]])", R"([["a",1]])"}) {
    EXPECT_HAS(TokenizerError(with(merges)), "rank 0");
  }
  EXPECT_HAS(TokenizerError(with("{}")), "merges");
}

TEST(CheckTokenizerJson, RefusesIdsThatAreShared) {
  EXPECT_HAS(TokenizerError(R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})"),
             "same id 0");
  const auto added = [](const char* token) {
    return StrCat(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]},"added_tokens":[)",
                  token, "]}");
  };
  EXPECT_EQ(TokenizerSize(added(R"({"id":1,"content":"b"},{"id":7,"content":"<s>"})")), 8);
  EXPECT_HAS(TokenizerError(added(R"({"id":1,"content":"<s>"})")), "belongs to \"b\"");
  EXPECT_HAS(TokenizerError(added(R"({"id":2,"content":"b"})")), "the vocabulary says 1");
  EXPECT_HAS(TokenizerError(added(R"({"id":2,"content":"x"},{"id":2,"content":"y"})")), "\"x\"");
  for (const char* id : {"-1", "2147483648", "1.0", "null", "\"1\""}) {
    EXPECT_HAS(TokenizerError(added(StrCat("{\"content\":\"z\",\"id\":", id, "}").c_str())),
               "2147483647");
    EXPECT_HAS(
        TokenizerError(StrCat(R"({"model":{"type":"BPE","merges":[],"vocab":{"z":)", id, "}}}")),
        "2147483647");
  }
  EXPECT_HAS(TokenizerError(added("7")), "content");
  EXPECT_HAS(TokenizerError(R"({"model":{"type":"BPE","vocab":{},"merges":[]}})"), "empty");
  EXPECT_HAS(TokenizerError(R"({"model":{"type":"Unigram","vocab":[["a"]]}})"), "entry 0");
  EXPECT_HAS(TokenizerError(R"({"model":{"type":"Unigram","unk_id":1,"vocab":[["a",0]]}})"),
             "unk_id");
}

}  // namespace
}  // namespace hone::formats
