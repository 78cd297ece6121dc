// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Every wrong checkpoint of golden/bad: the verdict, the words, and no file left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "run_command.h"

namespace hone::testing {
namespace {

std::string Lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return s;
}

// "a|b": either.
bool HasWord(const std::string& line, const std::string& alternatives) {
  std::size_t begin = 0;
  while (begin <= alternatives.size()) {
    std::size_t end = alternatives.find('|', begin);
    if (end == std::string::npos) end = alternatives.size();
    if (line.find(Lower(alternatives.substr(begin, end - begin))) != std::string::npos) return true;
    begin = end + 1;
  }
  return false;
}

bool SomeLineHasAll(const std::string& text, const std::vector<std::string>& words) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::string line = Lower(text.substr(begin, end - begin));
    if (std::all_of(words.begin(), words.end(), [&](const auto& w) { return HasWord(line, w); })) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

class BadInput : public ::testing::TestWithParam<std::string> {};

TEST_P(BadInput, IsRefusedOrWarnedAboutByName) {
  const std::string folder = std::string(HONE_SHARED_DATA) + "/golden/bad/" + GetParam();
  auto text = ReadFile(folder + "/expect.json");
  ASSERT_TRUE(text.ok()) << text.message();
  auto expect = ParseJson(*text);
  ASSERT_TRUE(expect.ok()) << expect.message();
  const std::string verdict = *GetString(*expect, "verdict");
  std::vector<std::string> words;
  if (const Json* list = expect->Find("message_should_contain_all");
      list != nullptr && list->IsArray()) {
    for (const Json& w : list->AsArray()) words.push_back(w.AsString());
  }
  const std::string tmp = MakeTempFolder("hone-bad");
  const std::string out = tmp + "/out.litertlm";
  const CommandResult r =
      RunCommand({HONE_PROGRAM, "convert", folder, "-o", out, "--quant", "none"});
  SCOPED_TRACE(r.err);
  if (verdict == "accept") {
    EXPECT_EQ(r.exit_code, 0);
    EXPECT_TRUE(FileExists(out));
  } else if (verdict == "refuse" || r.exit_code != 0) {
    EXPECT_TRUE(r.exit_code == 2 || r.exit_code == 5) << r.exit_code;
    EXPECT_TRUE(ListFolder(tmp).empty());
    EXPECT_TRUE(SomeLineHasAll(r.err, words));
  } else {
    EXPECT_EQ(verdict, "refuse-or-warn");
    EXPECT_TRUE(FileExists(out));
    EXPECT_TRUE(SomeLineHasAll(r.err, words));
  }
  RemoveFolder(tmp);
}

std::vector<std::string> Cases() {
  std::vector<std::string> names;
  for (const std::string& name : ListFolder(std::string(HONE_SHARED_DATA) + "/golden/bad")) {
    if (IsDirectory(std::string(HONE_SHARED_DATA) + "/golden/bad/" + name)) names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, BadInput, ::testing::ValuesIn(Cases()), [](const auto& param_info) {
  std::string name = param_info.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace hone::testing
