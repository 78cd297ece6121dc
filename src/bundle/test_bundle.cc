// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/test_bundle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "formats/tflite/test_models.h"

namespace hone::bundle {

namespace litertlm = formats::litertlm;
namespace tflite = formats::tflite;
using litertlm::SectionType;

TestBundle::TestBundle(const std::string& golden)
    : TestBundle(Open(StrCat(HONE_SHARED_DATA, "/golden/bundles/", golden))) {}

TestBundle TestBundle::Open(const std::string& path) {
  TestBundle out;
  auto bundle = litertlm::Bundle::Open(path);
  if (!bundle.ok()) {
    ADD_FAILURE() << bundle.message();
    return out;
  }
  for (const litertlm::Section& section : (*bundle)->header().sections) {
    out.parts.push_back({section, std::string(AsText((*bundle)->SectionBytes(section)))});
  }
  return out;
}

TestBundle::Part* TestBundle::Find(SectionType type, std::string_view model_type) {
  for (Part& part : parts) {
    if (part.section.type != type) continue;
    if (model_type.empty() || part.section.Item("model_type") == model_type) return &part;
  }
  ADD_FAILURE() << "no section " << litertlm::SectionTypeName(type) << " " << model_type;
  static Part none;
  return &none;
}

void TestBundle::Remove(SectionType type, std::string_view model_type) {
  const Part* part = Find(type, model_type);
  std::erase_if(parts, [part](const Part& p) { return &p == part; });
}

void TestBundle::Add(SectionType type, std::string content, std::vector<litertlm::KeyValue> items) {
  litertlm::Section section;
  section.type = type;
  section.items = std::move(items);
  parts.push_back({std::move(section), std::move(content)});
}

void TestBundle::EditLlm(const std::function<void(litertlm::LlmMetadata&)>& edit) {
  Part* part = Find(SectionType::kLlmMetadata);
  auto metadata = litertlm::ParseLlmMetadata(AsBytes(part->content));
  ASSERT_TRUE(metadata.ok()) << metadata.message();
  edit(*metadata);
  part->content = litertlm::EncodeLlmMetadata(*metadata);
}

void TestBundle::EditExecutor(const std::function<void(litertlm::ExecutorMetadata&)>& edit) {
  Part* part = Find(SectionType::kExecutorMetadata);
  auto metadata = litertlm::ParseExecutorMetadata(AsBytes(part->content));
  ASSERT_TRUE(metadata.ok()) << metadata.message();
  edit(*metadata);
  part->content = litertlm::EncodeExecutorMetadata(*metadata);
}

void TestBundle::EditTokenizer(const std::function<void(std::string&)>& edit) {
  Part* part = Find(SectionType::kHfTokenizerZlib);
  auto json = litertlm::InflateTokenizer(AsBytes(part->content));
  ASSERT_TRUE(json.ok()) << json.message();
  edit(*json);
  part->content = std::string(AsText(litertlm::DeflateTokenizer(*json)));
}

void TestBundle::EditModel(std::string_view model_type,
                           const std::function<void(EditedModel&, Storage&)>& edit) {
  Part* part = Find(SectionType::kTfliteModel, model_type);
  auto model = tflite::ReadModel(AsBytes(part->content));
  ASSERT_TRUE(model.ok()) << model.message();
  Storage storage;
  edit(*model, storage);
  part->content = std::string(AsText(tflite::WriteToMemory(*model, true, ~0ULL)));
}

void TestBundle::SetTemplate(std::string source) {
  EditLlm([&](litertlm::LlmMetadata& m) { m.jinja_prompt_template = std::move(source); });
}

void TestBundle::SetHone(std::string_view json) {
  std::erase_if(parts, [](const Part& p) { return p.section.Item("name") == "hone.json"; });
  Add(SectionType::kGenericBinaryData, std::string(json), {{.key = "name", .value = "hone.json"}});
}

std::vector<std::byte> TestBundle::Bytes() const {
  litertlm::Header header;
  std::uint64_t end = 0;
  for (const Part& part : parts) {
    litertlm::Section section = part.section;
    section.begin = std::max(first_begin, RoundUp(end, litertlm::kSectionAlignment));
    end = section.end = section.begin + part.content.size();
    header.sections.push_back(std::move(section));
  }
  std::vector<std::byte> bytes(end);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ByteSpan content = AsBytes(parts[i].content);
    std::copy(content.begin(), content.end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(header.sections[i].begin));
  }
  if (edit_header) edit_header(header);
  const auto head = litertlm::EncodeHeader(header);
  if (!head.ok()) {
    ADD_FAILURE() << head.message();
    return {};
  }
  std::copy(head->begin(), head->end(), bytes.begin());
  return bytes;
}

std::string TestBundle::Write(const std::string& name) const {
  const std::string path = TestPath(name);
  const Status status = WriteFileAtomic(path, Bytes());
  EXPECT_TRUE(status.ok()) << status.message();
  return path;
}

std::string TestPath(const std::string& name) {
  std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(test.begin(), test.end(), '/', '_');
  return StrCat(::testing::TempDir(), "hone_", ::getpid(), "_", test, "_", name);
}

std::vector<std::byte>& OwnBuffer(tflite::Model& model, std::uint32_t buffer,
                                  TestBundle::Storage& storage) {
  const ByteSpan data = model.buffers[buffer].data;
  storage.emplace_back(data.begin(), data.end());
  model.buffers[buffer].data = storage.back();
  return storage.back();
}

}  // namespace hone::bundle
