// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace hone::internal {

void CheckFailed(const char* expr, const char* file, int line) {
  std::fprintf(stderr, "hone: internal error: %s is false at %s:%d\n", expr, file, line);
  std::abort();
}

}  // namespace hone::internal
