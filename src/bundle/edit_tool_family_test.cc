// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "bundle/edit.h"
#include "bundle/test_bundle.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m['content'] if m['content'] is string else "
    "m['content'][0]['text'] }}{% endfor %}";

class EditToolFamily : public ::testing::Test {
 protected:
  ~EditToolFamily() override { std::filesystem::remove(path_); }

  // A bundle with this hone.json; none if it is empty.
  void Put(std::string_view hone) {
    TestBundle bundle("tiny-llama-wi8/model-fixed-template-nobos.litertlm");
    if (!hone.empty()) bundle.SetHone(hone);
    path_ = bundle.Write();
  }
  Result<EditPlan> Plan(const EditRequest& request) const {
    HONE_ASSIGN(const auto bundle, litertlm::Bundle::Open(path_));
    return PlanEdit(*bundle, request);
  }
  // Changes the file.
  EditPlan Apply(const EditRequest& request) const {
    auto plan = Plan(request);
    EXPECT_TRUE(plan.ok()) << plan.message();
    if (!plan.ok()) return {};
    const Status status = WriteInPlace(path_, plan->in_place);
    EXPECT_TRUE(status.ok()) << status.message();
    return *std::move(plan);
  }
  std::string Stored() const {
    const auto bundle = litertlm::Bundle::Open(path_);
    EXPECT_TRUE(bundle.ok()) << bundle.message();
    for (const litertlm::Section& section : (*bundle)->header().sections) {
      if (section.Item("name") != "hone.json") continue;
      auto json = ParseJson(AsText((*bundle)->SectionBytes(section)));
      EXPECT_TRUE(json.ok()) << json.message();
      const Json* family = json->Find("tool_family");
      return family == nullptr ? "absent" : family->AsString();
    }
    return "no hone.json";
  }

  std::string path_;
};

TEST_F(EditToolFamily, IsSetChangedAndRemoved) {
  Put(R"({"format": 1, "sections": []})");
  EditRequest request;
  request.tool_family = "hermes";
  EditPlan plan = Apply(request);
  ASSERT_EQ(plan.changes.size(), 1u);
  EXPECT_EQ(plan.changes[0].before, "none");
  EXPECT_EQ(Stored(), "hermes");
  request.tool_family = "pythonic";
  plan = Apply(request);
  ASSERT_EQ(plan.changes.size(), 1u);
  EXPECT_EQ(plan.changes[0].before, "hermes");
  EXPECT_EQ(Stored(), "pythonic");
  const auto again = Plan(request);
  ASSERT_TRUE(again.ok()) << again.message();
  EXPECT_TRUE(again->changes.empty());
  request.tool_family = "";
  Apply(request);
  EXPECT_EQ(Stored(), "absent");
}

TEST_F(EditToolFamily, GoesWithTheTemplateItWasReadFrom) {
  Put(R"({"tool_family": "hermes", "sections": []})");
  EditRequest request;
  request.top_k = 7;
  Apply(request);
  EXPECT_EQ(Stored(), "hermes");
  request = {};
  request.chat_template = kTemplate;
  const EditPlan plan = Apply(request);
  EXPECT_EQ(Stored(), "absent");
  EXPECT_NE(plan.ToJson().Dump().find("tool family of the old template"), std::string::npos);
}

TEST_F(EditToolFamily, ComesTogetherWithANewTemplate) {
  Put(R"({"tool_family": "hermes", "sections": []})");
  EditRequest request;
  request.chat_template = kTemplate;
  request.tool_family = "lfm2";
  Apply(request);
  EXPECT_EQ(Stored(), "lfm2");
}

TEST_F(EditToolFamily, NeedsAHoneJson) {
  EditRequest request;
  request.tool_family = "hermes";
  for (const char* hone : {"", "[1]", "{"}) {
    Put(hone);
    const auto plan = Plan(request);
    ASSERT_FALSE(plan.ok()) << hone;
    EXPECT_EQ(plan.code(), Code::kUnsupported);
    EXPECT_NE(plan.message().find("hone.json"), std::string::npos) << plan.message();
  }
}

}  // namespace
}  // namespace hone::bundle
