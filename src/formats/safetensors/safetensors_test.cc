// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/test_folder.h"

namespace hone::formats {
namespace {

std::string WithLength(std::uint64_t length, std::string_view rest) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out.append(rest);
}
std::string File(std::string_view header, std::size_t data_bytes) {
  return WithLength(header.size(), std::string(header) + std::string(data_bytes, '\1'));
}
std::string One(std::string_view fields, std::size_t data_bytes) {
  return File(std::string("{\"a.w\":{") + std::string(fields) + "}}", data_bytes);
}

std::string ErrorOf(std::string_view bytes, Code code = Code::kDataLoss) {
  const auto tensors = ParseSafetensors(AsBytes(bytes));
  EXPECT_FALSE(tensors.ok()) << bytes.substr(0, 200);
  EXPECT_EQ(tensors.code(), code) << tensors.message();
  EXPECT_LT(tensors.message().size(), 700U);
  return std::string(tensors.message());
}
#define EXPECT_HAS(text, word) \
  EXPECT_NE(std::string(text).find(word), std::string::npos) << std::string(text)

TEST(Safetensors, ReadsTensorsInFileOrder) {
  const std::string file = File(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}   )",
      10);
  const auto tensors = ParseSafetensors(AsBytes(file));
  ASSERT_TRUE(tensors.ok()) << tensors.message();
  ASSERT_EQ(tensors->size(), 2U);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].dtype, Dtype::kBf16);
  EXPECT_TRUE((*tensors)[0].shape.empty());
  EXPECT_EQ((*tensors)[0].data.size(), 2U);
  EXPECT_EQ((*tensors)[1].name, "b");
  EXPECT_EQ((*tensors)[1].shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(reinterpret_cast<const char*>((*tensors)[1].data.data()), &file[file.size() - 8]);
}

