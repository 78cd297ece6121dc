// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/litertlm/litertlm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "formats/litertlm/llm_metadata.h"
#include "formats/tflite/tflite.h"

namespace hone::formats::litertlm {
namespace {

// A file with the given sections, zero-filled up to size.
std::vector<std::byte> MakeFile(const Header& header, std::size_t size) {
  auto head = EncodeHeader(header);
  if (!head.ok()) {
    ADD_FAILURE() << head.message();
    return {};
  }
  head->resize(std::max(size, head->size()));
  return *std::move(head);
}

Header TwoSections() {
  Header header;
  header.system = {{"Authors", "me", 9}, {"count", "300", 5}, {"share", "0.25", 7},
                   {"on", "true", 8},    {"zero", "0", 11},   {"text", "", 9}};
  Section metadata;
  metadata.type = SectionType::kLlmMetadata;
  metadata.begin = 16384;
  metadata.end = 16400;
  Section model;
  model.type = SectionType::kTfliteModel;
  model.items = {{"model_type", "tf_lite_embedder", 9},
                 {"Model_Type", "x", 9},
                 {"model_type", "TF_Lite_Embedder", 9}};
  model.begin = 32768;
  model.end = 32800;
  header.sections = {metadata, model};
  return header;
}

std::string ErrorOf(const std::vector<std::byte>& bytes) {
  const auto header = ParseHeader(bytes, nullptr);
  return header.ok() ? "no error" : std::string(header.message());
}

template <typename N>
void Put(std::vector<std::byte>& bytes, std::size_t at, N value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

TEST(Litertlm, GoldenBundlesOpenWithAllTheirSections) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::filesystem::path(HONE_SHARED_DATA) / "golden/bundles")) {
    if (entry.path().extension() != ".litertlm") continue;
    ++files;
    const auto bundle = Bundle::Open(entry.path());
    ASSERT_TRUE(bundle.ok()) << bundle.message();
    EXPECT_TRUE((*bundle)->warnings().empty()) << (*bundle)->warnings()[0];
    const Section* metadata = (*bundle)->Find(SectionType::kLlmMetadata);
    ASSERT_NE(metadata, nullptr);
    EXPECT_TRUE(ParseLlmMetadata((*bundle)->SectionBytes(*metadata)).ok());
    const Section* tokenizer = (*bundle)->Find(SectionType::kHfTokenizerZlib);
    ASSERT_NE(tokenizer, nullptr);
    const auto text = InflateTokenizer((*bundle)->SectionBytes(*tokenizer));
    ASSERT_TRUE(text.ok()) << text.message();
    EXPECT_TRUE(text->starts_with("{"));
    for (const char* type : {"tf_lite_prefill_decode", "tf_lite_embedder"}) {
      const Section* model = (*bundle)->Find(SectionType::kTfliteModel, type);
      ASSERT_NE(model, nullptr) << type;
      const auto read = tflite::ReadModel((*bundle)->SectionBytes(*model));
      EXPECT_TRUE(read.ok()) << entry.path() << ": " << read.message();
    }
    EXPECT_EQ((*bundle)->Find(SectionType::kTfliteModel, "tf_lite_aux"), nullptr);
  }
  EXPECT_EQ(files, 7);
}

TEST(Litertlm, HeadersReadBackAsWritten) {
  const Header header = TwoSections();
  std::vector<std::string> warnings;
  const auto read = ParseHeader(MakeFile(header, 32800), &warnings);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_TRUE(warnings.empty());
  ASSERT_EQ(read->system.size(), header.system.size());
  for (std::size_t i = 0; i < header.system.size(); ++i) {
    EXPECT_EQ(read->system[i].key, header.system[i].key);
    EXPECT_EQ(read->system[i].value, header.system[i].value) << header.system[i].key;
    EXPECT_EQ(read->system[i].value_type, header.system[i].value_type);
  }
  ASSERT_EQ(read->sections.size(), 2u);
  EXPECT_EQ(read->sections[1].begin, 32768u);
  EXPECT_EQ(read->sections[1].end, 32800u);
  EXPECT_EQ(read->sections[1].Item("model_type"), "TF_Lite_Embedder");
  EXPECT_EQ(read->sections[1].Item("absent"), "");
}

