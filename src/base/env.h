// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The only place that reads environment variables. hone --help-env prints the table.
#pragma once

#include <span>
#include <string>

namespace hone {

struct EnvVar {
  const char* name;
  const char* meaning;
};

std::span<const EnvVar> EnvTable();

// The value of a variable of the table, or "" if it is not set. Any other name is our fault.
std::string GetEnv(const char* name);

}  // namespace hone
