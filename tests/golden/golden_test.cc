// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs the .test files of this folder: commands with the output that they must give.
//
//   # comment
//   run peek $SHARED/golden/... --json
//   exit 0
//   ---            what follows up to the next blank-line-and-"run" is standard output, byte for
//   byte text
//   ===            ends the expected output
//   err word       standard error must contain the word (several lines allowed)
//   has word       standard output must contain the word
//
// $SHARED, $TESTDATA and $TMP are replaced. Arguments are split at spaces; 'single quotes' keep
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "run_command.h"

namespace hone::testing {
namespace {

struct Case {
  int line = 0;
  std::vector<std::string> argv;
  int exit_code = 0;
  bool has_out = false;
  std::string out;
  std::vector<std::string> out_words, err_words;
};

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::vector<std::string> Split(const std::string& line) {
  std::vector<std::string> args;
  std::string word;
  bool open = false;  // a word has begun; '' is an empty one
  bool quoted = false;
  for (const char c : line) {
    if (c == ' ' && !quoted) {
      if (open) args.push_back(word);
      word.clear();
      open = false;
      continue;
    }
    open = true;
    if (c == '\'') {
      quoted = !quoted;
    } else {
      word.push_back(c);
    }
  }
  if (open) args.push_back(word);
  return args;
}

std::vector<Case> ParseCases(const std::string& path, const std::string& tmp) {
  std::ifstream in(path);
  std::vector<Case> cases;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    line = Replace(Replace(Replace(line, "$SHARED", HONE_SHARED_DATA), "$TESTDATA", HONE_TESTDATA),
                   "$TMP", tmp);
    if (line.empty() || line[0] == '#') continue;
    if (line == "run" || line.rfind("run ", 0) == 0) {
      cases.push_back({number, Split(line.substr(3)), 0, false, "", {}, {}});
    } else if (cases.empty()) {
      ADD_FAILURE() << path << ":" << number << ": a line before the first run";
    } else if (line.rfind("exit ", 0) == 0) {
      cases.back().exit_code = std::stoi(line.substr(5));
    } else if (line.rfind("err ", 0) == 0) {
      cases.back().err_words.push_back(line.substr(4));
    } else if (line.rfind("has ", 0) == 0) {
      cases.back().out_words.push_back(line.substr(4));
    } else if (line == "---") {
      cases.back().has_out = true;
      for (++number; std::getline(in, line) && line != "==="; ++number)
        cases.back().out += line + "\n";
    } else {
      ADD_FAILURE() << path << ":" << number << ": not understood: " << line;
    }
  }
  return cases;
}

TEST(Golden, EveryCommandGivesItsOutput) {
  std::vector<std::string> files;
  for (const auto& e : std::filesystem::directory_iterator(HONE_GOLDEN_DIR)) {
    if (e.path().extension() == ".test") files.push_back(e.path().string());
  }
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  const std::string tmp = MakeTempFolder("hone-golden");
  for (const std::string& file : files) {
    const auto cases = ParseCases(file, tmp);
    EXPECT_FALSE(cases.empty()) << file;
    for (const Case& c : cases) {
      SCOPED_TRACE(file + ":" + std::to_string(c.line));
      std::vector<std::string> argv = {HONE_PROGRAM};
      argv.insert(argv.end(), c.argv.begin(), c.argv.end());
      const CommandResult r = RunCommand(argv);
      EXPECT_EQ(r.exit_code, c.exit_code) << r.err;
      if (c.has_out) {
        EXPECT_EQ(r.out, c.out);
      }
      for (const auto& w : c.out_words)
        EXPECT_NE(r.out.find(w), std::string::npos) << w << "\n" << r.out;
      for (const auto& w : c.err_words)
        EXPECT_NE(r.err.find(w), std::string::npos) << w << "\n" << r.err;
    }
  }
  RemoveFolder(tmp);
}

}  // namespace
}  // namespace hone::testing
