// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/edit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "base/file.h"
#include "base/test_folder.h"
#include "bridge/sha256.h"
#include "bundle/edit_metadata.h"
#include "exporter/bundle_writer.h"
#include "formats/litertlm/header_extent.h"
#include "formats/litertlm/llm_metadata.h"

namespace hone::bundle {
namespace {

namespace fs = std::filesystem;
namespace litertlm = formats::litertlm;
using litertlm::SectionType;

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m['content'] if m['content'] is string else "
    "m['content'][0]['text'] }}{% endfor %}{% if enable_thinking %}<think>{% endif %}";

class Edit : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_.File("model.litertlm");
    const auto bytes = ReadFile(StrCat(
        HONE_SHARED_DATA, "/golden/bundles/tiny-llama-wi8/model-fixed-template-nobos.litertlm"));
    ASSERT_TRUE(bytes.ok());
    original_ = *bytes;
    Put(original_);
  }
  void Put(std::string_view bytes) const {
    ASSERT_TRUE(WriteFileAtomic(path_, AsBytes(bytes)).ok());
  }
  std::shared_ptr<const litertlm::Bundle> Open() const {
    auto bundle = litertlm::Bundle::Open(path_);
    EXPECT_TRUE(bundle.ok()) << bundle.message();
    return bundle.ok() ? *bundle : nullptr;
  }
  EditPlan Plan(const EditRequest& request) const {
    auto plan = PlanEdit(*Open(), request);
    EXPECT_TRUE(plan.ok()) << plan.message();
    return plan.ok() ? *std::move(plan) : EditPlan();
  }
  EditPlan Apply(const EditRequest& request) const {
    EditPlan plan = Plan(request);
    const Status status = WriteInPlace(path_, plan.in_place);
    EXPECT_TRUE(status.ok()) << status.message();
    return plan;
  }
  std::string Refusal(const EditRequest& request) const {
    const auto plan = PlanEdit(*Open(), request);
    EXPECT_FALSE(plan.ok());
    return std::string(plan.message());
  }
  litertlm::LlmMetadata Metadata() const {
    const auto bundle = Open();
    auto parsed =
        litertlm::ParseLlmMetadata(bundle->SectionBytes(*bundle->Find(SectionType::kLlmMetadata)));
    EXPECT_TRUE(parsed.ok());
    return *parsed;
  }
  // Hashes of all sections but the metadata, by type and model type.
  std::map<std::string, std::string> Hashes() const {
    std::map<std::string, std::string> out;
    const auto bundle = Open();
    for (const litertlm::Section& section : bundle->header().sections) {
      if (section.type == SectionType::kLlmMetadata) continue;
      out[StrCat(litertlm::SectionTypeName(section.type), section.Item("model_type"))] =
          bridge::Sha256Hex(bundle->SectionBytes(section));
    }
    return out;
  }
  TestFolder folder_;
  std::string path_, original_;
};

TEST_F(Edit, ChangesArriveAndOtherSectionsStay) {
  const auto before = Hashes();
  EditRequest request;
  request.chat_template = kTemplate;
  request.add_stop_ids = {7};
  request.stop_strings = std::vector<std::string>{"</end>\n"};
  request.temperature = 0.5f;
  request.top_k = 20;
  request.seed = -3;
  request.max_tokens = 100;
  request.channels = {{"thought", "<t>", "</t>"}};
  request.prefer_activation_type = {{"tf_lite_prefill_decode", "fp32_fp16"}};
  request.backend_constraint = {{"tf_lite_embedder", "cpu,gpu"}};
  request.system = {{"Authors", "me"}, {"Name", "tiny"}};
  const EditPlan plan = Apply(request);
  EXPECT_EQ(plan.changes.size(), 9u);
  EXPECT_GT(plan.in_place.unreachable_bytes, 0u);
  EXPECT_EQ(Hashes(), before);
  const litertlm::LlmMetadata m = Metadata();
  EXPECT_EQ(m.jinja_prompt_template, kTemplate);
  EXPECT_TRUE(m.stop_tokens.back().is_text);
  EXPECT_EQ(m.sampler->k, 20);
  EXPECT_EQ(m.sampler->seed, -3);
  EXPECT_EQ(m.sampler->type, litertlm::SamplerType::kTopP);
  EXPECT_EQ(m.max_num_tokens, 100);
  EXPECT_EQ(m.channels.back().start, "<t>");
  const auto bundle = Open();
  EXPECT_EQ(bundle->Find(SectionType::kTfliteModel)->Item("prefer_activation_type"), "fp32_fp16");
  EXPECT_EQ(bundle->Find(SectionType::kTfliteModel, "tf_lite_embedder")->Item("backend_constraint"),
            "cpu,gpu");
  EXPECT_TRUE(bundle->warnings().empty());
  // The same again changes nothing.
  EXPECT_TRUE(Plan(request).changes.empty());
}

