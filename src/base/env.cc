// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <cstdlib>
#include <string_view>

#include "base/check.h"

namespace hone {
namespace {
constexpr EnvVar kTable[] = {
    {"HONE_CPU", "caps the kernels: portable, avx2, avx512vnni, neon_dot, neon_i8mm (for tests)"},
    {"HONE_PYTHON", "the Python that 'hone pull' runs, python3 if unset"},
    {"NO_COLOR", "any value: no colour on a terminal"},
};
}  // namespace

std::span<const EnvVar> EnvTable() { return kTable; }

std::string GetEnv(const char* name) {
  bool known = false;
  for (const EnvVar& var : kTable) known = known || std::string_view(var.name) == name;
  HONE_CHECK(known);
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace hone
