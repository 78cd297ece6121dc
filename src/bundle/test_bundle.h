// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Bundles taken apart in memory, so that tests can break one thing and put them together again.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "formats/litertlm/litertlm.h"
#include "formats/litertlm/llm_metadata.h"
#include "formats/tflite/tflite.h"

namespace hone::bundle {

class TestBundle {
 public:
  struct Part {
    formats::litertlm::Section section;
    std::string content;
  };
  using EditedModel = formats::tflite::Model;
  // New constants of an edited model.
  using Storage = std::vector<std::vector<std::byte>>;

  // The golden bundle of that name, such as "tiny-llama-wi4b32/model.litertlm".
  explicit TestBundle(const std::string& golden);
  static TestBundle Open(const std::string& path);

  std::vector<Part> parts;
  // Changes the header behind the layout of the sections, before it is written.
  std::function<void(formats::litertlm::Header&)> edit_header;
  std::uint64_t first_begin = formats::litertlm::kSectionAlignment;

  Part* Find(formats::litertlm::SectionType type, std::string_view model_type = "");
  void Remove(formats::litertlm::SectionType type, std::string_view model_type = "");
  void Add(formats::litertlm::SectionType type, std::string content,
           std::vector<formats::litertlm::KeyValue> items = {});
  void EditLlm(const std::function<void(formats::litertlm::LlmMetadata&)>& edit);
  void EditExecutor(const std::function<void(formats::litertlm::ExecutorMetadata&)>& edit);
  void EditTokenizer(const std::function<void(std::string& json)>& edit);
  void EditModel(std::string_view model_type,
                 const std::function<void(EditedModel& model, Storage& storage)>& edit);
  void SetTemplate(std::string source);
  void SetHone(std::string_view json);

  std::vector<std::byte> Bytes() const;
  // Writes the bundle to a file of the running test and returns its path.
  std::string Write(const std::string& name = "bundle.litertlm") const;

 private:
  TestBundle() = default;
};

// A path in the temporary folder for the running test.
std::string TestPath(const std::string& name);

// The constant behind a tensor, changed: the buffer gets a copy of its own.
std::vector<std::byte>& OwnBuffer(formats::tflite::Model& model, std::uint32_t buffer,
                                  TestBundle::Storage& storage);

}  // namespace hone::bundle
