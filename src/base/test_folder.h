// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A folder for the files of one test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/status.h"

namespace hone {

// A fresh folder that is removed with the object.
class TestFolder {
 public:
  TestFolder() {
    path_ = (std::filesystem::temp_directory_path() / "hone_test_XXXXXX").string();
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return StrCat(path_, "/", name); }
  // Folders in the name are made.
  void Write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path path(File(name));
    std::filesystem::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out << bytes;
    EXPECT_TRUE(out.flush().good()) << path;
  }
  // The files of another folder, writable.
  void CopyFrom(const std::string& folder) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string copy = File(entry.path().filename().string());
      std::filesystem::copy_file(entry.path(), copy);
      std::filesystem::permissions(copy, std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    }
  }

 private:
  std::string path_;
};

}  // namespace hone
