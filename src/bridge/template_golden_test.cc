// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Renders of jinja2, kept in tests/testdata/templates; tools/check_templates.py writes them.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/file.h"
#include "base/json.h"
#include "bridge/chat_template.h"

namespace hone::bridge {
namespace {

// 2026-11-30 09:05:00, the clock of the golden files.
constexpr std::int64_t kNow = 1796029500;

std::string MustRead(const std::string& path) {
  auto text = ReadFile(path);
  if (!text.ok()) {
    ADD_FAILURE() << text.message();
    return {};
  }
  return *std::move(text);
}

Json ContextOf(const Json& golden, const Json& entry) {
  Json context{Json::Object{}};
  if (const Json* uses = entry.Find("uses")) {
    context = *golden.Find("contexts")->Find(uses->AsString());
  }
  if (const Json* more = entry.Find("context")) {
    for (const auto& [key, value] : more->AsObject()) context.Set(key, value);
  }
  return context;
}

// What a template is expected to give: text, the words of raise_exception, or any error ("*").
void CheckCase(const Json& entry, const Result<std::string>& text, const std::string& label) {
  if (const Json* expect = entry.Find("expect")) {
    ASSERT_TRUE(text.ok()) << label << ": " << text.message();
    EXPECT_EQ(*text, expect->AsString()) << label;
    return;
  }
  ASSERT_FALSE(text.ok()) << label << ": " << *text;
  const std::string& words = entry.Find("error")->AsString();
  if (words == "*") {
    EXPECT_NE(text.code(), Code::kInternal) << label << ": " << text.message();
    EXPECT_EQ(text.message().find("chat template"), 0U) << label << ": " << text.message();
  } else {
    EXPECT_EQ(text.code(), Code::kInvalidArgument) << label;
    EXPECT_EQ(text.message(), words) << label;
  }
}

void CheckFile(const std::string& name, std::size_t at_least) {
  auto golden = ParseJson(MustRead(std::string(HONE_TESTDATA) + "/templates/" + name));
  ASSERT_TRUE(golden.ok()) << golden.message();
  std::string shared;
  if (const Json* file = golden->Find("template_file")) {
    shared = MustRead(std::string(HONE_SHARED_DATA) + "/" + file->AsString());
  }
  const Json::Array& cases = golden->Find("cases")->AsArray();
  ASSERT_GE(cases.size(), at_least);
  for (const Json& entry : cases) {
    const Json* own = entry.Find("template");
    const std::string& source = own != nullptr ? own->AsString() : shared;
    const std::string label = own != nullptr ? source : entry.Find("name")->AsString();
    auto compiled = ChatTemplate::Compile(source);
    if (!compiled.ok()) {
      CheckCase(entry, std::move(compiled).status(), label);
      continue;
    }
    CheckCase(entry, compiled->Render(ContextOf(*golden, entry).Dump(), kNow), label);
  }
}

TEST(TemplateGolden, RendersMiniCpm5AsTransformersDoes) { CheckFile("minicpm5.json", 60); }

TEST(TemplateGolden, EvaluatesExpressionsAsJinja2Does) { CheckFile("expressions.json", 580); }

TEST(TemplateGolden, RunsStatementsAsJinja2Does) { CheckFile("statements.json", 150); }

}  // namespace
}  // namespace hone::bridge