TEST(Safetensors, KnowsEveryDtypeByNameAndSize) {
  const std::pair<const char*, std::size_t> bytes_of_8[] = {
      {"BOOL", 8},    {"U8", 8},   {"I8", 8},      {"U16", 16},    {"I16", 16},
      {"U32", 32},    {"I32", 32}, {"U64", 64},    {"I64", 64},    {"F16", 16},
      {"BF16", 16},   {"F32", 32}, {"F64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
      {"F8_E8M0", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"C64", 64}};
  for (const auto& [name, bytes] : bytes_of_8) {
    const auto tensors = ParseSafetensors(AsBytes(One(
        StrCat("\"dtype\":\"", name, "\",\"shape\":[8],\"data_offsets\":[0,", bytes, "]"), bytes)));
    ASSERT_TRUE(tensors.ok()) << name << ": " << tensors.message();
    EXPECT_STREQ(DtypeName((*tensors)[0].dtype), name);
  }
}

TEST(Safetensors, RefusesEveryWrongHeaderLength) {
  EXPECT_HAS(ErrorOf(""), "empty");
  EXPECT_HAS(ErrorOf("abc"), "too short");
  EXPECT_HAS(ErrorOf(WithLength(0, "{}")), "length 0");
  EXPECT_HAS(ErrorOf(WithLength(1, "{}")), "not valid JSON");
  EXPECT_HAS(ErrorOf(WithLength(1ULL << 63, "{}")), "header");
  EXPECT_HAS(ErrorOf(WithLength(~0ULL, "{}")), "18446744073709551615");
  EXPECT_HAS(ErrorOf(WithLength(~0ULL - 4, std::string(100, ' '))), "header");
  EXPECT_HAS(ErrorOf(WithLength(11, "{}")), "ends after 2");
  EXPECT_HAS(ErrorOf(WithLength(3, "{}")), "cut off");
}

TEST(Safetensors, RefusesHeadersThatAreNotAnObject) {
  for (const char* header : {"[]", "null", " {}", "\xef\xbb\xbf{}", "\"x\"", "7"}) {
    EXPECT_HAS(ErrorOf(File(header, 0)), "expected \"{\"");
  }
  EXPECT_HAS(ErrorOf(File(std::string(200000, '['), 0)), "expected \"{\"");
  EXPECT_HAS(ErrorOf(File("{\"a\":" + std::string(200000, '['), 0)), "nested deeper");
  EXPECT_HAS(ErrorOf(File("{\"\xff\":{}}", 0)), "not valid JSON");
  EXPECT_HAS(ErrorOf(File("{} x", 0)), "not valid JSON");
  EXPECT_HAS(ErrorOf(File("{\"a\":{}", 0)), "not valid JSON");
  const auto empty = ParseSafetensors(AsBytes(File("{}", 0)));
  ASSERT_TRUE(empty.ok()) << empty.message();
  EXPECT_TRUE(empty->empty());
}

TEST(Safetensors, RefusesOffsetsOfEveryWrongForm) {
  for (const char* offsets :
       {"[8,4]", "[0]", "[0,4,8]", "[-1,4]", "[0,1e3]", "[0,4.0]", "[\"0\",\"4\"]", "[]", "{}",
        "null", "4", "[0,18446744073709551615]", "[null,4]", "[true,4]"}) {
    const std::string error =
        ErrorOf(One(StrCat("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":", offsets), 4));
    EXPECT_HAS(error, "a.w");
    EXPECT_HAS(error, "data_offsets");
  }
  EXPECT_HAS(ErrorOf(One("\"dtype\":\"F32\",\"shape\":[1]", 4)), "\"data_offsets\" is missing");
}

TEST(Safetensors, RefusesShapesThatAreNotSizesOrOverflow) {
  for (const char* shape : {"[4294967296,4294967296,2]", "[-1]", "[1.5]", "[\"1\"]", "4", "null",
                            "[2305843009213693952]", "[9223372036854775807,9223372036854775807]",
                            "[2]", "[[1]]", "[1e0]"}) {
    const std::string error =
        ErrorOf(One(StrCat("\"dtype\":\"F32\",\"data_offsets\":[0,4],\"shape\":", shape), 4));
    EXPECT_HAS(error, "a.w");
    EXPECT_HAS(error, "hape");
  }
  EXPECT_HAS(ErrorOf(One("\"dtype\":\"F32\",\"data_offsets\":[0,4]", 4)), "\"shape\" is missing");
}

TEST(Safetensors, AcceptsScalarsAndEmptyTensors) {
  EXPECT_TRUE(
      ParseSafetensors(AsBytes(One("\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]", 4)))
          .ok());
  EXPECT_TRUE(
      ParseSafetensors(AsBytes(One("\"dtype\":\"F32\",\"shape\":[0,8],\"data_offsets\":[0,0]", 0)))
          .ok());
  const std::string middle =
      File(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
           R"("z":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[2,2]},)"
           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
           4);
  const auto tensors = ParseSafetensors(AsBytes(middle));
  EXPECT_TRUE(tensors.ok()) << tensors.message();
}

TEST(Safetensors, AnUnknownDtypeIsNamedButDoesNotSkipTheOffsetChecks) {
  const std::string error =
      ErrorOf(One("\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]", 4), Code::kUnsupported);
  EXPECT_HAS(error, "F99");
  EXPECT_HAS(error, "a.w");
  EXPECT_HAS(ErrorOf(One("\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[1152921504606846976,"
                         "1152921504606846980]",
                         4)),
             "out of range");
  EXPECT_HAS(ErrorOf(One("\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[2,4]", 4)),
             "belong to no tensor");
  EXPECT_HAS(ErrorOf(One("\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]", 4)), "\"dtype\"");
  EXPECT_HAS(
      ErrorOf(One("\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]", 4), Code::kUnsupported),
      "f32");
}

TEST(Safetensors, RefusesOverlapHolesTrailingBytesAndTheSameNameTwice) {
  const auto two = [](const char* second_name, const char* second_offsets, std::size_t bytes) {
    return File(StrCat(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},")", second_name,
                       R"(":{"dtype":"U8","shape":[4],"data_offsets":)", second_offsets, "}}"),
                bytes);
  };
  EXPECT_TRUE(ParseSafetensors(AsBytes(two("b", "[4,8]", 8))).ok());
  EXPECT_HAS(ErrorOf(two("b", "[2,6]", 6)), "overlaps tensor \"a\"");
  EXPECT_HAS(ErrorOf(two("b", "[0,4]", 4)), "overlaps");
  EXPECT_HAS(ErrorOf(two("b", "[5,9]", 9)), "tensor \"b\" begins at 5, expected 4");
  EXPECT_HAS(ErrorOf(two("b", "[4,8]", 9)), "trailing");
  EXPECT_HAS(ErrorOf(two("a", "[4,8]", 8)), "the key \"a\" appears twice");
  EXPECT_HAS(ErrorOf(File("{}", 1)), "trailing");
}

TEST(Safetensors, MetadataHoldsTextOnly) {
  EXPECT_HAS(ErrorOf(File(R"({"__metadata__":{"x":1}})", 0)), "__metadata__");
  EXPECT_HAS(ErrorOf(File(R"({"__metadata__":5})", 0)), "__metadata__");
  EXPECT_HAS(
      ErrorOf(File(R"({"__metadata__":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4)),
      "__metadata__");
}

TEST(Safetensors, SubByteTypesNeedWholeBytes) {
  EXPECT_HAS(ErrorOf(One("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]", 2)),
             "whole number of bytes");
  EXPECT_HAS(ErrorOf(One("\"dtype\":\"F6_E2M3\",\"shape\":[3],\"data_offsets\":[0,3]", 3)),
             "whole number of bytes");
  EXPECT_TRUE(
      ParseSafetensors(AsBytes(One("\"dtype\":\"F4\",\"shape\":[2,2],\"data_offsets\":[0,2]", 2)))
          .ok());
}

TEST(Safetensors, FilesThatAreSomethingElseAreNamed) {
  EXPECT_HAS(ErrorOf("version https://git-lfs.github.com/spec/v1\noid sha256:" +
                     std::string(64, 'a') + "\nsize 1234\n"),
             "Git LFS pointer");
  EXPECT_HAS(ErrorOf("<!doctype html><html></html>"), "web page");
  EXPECT_HAS(ErrorOf("\n <!DOCTYPE HTML PUBLIC>"), "web page");
  EXPECT_HAS(ErrorOf("<?xml version=\"1.0\"?><Error/>"), "web page");
  EXPECT_HAS(ErrorOf("Entry not found"), "text \"Entry no\"");
  EXPECT_HAS(ErrorOf(std::string("PK\x03\x04", 4) + std::string(40, 'x')), "pickle");
  EXPECT_HAS(ErrorOf("GGUF" + std::string(40, '\3')), "GGUF");
}

TEST(Safetensors, AFileCutInHalfSaysExpectedAndFoundSize) {
  const std::string file = One("\"dtype\":\"F32\",\"shape\":[100],\"data_offsets\":[0,400]", 400);
  for (std::size_t size = 0; size < file.size(); ++size) ErrorOf(file.substr(0, size));
  const std::string error = ErrorOf(file.substr(0, file.size() / 2));
  EXPECT_HAS(error, StrCat("expected a file of ", file.size(), " bytes, have ", file.size() / 2));
  EXPECT_HAS(error, "a.w");
}

TEST(Safetensors, TheExpectedSizeIsThatOfTheTensorThatEndsLast) {
  const std::string file = File(R"({"a":{"dtype":"U8","shape":[100],"data_offsets":[0,100]},)"
                                R"("b":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})",
                                16);
  EXPECT_HAS(ErrorOf(file), StrCat("expected a file of ", file.size() + 84, " bytes, have ",
                                   file.size(), " bytes"));
}

std::string Tensor(std::string_view name, std::size_t bytes = 4) {
  return File(StrCat("{\"", name, "\":{\"dtype\":\"U8\",\"shape\":[", bytes,
                     "],\"data_offsets\":[0,", bytes, "]}}"),
              bytes);
}

std::string OpenError(const std::string& folder, Code code) {
  const auto opened = OpenSafetensors(folder);
  EXPECT_FALSE(opened.ok());
  EXPECT_EQ(opened.code(), code) << opened.message();
  return std::string(opened.message());
}

TEST(SafetensorsFolder, OpensShardsAndSortsByName) {
  const TestFolder folder;
  folder.Write("s1.safetensors", Tensor("z"));
  folder.Write("s2.safetensors", Tensor("a", 8));
  folder.Write("model.safetensors.index.json",
               R"({"weight_map":{"z":"./s1.safetensors","a":"s2.safetensors"}})");
  const auto opened = OpenSafetensors(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_TRUE(opened->warnings.empty());
  ASSERT_EQ(opened->tensors.size(), 2U);
  EXPECT_EQ(opened->tensors[0].name, "a");
  ASSERT_NE(opened->Find("a"), nullptr);
  EXPECT_EQ(opened->Find("a")->data.size(), 8U);
  EXPECT_EQ(opened->files[opened->Find("a")->file]->path(), folder.path() + "/s2.safetensors");
  EXPECT_EQ(opened->Find("b"), nullptr);
}

TEST(SafetensorsFolder, RefusesAMissingShardAndATensorThatNoShardHas) {
  const TestFolder folder;
  folder.Write("s1.safetensors", Tensor("a"));
  folder.Write("model.safetensors.index.json",
               R"({"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})");
  EXPECT_HAS(OpenError(folder.path(), Code::kNotFound), "s2.safetensors");
  folder.Write("s2.safetensors", Tensor("c"));
  const std::string error = OpenError(folder.path(), Code::kDataLoss);
  EXPECT_HAS(error, "tensor \"b\"");
  EXPECT_HAS(error, "s2.safetensors");
}

TEST(SafetensorsFolder, ATensorInTwoShardsIsTakenFromWhereTheIndexSays) {
  const TestFolder folder;
  folder.Write("s1.safetensors", Tensor("a", 4));
  folder.Write("s2.safetensors", Tensor("a", 8));
  folder.Write("s3.safetensors", Tensor("b"));
  folder.Write(
      "model.safetensors.index.json",
      R"({"weight_map":{"a":"s2.safetensors","b":"s3.safetensors","x":"s1.safetensors"}})");
  EXPECT_HAS(OpenError(folder.path(), Code::kDataLoss), "tensor \"x\"");
  folder.Write("s1.safetensors", File(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                      R"("x":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})",
                                      5));
  const auto opened = OpenSafetensors(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_EQ(opened->Find("a")->data.size(), 8U);
  ASSERT_EQ(opened->warnings.size(), 1U);
  EXPECT_HAS(opened->warnings[0], "more than one shard");
}

TEST(SafetensorsFolder, RefusesShardPathsThatLeaveTheFolder) {
  for (const char* shard : {"../x.safetensors", "/etc/passwd", "a/../../x", "..", ".", "", "a/",
                            "..\\\\x.safetensors", "x\\u0000y"}) {
    const TestFolder folder;
    folder.Write("model.safetensors.index.json",
                 StrCat("{\"weight_map\":{\"a\":\"", shard, "\"}}"));
    EXPECT_HAS(OpenError(folder.path(), Code::kDataLoss), "outside the folder");
  }
}

TEST(SafetensorsFolder, RefusesAnIndexOfTheWrongForm) {
  const TestFolder folder;
  for (const char* index : {"[]", "{}", "{\"weight_map\":[]}", "{\"weight_map\":{}}",
                            "{\"weight_map\":{\"a\":1}}", "<!doctype html>", "\xff", ""}) {
    folder.Write("model.safetensors.index.json", index);
    EXPECT_HAS(OpenError(folder.path(), Code::kDataLoss), "model.safetensors.index.json");
  }
}

TEST(SafetensorsFolder, SaysWhatAFolderHoldsInstead) {
  const TestFolder folder;
  EXPECT_HAS(OpenError(folder.path(), Code::kNotFound), "model.safetensors");
  EXPECT_HAS(OpenError(folder.path() + "/absent", Code::kNotFound), "absent");
  folder.Write("pytorch_model.bin", "PK");
  EXPECT_HAS(OpenError(folder.path(), Code::kNotFound), "pickle");
  folder.Write("consolidated.safetensors", Tensor("a"));
  EXPECT_HAS(OpenError(folder.path(), Code::kNotFound), "consolidated.safetensors");
  folder.Write("a-model-00001-of-00002.safetensors", Tensor("a"));
  EXPECT_HAS(OpenError(folder.path(), Code::kNotFound),
             "a shard: download model.safetensors.index.json, too");
  folder.Write("adapter_model.safetensors", Tensor("a"));
  EXPECT_HAS(OpenError(folder.path(), Code::kNotFound), "LoRA adapter");
  folder.Write("model.safetensors", File("{}", 0));
  EXPECT_HAS(OpenError(folder.path(), Code::kDataLoss), "lists no tensor");
}

std::string Golden(const std::string& name) {
  return std::string(HONE_SHARED_DATA) + "/golden/" + name;
}

TEST(SafetensorsGolden, ReadsWholeAndShardedCheckpoints) {
  for (const char* name :
       {"bad/00-control-ok", "families/llama-gqa8/hf", "families/llama-sharded/hf"}) {
    const auto opened = OpenSafetensors(Golden(name));
    ASSERT_TRUE(opened.ok()) << opened.message();
    EXPECT_TRUE(opened->warnings.empty());
    ASSERT_NE(opened->Find("model.embed_tokens.weight"), nullptr) << name;
  }
}

TEST(SafetensorsGolden, BadFilesAreNamedInOneSentence) {
  struct Case {
    const char* name;
    Code code;
    std::vector<const char*> words;
  };
  const char* tensor = "model.layers.1.mlp.down_proj.weight";
  const Case cases[] = {
      {"truncated-header", Code::kDataLoss, {"header", "model.safetensors"}},
      {"empty-file", Code::kDataLoss, {"empty", "model.safetensors"}},
      {"header-huge-length", Code::kDataLoss, {"header", "4611686018427387904"}},
      {"offsets-out-of-range", Code::kDataLoss, {tensor, "out of range"}},
      {"shape-bytes-mismatch", Code::kDataLoss, {tensor, "[16, 33]"}},
      {"negative-dim", Code::kDataLoss, {tensor, "-16"}},
      {"not-safetensors", Code::kDataLoss, {"not a safetensors file", "web page"}},
      {"pickle-only", Code::kNotFound, {"safetensors", "pickle"}},
      {"dtype-unknown", Code::kUnsupported, {tensor, "Q4_K"}},
      {"index-path-escape", Code::kDataLoss, {"../", "outside"}},
      {"index-bad-json", Code::kDataLoss, {"index.json"}},
  };
  for (const Case& c : cases) {
    const std::string error = OpenError(Golden(std::string("bad/") + c.name), c.code);
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    for (const char* word : c.words) EXPECT_HAS(error, word);
  }
}

TEST(SafetensorsGolden, ATensorInAnotherShardIsFoundAndSaid) {
  const auto opened = OpenSafetensors(Golden("bad/index-wrong-shard"));
  ASSERT_TRUE(opened.ok()) << opened.message();
  ASSERT_EQ(opened->warnings.size(), 1U);
  EXPECT_HAS(opened->warnings[0], "model.layers.1.mlp.down_proj.weight");
  EXPECT_HAS(opened->warnings[0], "model-00002-of-00002.safetensors");
}

}  // namespace
}  // namespace hone::formats