TEST_F(Edit, TheFileIsOldOrNewAfterEveryWrite) {
  EditRequest request;
  request.max_tokens = 99;
  request.system = {{"Authors", "me"}};
  const EditPlan plan = Plan(request);
  const std::size_t writes = plan.in_place.writes.size();
  ASSERT_EQ(writes, 3u);  // section, tables, switch
  const std::int32_t old = Metadata().max_num_tokens;
  for (std::size_t stop = 0; stop < writes; ++stop) {
    Put(original_);
    ASSERT_TRUE(
        WriteInPlace(path_, plan.in_place, [=](std::size_t write) { return write < stop; }).ok());
    const std::int32_t found = Metadata().max_num_tokens;
    EXPECT_EQ(found, stop + 1 == writes ? 99 : old) << stop;
    EXPECT_EQ(Open()->header().system[0].value == "me", stop + 1 == writes);
    // And an edit after the interrupted one works.
    EditRequest again;
    again.max_tokens = 98;
    Apply(again);
    EXPECT_EQ(Metadata().max_num_tokens, 98);
  }
  // Torn writes before the switch do no harm: any prefix of any of them.
  for (std::size_t w = 0; w + 1 < writes; ++w) {
    const FileWrite& write = plan.in_place.writes[w];
    for (std::size_t n = 0; n <= write.bytes.size(); n += 1 + write.bytes.size() / 7) {
      std::string torn = original_;
      for (std::size_t k = 0; k <= w; ++k) {
        const FileWrite& done = plan.in_place.writes[k];
        const std::size_t size = k == w ? n : done.bytes.size();
        torn.resize(std::max<std::size_t>(torn.size(), done.offset + size));
        std::copy_n(reinterpret_cast<const char*>(done.bytes.data()), size,
                    torn.begin() + static_cast<std::ptrdiff_t>(done.offset));
      }
      Put(torn);
      EXPECT_EQ(Metadata().max_num_tokens, old);
    }
  }
}

TEST_F(Edit, TheSwitchIsOneWriteOfSixteenBytes) {
  EditRequest request;
  request.system = {{"Authors", "me"}};
  const EditPlan plan = Plan(request);
  ASSERT_EQ(plan.in_place.writes.size(), 2u);
  EXPECT_EQ(plan.in_place.writes[1].offset, 24u);
  EXPECT_EQ(plan.in_place.writes[1].bytes.size(), 16u);
  EXPECT_LE(plan.in_place.writes[0].offset + plan.in_place.writes[0].bytes.size(), 16384u);
  EXPECT_EQ(plan.in_place.file_bytes, original_.size());
}

TEST_F(Edit, ManyEditsFindRoomBesideDeadTables) {
  for (int i = 1; i <= 100; ++i) {
    EditRequest request;
    request.system = {{"Authors", StrCat("author ", i)}};
    Apply(request);
    ASSERT_EQ(Open()->header().system[0].value, StrCat("author ", i));
    const auto extent = litertlm::FindHeaderExtent(Open()->map().bytes());
    ASSERT_TRUE(extent.ok());
    ASSERT_LE(extent->end, 16384u);
  }
}

