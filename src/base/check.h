// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Checks of our own logic. Never reachable from a file or a request: bad input returns a Status.
#pragma once

namespace hone::internal {
[[noreturn]] void CheckFailed(const char* expr, const char* file, int line);
}

#define HONE_CHECK(x) \
  ((x) ? static_cast<void>(0) : ::hone::internal::CheckFailed(#x, __FILE__, __LINE__))
#ifdef HONE_DEBUG_CHECKS
#define HONE_DCHECK(x) HONE_CHECK(x)
#else
#define HONE_DCHECK(x) static_cast<void>(0)
#endif
