// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the tests of this module share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "base/text.h"
#include "formats/npy.h"
#include "model/checkpoint.h"

namespace hone::model {

inline std::string GoldenPath(const std::string& name) {
  return std::string(HONE_SHARED_DATA) + "/golden/" + name;
}

inline std::string ReadText(const std::string& path) {
  auto text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.message();
  return text.ok() ? *std::move(text) : std::string();
}

inline Json ReadJson(const std::string& path) {
  auto json = ParseJson(ReadText(path));
  EXPECT_TRUE(json.ok()) << path << ": " << json.message();
  return json.ok() ? *std::move(json) : Json();
}

inline formats::NpyArray ReadNpy(const std::string& path) {
  auto array = formats::ParseNpy(AsBytes(ReadText(path)));
  EXPECT_TRUE(array.ok()) << path << ": " << array.message();
  return array.ok() ? *std::move(array) : formats::NpyArray();
}

inline std::vector<std::int32_t> ReadIds(const Json& json) {
  std::vector<std::int32_t> out;
  for (const Json& id : json.AsArray()) out.push_back(static_cast<std::int32_t>(id.AsInt()));
  return out;
}

// words is "a|b": one of them must be there, without case.
inline bool HasOneOf(const std::string& text, const std::string& words) {
  std::size_t begin = 0;
  while (begin <= words.size()) {
    const std::size_t end = std::min(words.find('|', begin), words.size());
    if (LowerCase(text).find(LowerCase(words.substr(begin, end - begin))) != std::string::npos)
      return true;
    begin = end + 1;
  }
  return false;
}

// A copy of a good checkpoint whose config.json can be changed.
class EditedCheckpoint : public testing::Test {
 protected:
  void Start(const std::string& source) {
    folder_ = std::make_unique<TestFolder>();
    folder_->CopyFrom(source);
    config_ = ReadJson(folder_->File("config.json"));
  }
  void Erase(std::string_view key) {
    std::erase_if(config_.AsObject(), [&](const Json::Member& m) { return m.first == key; });
  }
  Result<Checkpoint> Open() {
    folder_->Write("config.json", config_.Dump());
    return OpenCheckpoint(folder_->path());
  }
  void ExpectRefused(const std::string& words) {
    auto got = Open();
    EXPECT_FALSE(got.ok()) << words;
    EXPECT_TRUE(HasOneOf(std::string(got.message()), words)) << got.message();
  }
  void ExpectOpens() {
    auto got = Open();
    EXPECT_TRUE(got.ok()) << got.message();
  }
  std::unique_ptr<TestFolder> folder_;
  Json config_;
};

}  // namespace hone::model
