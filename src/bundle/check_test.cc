// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.h"
#include "bundle/check_faults.h"
#include "bundle/compare_logits.h"

namespace hone::bundle {
namespace {

constexpr const char* kClean = "tiny-llama-wi4b32/model-fixed-template-nobos.litertlm";

std::string Ids(const CheckReport& report) {
  std::string out;
  for (const Finding& finding : report.findings) {
    out += StrCat(out.empty() ? "" : " ", finding.info->id);
  }
  return out;
}

CheckReport Check(const std::string& path, const CheckOptions& options = {}) {
  auto report = CheckBundle(path, options);
  EXPECT_TRUE(report.ok()) << report.message();
  return report.ok() ? *std::move(report) : CheckReport();
}

CheckReport CheckAndRemove(const TestBundle& bundle) {
  const std::string path = bundle.Write();
  CheckReport report = Check(path);
  std::filesystem::remove(path);
  return report;
}

bool Has(const CheckReport& report, std::string_view id) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&](const Finding& f) { return f.info->id == id; });
}

std::string Golden(const std::string& name) {
  return StrCat(HONE_SHARED_DATA, "/golden/bundles/", name);
}

TEST(Check, GoldenBundlesHaveExactlyTheirKnownFaults) {
  const std::map<std::string, std::string> wanted = {
      {"tiny-llama-fp32/model.litertlm",
       "bos-doubled template-litert-lm sampler-missing flags-missing tools-dropped memory"},
      {"tiny-llama-wi8/model.litertlm",
       "bos-doubled template-litert-lm sampler-missing flags-missing tools-dropped memory"},
      {"tiny-llama-wi4b32/model.litertlm",
       "bos-doubled template-litert-lm sampler-missing flags-missing tools-dropped memory"},
      {"tiny-llama-untied-wi8/model.litertlm",
       "bos-doubled template-litert-lm prefill-wall sampler-missing flags-missing tools-dropped "
       "memory"},
      {"tiny-llama-fp32/model-fixed-template-nobos.litertlm",
       "sampler-missing flags-missing tools-dropped memory"},
      {"tiny-llama-wi8/model-fixed-template-nobos.litertlm",
       "sampler-missing flags-missing tools-dropped memory"},
      {"tiny-llama-wi4b32/model-fixed-template-nobos.litertlm",
       "sampler-missing flags-missing tools-dropped memory"},
  };
  for (const auto& [name, ids] : wanted) {
    const CheckReport report = Check(Golden(name));
    EXPECT_EQ(Ids(report), ids) << name;
    EXPECT_EQ(report.Count(Severity::kError), ids.starts_with("bos") ? 1 : 0) << name;
    EXPECT_TRUE(report.complete);
  }
}

TEST(Check, SaysWhyTheGoldenTemplateFailsInLiteRtLm) {
  const CheckReport report = Check(Golden("tiny-llama-wi8/model.litertlm"));
  for (const Finding& finding : report.findings) {
    if (finding.info->id != std::string_view("template-litert-lm")) continue;
    EXPECT_NE(finding.what.find("this template will fail in LiteRT-LM 0.18, because a message's "
                                "content is a list of parts there"),
              std::string::npos)
        << finding.what;
    return;
  }
  FAIL() << "no finding";
}

// Files over 2 GiB that have almost nothing on the disk.
void WriteSparse(const std::string& path, const std::vector<std::byte>& bytes, std::uint64_t size) {
  ASSERT_TRUE(WriteFileAtomic(path, bytes).ok());
  std::error_code error;
  std::filesystem::resize_file(path, size, error);
  ASSERT_FALSE(error) << error.message();
}

// The golden bundle with what litert-torch leaves out.
TestBundle CleanBundle() {
  TestBundle bundle(kClean);
  bundle.EditLlm([](formats::litertlm::LlmMetadata& m) {
    m.sampler.emplace();
    m.sampler->type = formats::litertlm::SamplerType::kTopP;
    m.sampler->k = 1;
    m.sampler->p = m.sampler->temperature = 1;
    m.supports_thinking = m.supports_function_calling = false;
  });
  return bundle;
}

class FaultyBundles : public testing::TestWithParam<Fault> {};

TEST_P(FaultyBundles, AreFound) {
  const Fault& fault = GetParam();
  TestBundle bundle = CleanBundle();
  CheckOptions options;
  if (fault.options) fault.options(options);
  if (fault.edit) fault.edit(bundle);
  std::vector<std::byte> bytes = bundle.Bytes();
  if (fault.damage) fault.damage(bytes);
  const std::string path = TestPath(fault.id);
  const bool huge = std::string_view(fault.id).find("2gib") != std::string_view::npos;
  if (huge) {
    WriteSparse(path, bytes, (std::uint64_t{1} << 31) + (std::uint64_t{1} << 24));
  } else {
    ASSERT_TRUE(WriteFileAtomic(path, bytes).ok());
  }
  const CheckReport report = Check(path, options);
  EXPECT_TRUE(Has(report, fault.id)) << Ids(report) << "\n" << CheckText(report);
  // What a fault breaks by the table shows in the text, with its reason and its cure.
  const std::string text = CheckText(report);
  EXPECT_NE(text.find(fault.id), std::string::npos);
  EXPECT_EQ(text.find("why: \n"), std::string::npos);
  std::filesystem::remove(path);
}