TEST_F(Edit, WithoutRoomItSaysHowToRewrite) {
  auto writer = exporter::BundleWriter::Create(path_);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Begin(SectionType::kSpTokenizer).ok());
  ASSERT_TRUE(writer->Append(AsBytes("x")).ok());
  writer->End();
  ASSERT_TRUE(writer->Finish({{.key = "big", .value = std::string(10'000, 'a')}}).ok());
  EditRequest request;
  request.system = {{"Authors", "me"}};
  EXPECT_NE(Refusal(request).find("hone unpack and hone pack"), std::string::npos);
}

TEST_F(Edit, UnknownFieldsKeepTheirBytes) {
  // Field 202 at the front, a stop token with an unpacked id and an unknown field, a sampler with
  // an unknown field: Hone itself would write none of them so.
  const std::string odd("\xd2\x0c\x03odd", 6);
  const std::string stop("\x12\x07\x0a\x02\x08\x02\xf8\x01\x05", 9);
  const std::string sampler("\x22\x0c\xf8\x01\x09\x08\x02\x10\x01\x1d\x00\x00\x80\x3f", 14);
  std::string message = odd + stop + sampler;
  EditRequest request;
  request.max_tokens = 5;
  EditPlan plan;
  Status status = EditMetadata(request, EditFacts(), message, plan);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(message, std::string("\x28\x05", 2) + odd + stop + sampler);
  // The fields of an edited message survive too.
  request = {};
  request.top_k = 7;
  request.add_stop_ids = {3};
  status = EditMetadata(request, EditFacts(), message, plan);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto metadata = litertlm::ParseLlmMetadata(AsBytes(message));
  ASSERT_TRUE(metadata.ok());
  EXPECT_EQ(metadata->unknown, odd);
  EXPECT_EQ(metadata->sampler->k, 7);
  EXPECT_EQ(metadata->sampler->unknown, std::string("\xf8\x01\x09", 3));
  ASSERT_EQ(metadata->stop_tokens.size(), 2u);
  EXPECT_NE(message.find(stop), std::string::npos);
  // A field of another wire type than it has is none of ours: stop_tokens as a number.
  const std::string strange("\x10\x05", 2);
  message = stop + strange;
  request = {};
  request.stop_ids = std::vector<std::int32_t>{9};
  status = EditMetadata(request, EditFacts(), message, plan);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(message, std::string("\x12\x05\x0a\x03\x0a\x01\x09", 7) + strange);
}

TEST_F(Edit, WhatWouldMakeItWorseIsRefused) {
  EditRequest request;
  request.chat_template = "{% for m in messages %}{{ m.content }}";
  EXPECT_NE(Refusal(request).find("chat template"), std::string::npos);
  request.chat_template = "{{ nothing.at.all() }}";
  EXPECT_NE(Refusal(request).find("cannot render"), std::string::npos);
  request.chat_template = "hello";
  EXPECT_NE(Refusal(request).find("user's text is missing"), std::string::npos);
  request = {};
  request.add_stop_ids = {512};
  EXPECT_NE(Refusal(request).find("outside the vocabulary of 512"), std::string::npos);
  request.add_stop_ids = {-1};
  EXPECT_NE(Refusal(request).find("outside"), std::string::npos);
  request = {};
  request.stop_ids = std::vector<std::int32_t>{};
  request.stop_strings = std::vector<std::string>{};
  EXPECT_NE(Refusal(request).find("no stop token would be left"), std::string::npos);
  request = {};
  request.max_tokens = 129;
  EXPECT_NE(Refusal(request).find("more than the 128 positions"), std::string::npos);
  request = {};
  request.thinking = ThinkingDefault::kOn;
  EXPECT_NE(Refusal(request).find("no such switch"), std::string::npos);
  request = {};
  request.top_k = 0;
  EXPECT_NE(Refusal(request).find("top_k"), std::string::npos);
  request = {};
  request.backend_constraint = {{"tf_lite_prefill_decode", "cpu,tpu"}};
  EXPECT_NE(Refusal(request).find("found 'tpu'"), std::string::npos);
  request.backend_constraint = {{"tf_lite_vision_encoder", "cpu"}};
  EXPECT_NE(Refusal(request).find("no model of type"), std::string::npos);
  request = {};
  request.start_token = 1;
  request.chat_template = StrCat("<|im_start|>", kTemplate);
  const std::string twice = Refusal(request);
  EXPECT_NE(twice.find("begin with it twice"), std::string::npos) << twice;
}

TEST_F(Edit, TheThinkingDefaultIsALineOfTheTemplate) {
  EditRequest request;
  request.chat_template = kTemplate;
  request.thinking = ThinkingDefault::kOn;
  Apply(request);
  const std::string with = *Metadata().jinja_prompt_template;
  EXPECT_EQ(with, ThinkingPrologue(true) + kTemplate);
  const auto compiled = bridge::ChatTemplate::Compile(with);
  ASSERT_TRUE(compiled.ok());
  const auto render = [&](const char* extra) {
    return *compiled->Render(StrCat(R"({"messages":[{"role":"user","content":"hi"}])", extra, "}"),
                             0);
  };
  EXPECT_EQ(render(""), "hi<think>");
  EXPECT_EQ(render(R"(,"enable_thinking":false)"), "hi");
  request = {};
  request.thinking = ThinkingDefault::kOff;
  Apply(request);
  EXPECT_EQ(*Metadata().jinja_prompt_template, ThinkingPrologue(false) + kTemplate);
  request.thinking = ThinkingDefault::kTemplate;
  Apply(request);
  EXPECT_EQ(*Metadata().jinja_prompt_template, kTemplate);
}

TEST_F(Edit, AnotherEditBetweenReadingAndPlanningIsNotUndone) {
  const auto bundle = Open();
  EditRequest request;
  request.system = {{"Authors", "another"}};  // does not change the size of the file
  Apply(request);
  request.system = {{"Name", "me"}};
  const auto plan = PlanEdit(*bundle, request);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.message().find("has changed"), std::string::npos);
}

TEST_F(Edit, ReadersBesideAnEditFindTheFileWhole) {
  std::atomic<bool> done = false;
  std::atomic<int> opened = 0;
  std::vector<std::string> refusals;
  std::thread reader([&] {
    while (!done) {
      const auto bundle = litertlm::Bundle::Open(path_);
      if (!bundle.ok()) refusals.emplace_back(bundle.message());
      ++opened;
    }
  });
  for (int i = 1; i <= 30; ++i) {
    if (i % 8 == 0) Put(original_);
    EditRequest request;
    request.top_k = i;
    auto plan = PlanEdit(*Open(), request);
    ASSERT_TRUE(plan.ok()) << plan.message();
    EXPECT_TRUE(WriteInPlace(path_, plan->in_place).ok());
  }
  done = true;
  reader.join();
  EXPECT_TRUE(refusals.empty()) << refusals.size() << " of " << opened << ": " << refusals[0];
}

TEST_F(Edit, AFileThatChangedMeanwhileIsLeftAlone) {
  EditRequest request;
  request.system = {{"Authors", "me"}};
  const EditPlan plan = Plan(request);
  request.system = {{"Authors", "another"}};
  Apply(request);
  const auto before = ReadFile(path_);
  const Status status = WriteInPlace(path_, plan.in_place);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("has changed"), std::string::npos);
  EXPECT_EQ(*ReadFile(path_), *before);
  fs::create_symlink(path_, path_ + ".link");
  EXPECT_NE(WriteInPlace(path_ + ".link", plan.in_place).message().find("is a link"),
            std::string::npos);
}

}  // namespace
}  // namespace hone::bundle