TEST(Litertlm, GoldenHeadersEncodeToTheSameSections) {
  const auto bundle =
      Bundle::Open(StrCat(HONE_SHARED_DATA, "/golden/bundles/tiny-llama-wi8/model.litertlm"));
  ASSERT_TRUE(bundle.ok()) << bundle.message();
  const std::vector<std::byte> bytes =
      MakeFile((*bundle)->header(), (*bundle)->map().bytes().size());
  const auto again = ParseHeader(bytes, nullptr);
  ASSERT_TRUE(again.ok()) << again.message();
  ASSERT_EQ(again->sections.size(), (*bundle)->header().sections.size());
  for (std::size_t i = 0; i < again->sections.size(); ++i) {
    EXPECT_EQ(again->sections[i].begin, (*bundle)->header().sections[i].begin);
    EXPECT_EQ(again->sections[i].end, (*bundle)->header().sections[i].end);
    EXPECT_EQ(again->sections[i].items.size(), (*bundle)->header().sections[i].items.size());
  }
}

TEST(Litertlm, ForeignFilesAreNamedAsWhatTheyAre) {
  const auto error = [](std::string_view text) {
    const ByteSpan bytes = AsBytes(text);
    return ErrorOf({bytes.begin(), bytes.end()});
  };
  EXPECT_NE(error("").find("empty"), std::string::npos);
  EXPECT_NE(error("LITERTL").find("cut off: it has 7 bytes"), std::string::npos);
  EXPECT_NE(error("LITERTLM\1").find("cut off: it has 9 bytes"), std::string::npos);
  EXPECT_NE(error("LITERTLN then more").find("begins with 'LITERTLN'"), std::string::npos);
  EXPECT_NE(error("version https://git-lfs.github.com/spec/v1\noid").find("Git LFS"),
            std::string::npos);
  EXPECT_NE(error("\n <!DOCTYPE html><html>").find("web page"), std::string::npos);
  EXPECT_NE(error("GGUF\3").find("GGUF"), std::string::npos);
  EXPECT_NE(error("1234TFL3").find("bare TFLite"), std::string::npos);
}

TEST(Litertlm, VersionsAndHeaderEndAreChecked) {
  const std::vector<std::byte> good = MakeFile(TwoSections(), 32800);
  auto bytes = good;
  Put<std::uint32_t>(bytes, 8, 2);
  EXPECT_EQ(ParseHeader(bytes, nullptr).code(), Code::kUnsupported);
  bytes = good;
  Put<std::uint32_t>(bytes, 12, 99);
  std::vector<std::string> warnings;
  EXPECT_TRUE(ParseHeader(bytes, &warnings).ok());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("1.99 is newer"), std::string::npos);
  for (const std::uint64_t end : {0ULL, 31ULL, 32ULL, 1ULL << 63, 32801ULL, ~0ULL}) {
    bytes = good;
    Put<std::uint64_t>(bytes, 24, end);
    EXPECT_NE(ErrorOf(bytes).find("the header ends at"), std::string::npos) << end;
  }
  bytes = good;
  std::memset(bytes.data() + 32, 0x5a, 200);
  EXPECT_NE(ErrorOf(bytes).find("tables"), std::string::npos);
}

TEST(Litertlm, SectionsMustLieInTheFileInOrder) {
  const auto error = [](auto change) {
    Header header = TwoSections();
    change(header.sections);
    return ErrorOf(MakeFile(header, 32800));
  };
  EXPECT_EQ(error([](auto& s) { s[1].end = 32801; }),
            "section 1 (TFLiteModel): ends at 32801, but the file has 32800 bytes; it is cut off, "
            "download or copy it again");
  EXPECT_NE(error([](auto& s) { s[1].end = 32767; }).find("begins at 32768 but ends at 32767"),
            std::string::npos);
  EXPECT_NE(error([](auto& s) { s[1].begin = 16390; }).find("inside what ends at 16400"),
            std::string::npos);
  EXPECT_NE(error([](auto& s) { std::swap(s[0], s[1]); }).find("inside"), std::string::npos);
  EXPECT_NE(error([](auto& s) { s[0].begin = 40; }).find("inside what ends at"), std::string::npos);
  EXPECT_NE(error([](auto& s) { s[1].end = ~0ULL; }).find("ends at 18446744073709551615"),
            std::string::npos);
}

