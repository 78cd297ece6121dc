// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/pack.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/test_folder.h"
#include "bundle/unpack.h"
#include "exporter/bundle_writer.h"

namespace hone::bundle {
namespace {

namespace fs = std::filesystem;
namespace litertlm = formats::litertlm;
using litertlm::SectionType;

class Pack : public ::testing::Test {
 protected:
  std::string Path(std::string_view name) const { return folder_.File(name); }
  void Put(std::string_view name, std::string_view text) const {
    ASSERT_TRUE(WriteFileAtomic(Path(name), AsBytes(text)).ok());
  }
  std::string Get(std::string_view name) const {
    auto text = ReadFile(Path(name));
    EXPECT_TRUE(text.ok()) << text.message();
    return text.ok() ? *std::move(text) : "";
  }
  // A bundle with these sections.
  void Write(std::string_view name,
             const std::vector<std::pair<litertlm::Section, std::string>>& sections,
             std::vector<litertlm::KeyValue> system = {}) const {
    auto writer = exporter::BundleWriter::Create(Path(name));
    ASSERT_TRUE(writer.ok());
    for (const auto& [section, bytes] : sections) {
      ASSERT_TRUE(writer->Begin(section.type, section.items).ok());
      ASSERT_TRUE(writer->Append(AsBytes(bytes)).ok());
      writer->End();
    }
    ASSERT_TRUE(writer->Finish(std::move(system)).ok());
  }
  UnpackReport Unpack(const std::string& bundle, std::string_view folder,
                      const UnpackOptions& options = {}) const {
    const auto open = litertlm::Bundle::Open(bundle);
    EXPECT_TRUE(open.ok()) << open.message();
    if (!open.ok()) return {};
    auto report = UnpackBundle(**open, Path(folder), options);
    EXPECT_TRUE(report.ok()) << report.message();
    return report.ok() ? *std::move(report) : UnpackReport();
  }

