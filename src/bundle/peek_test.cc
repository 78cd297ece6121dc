// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/peek.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/file.h"

namespace hone::bundle {
namespace {

using formats::litertlm::Bundle;

Json Peek(const std::string& path) {
  const auto bundle = Bundle::Open(path);
  if (!bundle.ok()) {
    ADD_FAILURE() << bundle.message();
    return {};
  }
  auto facts = PeekBundle(**bundle);
  if (!facts.ok()) {
    ADD_FAILURE() << facts.message();
    return {};
  }
  return *std::move(facts);
}

std::string Golden(std::string_view name) {
  return StrCat(HONE_SHARED_DATA, "/golden/bundles/", name, "/model.litertlm");
}

TEST(Peek, NamesEveryPrecisionOfAnInt4Bundle) {
  const Json facts = Peek(Golden("tiny-llama-wi4b32"));
  ASSERT_TRUE(facts.IsObject());
  EXPECT_EQ(facts.Find("version")->AsString(), "1.7.0");
  EXPECT_EQ(facts.Find("sections")->AsArray().size(), 5u);
  EXPECT_EQ(facts.Find("llm_metadata")->Find("max_num_tokens")->AsInt(), 128);
  EXPECT_EQ(facts.Find("executor_metadata")->Find("state_buffers")->AsArray().size(), 4u);
  EXPECT_GT(facts.Find("tokenizer")->Find("raw_bytes")->AsInt(), 1000);
  const Json::Array& models = facts.Find("models")->AsArray();
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].Find("model_type")->AsString(), "tf_lite_prefill_decode");
  std::map<std::string, int> precisions;
  std::int64_t bytes = 0;
  bool head = false;
  for (const Json& weight : models[0].Find("weights")->AsArray()) {
    ++precisions[weight.Find("precision")->AsString()];
    bytes += weight.Find("bytes")->AsInt();
    const Json* output = weight.Find("signature_output");
    if (!output || output->AsString() != "logits") continue;
    head = true;
    EXPECT_EQ(weight.Find("precision")->AsString(), "int4_block32");
    EXPECT_EQ(weight.Find("block")->AsInt(), 32);
    EXPECT_EQ(weight.Find("bytes")->AsInt(), 512 * 64 / 2 + 512 * 2 * 2);
    EXPECT_EQ(weight.Find("scale_bytes")->AsInt(), 512 * 2 * 2);
  }
  EXPECT_TRUE(head);
  // 2 layers of 7 matrices and the head.
  EXPECT_EQ(precisions["int4_block32"], 15);
  EXPECT_EQ(precisions.count("float16"), 0u);
  EXPECT_EQ(precisions.count("f16"), 0u);
  std::int64_t total = 0;
  for (const auto& [precision, sum] : models[0].Find("bytes_by_precision")->AsObject()) {
    total += sum.AsInt();
  }
  EXPECT_EQ(total, bytes);
  EXPECT_EQ(models[1].Find("bytes_by_precision")->Find("int8")->AsInt(), 512 * 64 + 512 * 12);
}

TEST(Peek, TextOfEveryGoldenBundleHasItsTables) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(StrCat(HONE_SHARED_DATA, "/golden/bundles"))) {
    if (entry.path().extension() != ".litertlm") continue;
    ++files;
    const std::string text = PeekText(Peek(entry.path()));
    for (const char* part : {"Sections\n", "LlmMetadata\n", "Model tf_lite_prefill_decode",
                             "Model tf_lite_embedder", "logits float32[1, 1, 512]",
                             "kv_cache_k_* (2) float32[1, 2, ", "-> logits", "stored as: "}) {
      EXPECT_NE(text.find(part), std::string::npos) << entry.path() << ": " << part;
    }
  }
  EXPECT_EQ(files, 7);
}

// A bundle with the given sections in a file of this test.
std::string WriteBundle(const std::string& name,
                        std::vector<std::pair<formats::litertlm::Section, std::string>> parts) {
  formats::litertlm::Header header;
  header.system = {{"Authors", "a\x1b[31mb", 9}};
  std::uint64_t end = 0;
  for (auto& [section, content] : parts) {
    section.begin = RoundUp(end + 1, formats::litertlm::kSectionAlignment);
    end = section.end = section.begin + content.size();
    header.sections.push_back(section);
  }
  auto bytes = formats::litertlm::EncodeHeader(header);
  EXPECT_TRUE(bytes.ok());
  bytes->resize(end);
  for (const auto& [section, content] : parts) {
    const ByteSpan from = AsBytes(content);
    std::copy(from.begin(), from.end(),
              bytes->begin() + static_cast<std::ptrdiff_t>(section.begin));
  }
  const std::string path = ::testing::TempDir() + name;
  EXPECT_TRUE(WriteFileAtomic(path, *bytes).ok());
  return path;
}

TEST(Peek, ShowsHoneJsonAndNoControlCharacters) {
  formats::litertlm::Section section;
  section.type = formats::litertlm::SectionType::kGenericBinaryData;
  section.items = {{"name", "hone.json", 9}};
  const std::string path = WriteBundle("hone_json.litertlm", {{section, R"({"hone":"0.1"})"}});
  const Json facts = Peek(path);
  ASSERT_TRUE(facts.IsObject());
  ASSERT_NE(facts.Find("hone"), nullptr);
  EXPECT_EQ(facts.Find("hone")->Find("hone")->AsString(), "0.1");
  const std::string text = PeekText(facts);
  EXPECT_NE(text.find("hone.json"), std::string::npos);
  EXPECT_NE(text.find("a?[31mb"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  std::filesystem::remove(path);
}

TEST(Peek, DamagedSectionsFailWithTheirName) {
  formats::litertlm::Section section;
  section.type = formats::litertlm::SectionType::kTfliteModel;
  const std::string path = WriteBundle("damaged.litertlm", {{section, "not a model"}});
  const auto bundle = Bundle::Open(path);
  ASSERT_TRUE(bundle.ok()) << bundle.message();
  const auto facts = PeekBundle(**bundle);
  ASSERT_FALSE(facts.ok());
  EXPECT_EQ(facts.code(), Code::kDataLoss);
  EXPECT_NE(facts.message().find("section 0 (TFLiteModel): not a TFLite model"), std::string::npos)
      << facts.message();
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace hone::bundle
