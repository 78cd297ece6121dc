// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/text_setup.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace hone::runtime {
namespace {

namespace litertlm = formats::litertlm;

// The text of a bundle with nothing but this hone.json.
Result<TextSetup> TextOf(const std::string& hone, std::vector<std::string>& warnings) {
  litertlm::Header header;
  litertlm::Section section;
  section.type = litertlm::SectionType::kGenericBinaryData;
  section.items = {{.key = "name", .value = "hone.json"}};
  section.begin = litertlm::kSectionAlignment;
  section.end = section.begin + hone.size();
  header.sections = {section};
  HONE_ASSIGN(const std::vector<std::byte> head, litertlm::EncodeHeader(header));
  std::string file(AsText(head));
  file.resize(section.begin);
  file += hone;
  const TestFolder folder;
  folder.Write("m.litertlm", file);
  HONE_ASSIGN(const auto bundle, litertlm::Bundle::Open(folder.File("m.litertlm")));
  return MakeBundleText(*bundle, warnings);
}

bool Warns(const std::vector<std::string>& warnings, std::string_view words) {
  for (const std::string& warning : warnings) {
    if (warning.find(words) != std::string::npos) return true;
  }
  return false;
}

TEST(TextSetup, TellsTheToolFamilyOfABundle) {
  std::vector<std::string> warnings;
  auto text = TextOf(R"({"format": 1, "tool_family": "hermes"})", warnings);
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(text->tool_family, "hermes");
  text = TextOf(R"({"format": 1})", warnings);
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_EQ(text->tool_family, "");
  EXPECT_FALSE(Warns(warnings, "hone.json"));
}

TEST(TextSetup, RunsWithADamagedHoneJsonAndSaysSo) {
  for (const char* hone : {"{", "[]", "", R"({"tool_family": 3})"}) {
    std::vector<std::string> warnings;
    const auto text = TextOf(hone, warnings);
    ASSERT_TRUE(text.ok()) << hone << ": " << text.message();
    EXPECT_EQ(text->tool_family, "");
    EXPECT_TRUE(Warns(warnings, "hone.json")) << hone;
  }
}

}  // namespace
}  // namespace hone::runtime
