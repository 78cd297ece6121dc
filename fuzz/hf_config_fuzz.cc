// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The input is the files of a folder, each ended by a zero byte; files that are not given are
// absent.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/check.h"
#include "formats/hf_config/hf_config.h"

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "hone_fuzz_XXXXXX").string();
    const char* made = ::mkdtemp(name.data());
    HONE_CHECK(made != nullptr);
    path_ = made;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  // What each file holds now: only a change is written.
  static std::map<std::string, std::string> written;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json",
                           "generation_config.json", "chat_template.jinja"}) {
    const std::string path = folder.path() + "/" + name;
    const auto end = rest.find('\0');
    if (end == std::string_view::npos) {
      if (written.erase(path) > 0) std::filesystem::remove(path);
      continue;
    }
    const std::string text(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    const auto [known, is_new] = written.emplace(path, text);
    if (!is_new && known->second == text) continue;
    known->second = text;
    std::ofstream(path, std::ios::binary) << text;
  }
  const auto read = hone::formats::ReadHfFolder(folder.path());
  if (!read.ok()) {
    HONE_CHECK(!read.message().empty() && read.code() != hone::Code::kInternal);
    return 0;
  }
  const auto tokenizer = hone::ParseJson(read->text.tokenizer_json);
  HONE_CHECK(tokenizer.ok() && hone::formats::CheckTokenizerJson(*tokenizer).ok());
  return 0;
}
