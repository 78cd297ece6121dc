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

// Bundles of before there were channels, and those whose exporter named none.
TEST(TextSetup, FindsTheThinkingMarksOfTheTemplateIfNoChannelIsDeclared) {
  litertlm::LlmMetadata metadata;
  const auto marks = [&](std::string_view source) -> std::string {
    metadata.jinja_prompt_template = source;
    std::vector<std::string> warnings;
    const auto text = MakeMetadataText(metadata, "", {}, warnings);
    if (!text.ok()) return std::string(text.message());
    return StrCat(text->think_start, " ", text->think_end);
  };
  EXPECT_EQ(marks("{{ messages }}"), " ");
  EXPECT_EQ(marks("{{ messages }}<think>\n"), "<think> </think>");
  EXPECT_EQ(marks("[THINK]{{ messages }}[/THINK]"), "[THINK] [/THINK]");
  EXPECT_EQ(marks("<seed:think>"), "<seed:think> </seed:think>");
  metadata.channels.resize(1);
  metadata.channels[0].name = "thought";
  metadata.channels[0].start = "<a>";
  metadata.channels[0].end = "</a>";
  EXPECT_EQ(marks("<think>"), "<a> </a>");
  metadata.channels[0].name = "other";
  EXPECT_EQ(marks("<think>"), " ") << "what is declared counts";
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