TEST(Litertlm, OddSectionsAreKeptWithAWarning) {
  Header header = TwoSections();
  header.sections[0].type = static_cast<SectionType>(42);
  header.sections[0].end = header.sections[0].begin;
  header.sections[1].begin += 8;
  Section second = header.sections[1];
  second.begin = 49152;
  second.end = 49160;
  header.sections.push_back(second);
  std::vector<std::string> warnings;
  const auto read = ParseHeader(MakeFile(header, 49160), &warnings);
  ASSERT_TRUE(read.ok()) << read.message();
  ASSERT_EQ(warnings.size(), 4u);
  EXPECT_NE(warnings[0].find("section 0 (section type 42): is empty"), std::string::npos);
  EXPECT_NE(warnings[1].find("unknown"), std::string::npos);
  EXPECT_NE(warnings[2].find("not at a multiple of 16384"), std::string::npos);
  EXPECT_NE(warnings[3].find("there is one already, section 1"), std::string::npos);
}

TEST(Litertlm, HeadersOver16KiBAreNotWritten) {
  Header header = TwoSections();
  header.system.push_back({"long", std::string(16384, 'x'), 9});
  const auto head = EncodeHeader(header);
  ASSERT_FALSE(head.ok());
  EXPECT_EQ(head.code(), Code::kUnsupported);
}

TEST(Litertlm, ValuesThatAreNotOfTheirTypeAreNotWritten) {
  for (const KeyValue& bad : {KeyValue{"k", "x", 5}, KeyValue{"k", "300", 1},
                              KeyValue{"k", "1", 99}, KeyValue{"k", "yes", 8}}) {
    Header header = TwoSections();
    header.system = {bad};
    EXPECT_EQ(EncodeHeader(header).code(), Code::kInvalidArgument) << bad.value;
  }
}

TEST(Litertlm, NumbersStoredAsStructsAreReadToo) {
  // An older writer's value is the bare number where a newer one puts a table: turn the table of
  // "count" into that.
  Header header;
  header.system = {{"count", "300", 5}};
  std::vector<std::byte> bytes = MakeFile(header, 0);
  // The table holds the offset of its vtable and, 4 bytes on, the number.
  bool found = false;
  for (std::size_t at = 32; at + 4 <= bytes.size(); at += 4) {
    if (*ReadLe<std::uint32_t>(bytes, at) != 300) continue;
    Put<std::uint32_t>(bytes, at - 4, 300);
    Put<std::uint32_t>(bytes, at, 0xffffffff);
    found = true;
  }
  ASSERT_TRUE(found);
  const auto read = ParseHeader(bytes, nullptr);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->system.at(0).value, "300");
}

TEST(Litertlm, TokenizersSurviveDeflateAndInflate) {
  std::string text;
  for (int i = 0; i < 400000; ++i) text += std::to_string(i % 1000);
  ASSERT_GT(text.size(), 1U << 20);  // more than one step of the reader
  const std::vector<std::byte> packed = DeflateTokenizer(text);
  EXPECT_EQ(packed, DeflateTokenizer(text));
  EXPECT_LT(packed.size(), text.size());
  EXPECT_EQ(ReadLe<std::uint64_t>(packed, 0), text.size());
  const auto back = InflateTokenizer(packed);
  ASSERT_TRUE(back.ok()) << back.message();
  EXPECT_EQ(*back, text);
  const auto empty = InflateTokenizer(DeflateTokenizer(""));
  ASSERT_TRUE(empty.ok()) << empty.message();
  EXPECT_EQ(*empty, "");
}

TEST(Litertlm, TokenizerSizesThatLieAreRefused) {
  const std::vector<std::byte> good = DeflateTokenizer("hello hello hello");
  const auto error = [&good](std::uint64_t declared, std::size_t cut) {
    auto bytes = good;
    Put(bytes, 0, declared);
    bytes.resize(bytes.size() - cut);
    const auto text = InflateTokenizer(bytes);
    return text.ok() ? "no error" : std::string(text.message());
  };
  EXPECT_EQ(error(17, 0), "no error");
  EXPECT_NE(error(1ULL << 40, 0).find("at most"), std::string::npos);
  EXPECT_NE(error(1ULL << 27, 0).find("are stored"), std::string::npos);
  EXPECT_NE(error(16, 0).find("holds more than the 16"), std::string::npos);
  EXPECT_NE(error(0, 0).find("holds more"), std::string::npos);
  EXPECT_NE(error(18, 0).find("declares 18 bytes but holds 17"), std::string::npos);
  EXPECT_NE(error(17, 6).find("cut off"), std::string::npos);
  EXPECT_FALSE(InflateTokenizer(ByteSpan(good).first(7)).ok());
  EXPECT_FALSE(InflateTokenizer(ByteSpan(good).first(8)).ok());
  EXPECT_NE(InflateTokenizer(good, 16).message().find("at most 16"), std::string::npos);
}

}  // namespace
}  // namespace hone::formats::litertlm