  TestFolder folder_;
};

litertlm::Section MakeSection(SectionType type, std::vector<litertlm::KeyValue> items = {}) {
  litertlm::Section section;
  section.type = type;
  section.items = std::move(items);
  return section;
}

TEST_F(Pack, AGoldenBundleComesBackSectionForSection) {
  const std::string golden =
      StrCat(HONE_SHARED_DATA, "/golden/bundles/tiny-llama-wi8/model.litertlm");
  const UnpackReport unpacked = Unpack(golden, "dir");
  EXPECT_TRUE(unpacked.warnings.empty());
  EXPECT_EQ(unpacked.files.back(), "model.toml");
  EXPECT_TRUE(FileExists(Path("dir/LlmMetadataProto.pbtext")));
  EXPECT_TRUE(FileExists(Path("dir/ExecutorMetadataProto.pbtext")));
  const auto packed = PackBundle(Path("dir"), Path("out.litertlm"));
  ASSERT_TRUE(packed.ok()) << packed.message();
  const auto before = litertlm::Bundle::Open(golden);
  const auto after = litertlm::Bundle::Open(Path("out.litertlm"));
  ASSERT_TRUE(after.ok());
  ASSERT_EQ((*before)->header().sections.size(), (*after)->header().sections.size());
  for (std::size_t i = 0; i < (*before)->header().sections.size(); ++i) {
    const litertlm::Section& a = (*before)->header().sections[i];
    const litertlm::Section& b = (*after)->header().sections[i];
    EXPECT_EQ(a.type, b.type);
    EXPECT_EQ(AsText((*before)->SectionBytes(a)), AsText((*after)->SectionBytes(b))) << i;
    ASSERT_EQ(a.items.size(), b.items.size());
    for (std::size_t k = 0; k < a.items.size(); ++k) EXPECT_EQ(a.items[k].value, b.items[k].value);
  }
  ASSERT_EQ((*before)->header().system.size(), (*after)->header().system.size());
  // And a file in our own form comes back bit for bit.
  Unpack(Path("out.litertlm"), "again");
  ASSERT_TRUE(PackBundle(Path("again/model.toml"), Path("third.litertlm")).ok());
  EXPECT_EQ(Get("out.litertlm"), Get("third.litertlm"));
}

TEST_F(Pack, EveryKindOfSectionAndMetadataSurvives) {
  const litertlm::KeyValue number{.key = "n", .value = "-5", .value_type = 6};
  Write("in.litertlm",
        {{MakeSection(SectionType::kLlmMetadata, {number}), "\x12\x05\x0a\x03\x0a\x01\x02"},
         {MakeSection(SectionType::kEmbeddingMetadata), "\x28\x07"},
         {MakeSection(SectionType::kTfliteModel,
                      {{.key = "model_type", .value = "tf_lite_embedder"},
                       {.key = "backend_constraint", .value = "cpu"},
                       {.key = "prefer_activation_type", .value = "fp32"}}),
          "model"},
         {MakeSection(SectionType::kTfliteWeights,
                      {{.key = "model_type", .value = "tf_lite_embedder"}}),
          "weights"},
         {MakeSection(SectionType::kSpTokenizer), "spiece"},
         {MakeSection(SectionType::kTtsMetadata), "tts"},
         {MakeSection(static_cast<SectionType>(42)), "new"},
         {MakeSection(SectionType::kGenericBinaryData, {{.key = "name", .value = "x"}}), ""}},
        {number, {.key = "b", .value = "true", .value_type = 8}});
  const UnpackReport report = Unpack(Path("in.litertlm"), "dir");
  EXPECT_EQ(report.warnings.size(), 2u);  // two types that the builder does not pack
  for (const char* name : {"Section2_TFLiteModel_tf_lite_embedder.tflite",
                           "Section3_TFLiteWeights_tf_lite_embedder.weight",
                           "Section4_SP_Tokenizer.spiece", "Section5_TtsMetadataProto.bin",
                           "Section7_GenericBinaryData.bin", "EmbeddingMetadataProto.pbtext"}) {
    EXPECT_TRUE(FileExists(Path(StrCat("dir/", name)))) << name;
  }
  const auto packed = PackBundle(Path("dir"), Path("out.litertlm"));
  ASSERT_TRUE(packed.ok()) << packed.message();
  EXPECT_EQ(Get("in.litertlm"), Get("out.litertlm"));
}

TEST_F(Pack, AMessageThatTextCannotCarryIsKeptAsBytes) {
  // Field 202 has no name.
  const std::string odd = std::string("\x12\x05\x0a\x03\x0a\x01\x02", 7) + "\xd2\x0c\x01x";
  Write("in.litertlm", {{MakeSection(SectionType::kLlmMetadata), odd},
                        {MakeSection(SectionType::kExecutorMetadata), "\xff"}});
  const UnpackReport report = Unpack(Path("in.litertlm"), "dir");
  ASSERT_EQ(report.warnings.size(), 2u);
  EXPECT_NE(report.warnings[0].find("LlmMetadataProto.pb;"), std::string::npos)
      << report.warnings[0];
  EXPECT_TRUE(FileExists(Path("dir/LlmMetadataProto.pbtext")));
  EXPECT_EQ(Get("dir/LlmMetadataProto.pb"), odd);
  EXPECT_FALSE(FileExists(Path("dir/ExecutorMetadataProto.pbtext")));
  ASSERT_TRUE(PackBundle(Path("dir"), Path("out.litertlm")).ok());
  EXPECT_EQ(Get("in.litertlm"), Get("out.litertlm"));
}

TEST_F(Pack, NamesFromTheBundleCannotLeaveTheFolder) {
  Write("in.litertlm",
        {{MakeSection(SectionType::kTfliteModel, {{.key = "model_type", .value = "../../evil/x"}}),
          "model"},
         {MakeSection(SectionType::kTfliteWeights, {{.key = "model_type", .value = "/etc/passwd"}}),
          "w"}});
  const UnpackReport report = Unpack(Path("in.litertlm"), "dir");
  for (const std::string& name : report.files) {
    EXPECT_EQ(name.find('/'), std::string::npos);
    EXPECT_TRUE(FileExists(Path(StrCat("dir/", name)))) << name;
  }
  std::size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    entries += entry.exists() ? 1 : 0;
  EXPECT_EQ(entries, 2u);  // the bundle and dir
}

TEST_F(Pack, NothingIsReplacedUnlessAsked) {
  Write("in.litertlm", {{MakeSection(SectionType::kSpTokenizer), "one"}});
  Unpack(Path("in.litertlm"), "dir");
  const auto open = litertlm::Bundle::Open(Path("in.litertlm"));
  const auto refused = UnpackBundle(**open, Path("dir"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("exists already"), std::string::npos);
  Unpack(Path("in.litertlm"), "dir", {.force = true, .cancel = nullptr, .progress = {}});
  // A link in the folder is replaced, not followed.
  Put("victim", "mine");
  fs::remove(Path("dir/Section0_SP_Tokenizer.spiece"));
  fs::create_symlink(Path("victim"), Path("dir/Section0_SP_Tokenizer.spiece"));
  Unpack(Path("in.litertlm"), "dir", {.force = true, .cancel = nullptr, .progress = {}});
  EXPECT_EQ(Get("victim"), "mine");
  EXPECT_EQ(Get("dir/Section0_SP_Tokenizer.spiece"), "one");
}

TEST_F(Pack, DataPathsStayInsideUnlessAllowed) {
  fs::create_directory(Path("dir"));
  Put("outside", "secret");
  const auto toml = [&](std::string_view path) {
    Put("dir/model.toml",
        StrCat("[[section]]\nsection_type=\"GenericBinaryData\"\ndata_path=\"", path, "\"\n"));
  };
  fs::create_symlink(Path("outside"), Path("dir/link"));
  for (const std::string& path : {std::string("../outside"), Path("outside"), std::string("link"),
                                  std::string("../dir/../outside")}) {
    toml(path);
    const auto refused = PackBundle(Path("dir"), Path("out.litertlm"));
    ASSERT_FALSE(refused.ok()) << path;
    EXPECT_NE(refused.message().find("outside the folder"), std::string::npos) << refused.message();
    EXPECT_FALSE(FileExists(Path("out.litertlm")));
    PackOptions allow;
    allow.allow_outside = true;
    EXPECT_TRUE(PackBundle(Path("dir"), Path("allowed.litertlm"), allow).ok()) << path;
  }
  toml("missing");
  const auto missing = PackBundle(Path("dir"), Path("out.litertlm"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.code(), Code::kNotFound);
}

TEST_F(Pack, ATokenizerMayBeJson) {
  Put("model.toml", "[[section]]\nsection_type=\"HF_Tokenizer\"\ndata_path=\"tokenizer.json\"\n");
  Put("tokenizer.json", "{\"version\": \"1.0\"}");
  ASSERT_TRUE(PackBundle(folder_.path(), Path("out.litertlm")).ok());
  const auto bundle = litertlm::Bundle::Open(Path("out.litertlm"));
  ASSERT_TRUE(bundle.ok());
  const auto* section = (*bundle)->Find(SectionType::kHfTokenizerZlib);
  ASSERT_NE(section, nullptr);
  EXPECT_EQ(*litertlm::InflateTokenizer((*bundle)->SectionBytes(*section)),
            "{\"version\": \"1.0\"}");
}

TEST_F(Pack, OverridesOfTheTomlGoIntoTheMessage) {
  Put("model.toml",
      "[[section]]\nsection_type=\"LlmMetadata\"\ndata_path=\"a.pbtext\"\n"
      "supports_function_calling=true\n");
  Put("a.pbtext", "max_num_tokens: 5 # a comment\n");
  ASSERT_TRUE(PackBundle(folder_.path(), Path("out.litertlm")).ok());
  const auto bundle = litertlm::Bundle::Open(Path("out.litertlm"));
  const auto* section = (*bundle)->Find(SectionType::kLlmMetadata);
  EXPECT_EQ(AsText((*bundle)->SectionBytes(*section)), "\x28\x05\x60\x01");
  Put("a.pbtext", "max_num_tokens: x\n");
  const auto bad = PackBundle(folder_.path(), Path("out.litertlm"));
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.message().find("a.pbtext: line 1"), std::string::npos) << bad.message();
}

}  // namespace
}  // namespace hone::bundle
