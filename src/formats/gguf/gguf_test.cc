// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf/gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "formats/gguf/gguf_test_builder.h"

namespace hone::formats {
namespace {

using testing::GgufBuilder;

#define EXPECT_HAS(text, word) \
  EXPECT_NE(std::string(text).find(word), std::string::npos) << std::string(text)

std::string ErrorOf(std::string_view bytes, Code code = Code::kDataLoss) {
  const auto file = GgufFile::Parse(AsBytes(bytes), "x.gguf");
  EXPECT_FALSE(file.ok());
  EXPECT_EQ(file.code(), code) << file.message();
  EXPECT_EQ(file.message().substr(0, 7), "x.gguf:") << file.message();
  return std::string(file.message());
}

TEST(Gguf, ReadsEveryMetadataTypeInBothVersions) {
  for (const std::uint32_t version : {2U, 3U}) {
    const std::string bytes = GgufBuilder(version)
                                  .Scalar<std::uint8_t>("u8", 0, 200)
                                  .Scalar<std::int8_t>("i8", 1, -3)
                                  .Scalar<std::uint16_t>("u16", 2, 60000)
                                  .Scalar<std::int16_t>("i16", 3, -300)
                                  .U32("u32", 4000000000U)
                                  .Scalar<std::int32_t>("i32", 5, -70000)
                                  .F32("f32", 0.5F)
                                  .Bool("yes", true)
                                  .String("text", "caf\xc3\xa9")
                                  .Scalar<std::uint64_t>("u64", 10, 1ULL << 40)
                                  .Scalar<std::int64_t>("i64", 11, -(1LL << 40))
                                  .Scalar<double>("f64", 12, 0.25)
                                  .Strings("strings", {"a", "", "bc"})
                                  .Array<std::int16_t>("ints", 3, {1, -2})
                                  .Array<float>("floats", 6, {1.5F})
                                  .Array<std::uint8_t>("bools", 7, {1, 0})
                                  .Bytes();
    const auto parsed = GgufFile::Parse(AsBytes(bytes), "x.gguf");
    ASSERT_TRUE(parsed.ok()) << parsed.message();
    const GgufFile& file = **parsed;
    EXPECT_EQ(file.metadata().size(), 16U);
    EXPECT_EQ(*file.GetInt("u8"), 200);
    EXPECT_EQ(*file.GetInt("i8"), -3);
    EXPECT_EQ(*file.GetInt("u16"), 60000);
    EXPECT_EQ(*file.GetInt("i16"), -300);
    EXPECT_EQ(*file.GetInt("u32"), 4000000000LL);
    EXPECT_EQ(*file.GetInt("i32"), -70000);
    EXPECT_EQ(*file.GetDouble("f32"), 0.5);
    EXPECT_EQ(std::get<bool>(*file.Find("yes")), true);
    EXPECT_EQ(*file.GetString("text"), "caf\xc3\xa9");
    EXPECT_EQ(*file.GetInt("u64"), 1LL << 40);
    EXPECT_EQ(*file.GetInt("i64"), -(1LL << 40));
    EXPECT_EQ(*file.GetDouble("f64"), 0.25);
    EXPECT_EQ(*file.GetDouble("u8"), 200.0);
    EXPECT_EQ((*file.GetArray("strings"))->strings, (std::vector<std::string_view>{"a", "", "bc"}));
    EXPECT_EQ((*file.GetArray("ints"))->ints, (std::vector<std::int64_t>{1, -2}));
    EXPECT_EQ((*file.GetArray("floats"))->floats, std::vector<double>{1.5});
    EXPECT_EQ((*file.GetArray("bools"))->bools, (std::vector<bool>{true, false}));
  }
}

TEST(Gguf, TypedValuesNameFileKeyFoundAndExpected) {
  const std::string bytes = GgufBuilder().U32("n", 1).String("s", "x").Bytes();
  const auto file = GgufFile::Parse(AsBytes(bytes), "x.gguf");
  ASSERT_TRUE(file.ok());
  const auto wrong = (*file)->GetInt("s");
  EXPECT_EQ(wrong.code(), Code::kInvalidArgument);
  EXPECT_EQ(wrong.message(), "x.gguf: metadata \"s\" is text, expected an integer");
  const auto missing = (*file)->GetArray("none");
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_EQ(missing.message(), "x.gguf: metadata \"none\" is missing, expected an array");
  EXPECT_EQ((*file)->GetString("n").code(), Code::kInvalidArgument);
  EXPECT_EQ((*file)->GetDouble("s").code(), Code::kInvalidArgument);
}

TEST(Gguf, TensorsHaveTheirRowsFirst) {
  const std::string bytes = GgufBuilder()
                                .Tensor("w", 8, {64, 2}, 0)  // 2 rows of 2 blocks of 34 bytes
                                .Tensor("b", 0, {3}, 160)
                                .Tensor("none", 0, {0, 5}, 160)
                                .Bytes(172);
  const auto file = GgufFile::Parse(AsBytes(bytes), "x.gguf");
  ASSERT_TRUE(file.ok()) << file.message();
  const GgufTensor* w = (*file)->FindTensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->shape, (std::vector<std::int64_t>{2, 64}));
  EXPECT_EQ(w->data.size(), 136U);
  EXPECT_EQ(GgmlTypeName(w->type), "Q8_0");
  EXPECT_EQ((*file)->FindTensor("b")->data.size(), 12U);
  EXPECT_TRUE((*file)->FindTensor("none")->data.empty());
  EXPECT_EQ((*file)->FindTensor("x"), nullptr);
}

TEST(Gguf, TheAlignmentOfTheFileCounts) {
  GgufBuilder builder;
  builder.U32("general.alignment", 64).Tensor("w", 24, {1}, 64);
  const std::string bytes = builder.Bytes(65, 64);
  const auto file = GgufFile::Parse(AsBytes(bytes), "x.gguf");
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_EQ((*file)->FindTensor("w")->data.data(), AsBytes(bytes).data() + bytes.size() - 1);
  for (const std::uint32_t alignment : {0U, 3U, 48U, 1U << 30}) {
    EXPECT_HAS(ErrorOf(GgufBuilder().U32("general.alignment", alignment).Bytes()),
               "general.alignment");
  }
  EXPECT_HAS(ErrorOf(GgufBuilder().String("general.alignment", "32").Bytes()), "general.alignment");
}

TEST(Gguf, RefusesWhatIsNotAGgufFileByName) {
  EXPECT_HAS(ErrorOf(""), "not a GGUF file");
  EXPECT_HAS(ErrorOf("GGUF"), "version");
  EXPECT_HAS(ErrorOf("<html></html>"), "web page");
  EXPECT_HAS(ErrorOf("version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer");
  EXPECT_HAS(ErrorOf(GgufBuilder(1).Bytes(), Code::kUnsupported), "version 1");
  EXPECT_HAS(ErrorOf(GgufBuilder(4).Bytes(), Code::kUnsupported), "version 4");
  EXPECT_HAS(ErrorOf(GgufBuilder(0x03000000).Bytes(), Code::kUnsupported), "big-endian");
}

TEST(Gguf, EveryCutOfAFileIsRefused) {
  const std::string bytes = GgufBuilder()
                                .U32("n", 1)
                                .Strings("s", {"a", "b"})
                                .Array<float>("f", 6, {1, 2})
                                .Tensor("w", 0, {4, 2}, 0)
                                .Bytes(32);
  ASSERT_TRUE(GgufFile::Parse(AsBytes(bytes), "x.gguf").ok());
  for (std::size_t size = 0; size < bytes.size(); ++size) ErrorOf(bytes.substr(0, size));
  const std::string error = ErrorOf(bytes.substr(0, bytes.size() - 16));
  EXPECT_HAS(error, "tensor \"w\"");
  EXPECT_HAS(error, StrCat("at least ", bytes.size(), " bytes, have ", bytes.size() - 16));
}

TEST(Gguf, HugeCountsAreRefusedWithoutAllocation) {
  const auto with_counts = [](std::uint64_t tensors, std::uint64_t pairs) {
    std::string out = "GGUF";
    GgufBuilder::Put<std::uint32_t>(out, 3);
    GgufBuilder::Put(out, tensors);
    GgufBuilder::Put(out, pairs);
    return out + std::string(100, '\0');
  };
  EXPECT_HAS(ErrorOf(with_counts(1ULL << 62, 0)), "tensor count");
  EXPECT_HAS(ErrorOf(with_counts(~0ULL, 0)), "tensor count");
  EXPECT_HAS(ErrorOf(with_counts(0, ~0ULL)), "metadata count");
  EXPECT_HAS(ErrorOf(with_counts(0, 8)), "metadata count");

  const auto with_array = [](std::uint32_t type, std::uint64_t count) {
    std::string value;
    GgufBuilder::Put(value, type);
    GgufBuilder::Put(value, count);
    std::string out = "GGUF";
    GgufBuilder::Put<std::uint32_t>(out, 3);
    GgufBuilder::Put<std::uint64_t>(out, 0);
    GgufBuilder::Put<std::uint64_t>(out, 1);
    GgufBuilder::PutString(out, "a");
    GgufBuilder::Put<std::uint32_t>(out, 9);
    return out + value + std::string(64, '\0');
  };
  for (const std::uint32_t type : {0U, 4U, 6U, 7U, 8U, 10U, 12U}) {
    for (const std::uint64_t count : {~0ULL, 1ULL << 61, 65ULL}) {
      EXPECT_HAS(ErrorOf(with_array(type, count)), "element count");
    }
  }
  EXPECT_HAS(ErrorOf(with_array(9, 1), Code::kUnsupported), "arrays of arrays");
  EXPECT_HAS(
      ErrorOf(with_array(0, (1U << 24) + 1) + std::string(1U << 24, '\0'), Code::kUnsupported),
      "at most 16777216");
  EXPECT_HAS(ErrorOf(with_array(13, 1)), "element type is 13");
}

TEST(Gguf, RefusesDamagedMetadata) {
  EXPECT_HAS(ErrorOf(GgufBuilder().U32("n", 1).U32("n", 1).Bytes()), "\"n\" appears twice");
  EXPECT_HAS(ErrorOf(GgufBuilder().U32("", 1).Bytes()), "empty");
  EXPECT_HAS(ErrorOf(GgufBuilder().U32("\xff", 1).Bytes()), "not UTF-8");
  EXPECT_HAS(ErrorOf(GgufBuilder().Scalar<std::uint8_t>("b", 7, 2).Bytes()), "boolean is 2");
  EXPECT_HAS(ErrorOf(GgufBuilder().Scalar<std::uint32_t>("t", 13, 2).Bytes()), "value type is 13");
  EXPECT_HAS(
      ErrorOf(GgufBuilder().Scalar<std::uint64_t>("u", 10, ~0ULL).Bytes(), Code::kUnsupported),
      "\"u\"");
  std::string long_string = GgufBuilder().String("s", "abc").Bytes();
  long_string[long_string.size() - 11 + 7] = '\x7f';  // the top byte of its length
  EXPECT_HAS(ErrorOf(long_string), "text at byte");
}

TEST(Gguf, RefusesTensorsOutOfRangeByName) {
  const auto error = [](std::uint32_t type, const std::vector<std::uint64_t>& dims,
                        std::uint64_t offset, Code code = Code::kDataLoss) {
    const std::string text =
        ErrorOf(GgufBuilder().Tensor("blk.w", type, dims, offset).Bytes(64), code);
    EXPECT_HAS(text, "blk.w");
    return text;
  };
  EXPECT_HAS(error(0, {17}, 0), "68 bytes");
  EXPECT_HAS(error(0, {1}, 96), "past the end");
  EXPECT_HAS(error(0, {1}, ~0ULL - 31), "past the end");
  EXPECT_HAS(error(0, {1}, 4), "alignment");
  EXPECT_HAS(error(0, {1ULL << 32, 1ULL << 32, 2}, 0), "overflows");
  EXPECT_HAS(error(0, {1ULL << 62}, 0), "overflows");
  EXPECT_HAS(error(0, {~0ULL}, 0), "dimension");
  EXPECT_HAS(error(0, {1, 1, 1, 1, 1}, 0), "5 dimensions");
  EXPECT_HAS(error(2, {33}, 0), "blocks of 32");
  EXPECT_HAS(error(99, {1}, 0, Code::kUnsupported), "type 99");
  EXPECT_HAS(error(31, {32}, 0, Code::kUnsupported), "Q4_0_4_4");
  EXPECT_HAS(error(99, {1}, 1ULL << 60), "past the end");
  EXPECT_EQ(GgmlTypeName(99), "type 99");
  EXPECT_EQ(GgmlTypeName(3), "Q4_1");
}

TEST(Gguf, RefusesTensorsThatOverlapOrShareAName) {
  EXPECT_HAS(ErrorOf(GgufBuilder().Tensor("a", 0, {9}, 0).Tensor("b", 0, {1}, 32).Bytes(64)),
             "\"a\" and \"b\" overlap");
  EXPECT_HAS(ErrorOf(GgufBuilder().Tensor("a", 0, {1}, 0).Tensor("a", 0, {1}, 32).Bytes(64)),
             "\"a\" appears twice");
}

TEST(Gguf, OpensAFileAndKeepsItMapped) {
  const std::string path =
      (std::filesystem::temp_directory_path() / StrCat("hone_gguf_", ::getpid(), ".gguf")).string();
  {
    std::ofstream out(path, std::ios::binary);
    out << GgufBuilder().String("s", "kept").Tensor("w", 24, {2}, 0).Bytes(2);
  }
  auto file = GgufFile::Open(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_EQ((*file)->path(), path);
  EXPECT_EQ(*(*file)->GetString("s"), "kept");
  EXPECT_EQ((*file)->FindTensor("w")->data[1], std::byte{1});
  EXPECT_EQ(GgufFile::Open(path).code(), Code::kNotFound);
}

}  // namespace
}  // namespace hone::formats