std::vector<Fault> AllFaults() {
  std::vector<Fault> out;
  for (const auto faults : {ContainerFaults(), TextFaults(), TemplateFaults(), GraphFaults()}) {
    out.insert(out.end(), faults.begin(), faults.end());
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Check, FaultyBundles, testing::ValuesIn(AllFaults()),
                         [](const testing::TestParamInfo<Fault>& fault) {
                           std::string name = fault.param.id;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Check, EveryIdOfTheTableHasAFaultyBundle) {
  std::set<std::string> ids;
  for (const Fault& fault : AllFaults()) ids.insert(fault.id);
  for (const CheckInfo& row : CheckTable()) {
    if (row.id == std::string_view("lift-disagrees")) continue;  // needs a wrong lifter
    EXPECT_TRUE(ids.contains(row.id)) << row.id;
  }
}

TEST(Check, IdsAreUniqueAndNoFaultIsInTheCleanBundle) {
  std::set<std::string> ids;
  for (const CheckInfo& row : CheckTable()) EXPECT_TRUE(ids.insert(row.id).second) << row.id;
  EXPECT_EQ(Ids(CheckAndRemove(CleanBundle())), "tools-dropped memory");
}

// docs/checks.md has for each id a heading "### `id` (severity)", and lines "Why: " and "Do: ".
TEST(Check, TheDocumentHasTheSameTable) {
  const auto text = ReadFile(HONE_CHECKS_DOC);
  ASSERT_TRUE(text.ok()) << text.message();
  std::size_t at = 0;
  for (const CheckInfo& row : CheckTable()) {
    const std::string heading = StrCat("### `", row.id, "` (", SeverityName(row.severity), ")\n");
    const std::size_t found = text->find(heading, at);
    ASSERT_NE(found, std::string::npos) << heading;
    const std::size_t end = std::min(text->find("### ", found + 4), text->size());
    const std::string entry = text->substr(found, end - found);
    EXPECT_NE(entry.find(StrCat("Why: ", row.why, "\n")), std::string::npos) << row.id;
    EXPECT_NE(entry.find(StrCat("Do: ", row.todo, "\n")), std::string::npos) << row.id;
    EXPECT_NE(entry.find("What: "), std::string::npos) << row.id;
    at = end;
  }
  EXPECT_EQ(text->find("### `", at), std::string::npos) << "an id that the table does not have";
}

TEST(Check, JsonHasTheCountsAndTheFindings) {
  const CheckReport report = Check(Golden("tiny-llama-wi4b32/model.litertlm"));
  const Json json = CheckJson(report);
  EXPECT_EQ(json.Find("errors")->AsInt(), 1);
  EXPECT_EQ(json.Find("warnings")->AsInt(), 1);
  EXPECT_EQ(json.Find("notes")->AsInt(), 4);
  EXPECT_GT(json.Find("scales_read")->AsInt(), 1000);
  const Json& first = json.Find("findings")->AsArray()[0];
  EXPECT_EQ(first.Find("id")->AsString(), "bos-doubled");
  for (const char* key : {"severity", "what", "why", "do"}) {
    EXPECT_FALSE(first.Find(key)->AsString().empty()) << key;
  }
}

TEST(Check, CountsScalesAndNamesTheFirst) {
  TestBundle bundle(kClean);
  for (const Fault& fault : GraphFaults()) {
    if (fault.id == std::string_view("scale-zero")) fault.edit(bundle);
  }
  const CheckReport report = CheckAndRemove(bundle);
  for (const Finding& finding : report.findings) {
    if (finding.info->id != std::string_view("scale-zero")) continue;
    EXPECT_TRUE(finding.what.starts_with("1 zero scales in 1 tensor, the first: section 3 tensor "))
        << finding.what;
    EXPECT_TRUE(finding.what.ends_with(" scale 3")) << finding.what;
    return;
  }
  FAIL() << CheckText(report);
}

TEST(Check, ZeroScalesOfRowsAreNotForRepair) {
  TestBundle bundle("tiny-llama-wi8/model-fixed-template-nobos.litertlm");
  bundle.EditModel("tf_lite_prefill_decode", [](auto& model, auto&) {
    for (auto& tensor : model.subgraphs[0].tensors) {
      if (tensor.quantization.scale.size() < 2) continue;
      tensor.quantization.scale[1] = 0;
      return;
    }
  });
  const CheckReport report = CheckAndRemove(bundle);
  for (const Finding& finding : report.findings) {
    if (finding.info->id != std::string_view("scale-zero")) continue;
    EXPECT_TRUE(finding.what.starts_with("1 zero row scales in 1 tensor")) << finding.what;
    EXPECT_EQ(finding.todo.find("repair"), std::string::npos) << finding.todo;
    return;
  }
  FAIL() << CheckText(report);
}

TEST(Check, TheDeepCheckOfACleanBundleFindsNothing) {
  CheckOptions options;
  options.deep = true;
  const CheckReport report = Check(Golden(kClean), options);
  EXPECT_EQ(Ids(report), "sampler-missing flags-missing tools-dropped memory hashes-missing")
      << CheckText(report);
}

TEST(Cosine, IsOneForEqualDirectionsOnly) {
  const std::vector<float> a = {1, 2, 3}, twice = {2, 4, 6}, other = {3, -2, 1};
  EXPECT_NEAR(Cosine(a, twice), 1, 1e-12);
  EXPECT_LT(Cosine(a, other), 0.2);
  EXPECT_FALSE(Cosine(a, std::vector<float>{1, NAN, 3}) >= kSameModelCosine);
}

TEST(Check, AFileThatIsNotThereIsAStatus) {
  const auto report = CheckBundle("/nonexistent/model.litertlm", {});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(ExitCode(report.code()), 2);
}

}  // namespace
}  // namespace hone::bundle
