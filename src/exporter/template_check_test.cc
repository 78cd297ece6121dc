// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/template_check.h"

#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "exporter/template_probe.h"

namespace hone::exporter {
namespace {

formats::TextFacts Facts() {
  formats::TextFacts text;
  text.bos_token = "<s>";
  text.eos_token = "</s>";
  return text;
}

bridge::ChatTemplate Compile(std::string_view source) {
  auto compiled = bridge::ChatTemplate::Compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.message();
  return *std::move(compiled);
}

std::string Problems(std::string_view source) {
  std::string all;
  for (const std::string& problem : FindTemplateProblems(source, Compile(source), Facts())) {
    all += problem + "\n";
  }
  return all;
}

std::string Read(const std::string& path) {
  auto text = ReadFile(std::string(HONE_SHARED_DATA) + path);
  EXPECT_TRUE(text.ok()) << text.message();
  return text.ok() ? *std::move(text) : "";
}

// Prints strings and text parts alike.
constexpr std::string_view kBothForms =
    "{% for m in messages %}{{ m.content if m.content is string else m.content[0].text }}"
    "{% endfor %}";

TEST(FindTemplateProblems, FindsNothingInATemplateThatTakesPartsAndStrings) {
  EXPECT_EQ(Problems(kBothForms), "");
  EXPECT_EQ(Problems(Read("/golden/bundles/chatml_litertlm.jinja")), "");
}

TEST(FindTemplateProblems, NamesEachFeatureOnceWithItsFirstLine) {
  const std::string source = std::string(kBothForms) +
                             "\n{% if messages[0].get('x') %}{{ 'A'.lower() }}{% endif %}\n"
                             "{{ messages[0].get('y') }}{{ 'aXb'.rsplit('X') | length }}\n"
                             "{% for i in [1] %}{% break %}{% endfor %}"
                             "{{ [1] | tojson(indent=2) }}{{ '%.2f' % 1.5 }}";
  EXPECT_EQ(Problems(source),
            "line 2: the method .get() does not exist there\n"
            "line 2: the method .lower() does not exist there\n"
            "line 3: the method .rsplit() does not exist there\n"
            "line 4: {% break %} is an unknown statement there\n"
            "line 4: tojson takes no arguments there\n"
            "line 4: the operator % does not format strings there\n");
}

TEST(FindTemplateProblems, PassesOverStringsCommentsRawBlocksAndFilters) {
  const std::string source = std::string(kBothForms) +
                             "{# x.get('a') {% break %} #}{% raw %}{{ x.get('a') }}{% endraw %}"
                             "{{ 'x.get(1) %} .lower()' }}x.get('a'){{ 'A' | lower }}"
                             "{{ [1] | tojson() }}{{ 'a.b'.split('.') | length }}{{ 7 % 2 }}";
  EXPECT_EQ(Problems(source), "");
}

TEST(FindTemplateProblems, SeesThatATemplateAddsContentToAString) {
  const std::string problems =
      Problems("{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}");
  EXPECT_NE(problems.find("list of parts"), std::string::npos) << problems;
  EXPECT_NE(problems.find("uses it as a string"), std::string::npos) << problems;
}

TEST(FindTemplateProblems, SeesThatATemplateDropsTheTextOfParts) {
  const std::string problems = Problems(
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% endif %}{% endfor %}");
  EXPECT_NE(problems.find("drops its text"), std::string::npos) << problems;
}

TEST(FindTemplateProblems, SeesBothFaultsOfMiniCpm5) {
  const std::string problems = Problems(Read("/data/minicpm5/chat_template.jinja"));
  EXPECT_NE(problems.find("line 6: tojson takes no arguments there"), std::string::npos)
      << problems;
  EXPECT_NE(problems.find("list of parts"), std::string::npos) << problems;
}

TEST(FindTemplateProblems, SurvivesEveryTemplateThatIsCutOff) {
  const std::string source = Read("/data/minicpm5/chat_template.jinja");
  const bridge::ChatTemplate compiled = Compile(kBothForms);
  std::size_t most = 0;
  for (std::size_t n = 0; n < source.size(); n += 13) {
    const auto problems = FindTemplateProblems(source.substr(0, n), compiled, Facts());
    most = std::max(most, problems.size());
  }
  // tojson with arguments, and the half of a closing %} that looks like an operator.
  EXPECT_GE(most, 1u);
  EXPECT_LE(most, 2u);
}

// Renders as the original does for strings, and the same for parts.
void ExpectWraps(const std::string& source) {
  const bridge::ChatTemplate original = Compile(source);
  auto wrapped = WrapTemplate(source, original, Facts());
  ASSERT_TRUE(wrapped.ok()) << wrapped.message();
  const bridge::ChatTemplate again = Compile(wrapped->source);
  for (const bool tools : {false, true}) {
    const auto want = RenderProbe(original, Facts(), {.with_tools = tools});
    ASSERT_TRUE(want.ok()) << want.message();
    for (const bool parts : {false, true}) {
      const auto got =
          RenderProbe(again, Facts(), {.content_as_parts = parts, .with_tools = tools});
      ASSERT_TRUE(got.ok()) << got.message();
      EXPECT_EQ(*got, *want);
    }
  }
  EXPECT_TRUE(wrapped->problems.empty());
  EXPECT_TRUE(FindTemplateProblems(wrapped->source, again, Facts()).empty());
}

TEST(WrapTemplate, MakesRealTemplatesTakeParts) {
  ExpectWraps(Read("/data/minicpm5/chat_template.jinja"));
  ExpectWraps(Read("/golden/families/llama-gqa8/hf/chat_template.jinja"));
  ExpectWraps("{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}");
}

TEST(WrapTemplate, KeepsWhiteSpaceAtTheFrontOfTheTemplate) {
  ExpectWraps("\n  {% for m in messages %}\n{{ m.content + '' }}{% endfor %}");
  ExpectWraps("  {% for m in messages %}\n{{ m.content + '' }}{% endfor %}");
  ExpectWraps("  {{ messages[-1].content + '' }}");
}

TEST(WrapTemplate, NamesWhatItDoesNotCover) {
  const std::string source = "{% for m in messages %}\n{{ m.content.lower() + '' }}{% endfor %}";
  auto wrapped = WrapTemplate(source, Compile(source), Facts());
  ASSERT_TRUE(wrapped.ok()) << wrapped.message();
  EXPECT_EQ(wrapped->problems,
            (std::vector<std::string>{"line 2: the method .lower() does not exist there"}));
}

TEST(WrapTemplate, RefusesATemplateThatItWouldChange) {
  // It sees the variable of the lines in front of it.
  const std::string source =
      "{% for m in messages %}{{ m.content + '' }}{% endfor %}"
      "{% if hone is defined %}differs{% endif %}";
  const auto wrapped = WrapTemplate(source, Compile(source), Facts());
  EXPECT_EQ(wrapped.code(), Code::kUnsupported);
}

}  // namespace
}  // namespace hone::exporter
