// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs a program and catches what it says.
#pragma once

#include <string>
#include <vector>

namespace hone::testing {

struct CommandResult {
  int exit_code = -1;  // 128 + signal if it was killed
  std::string out, err;
};

// argv[0] is a path. Standard input is empty unless given. No shell is involved.
CommandResult RunCommand(const std::vector<std::string>& argv, const std::string& input = "");

// A fresh folder below the test's temporary folder.
std::string MakeTempFolder(const std::string& name);
void RemoveFolder(const std::string& path);
std::vector<std::string> ListFolder(const std::string& path);  // names, sorted

}  // namespace hone::testing
