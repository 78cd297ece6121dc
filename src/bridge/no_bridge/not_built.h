// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.h"

namespace hone::bridge {

inline Status NotBuilt() {
  return {Code::kUnsupported, "this build has no text support (HONE_BRIDGE=OFF)"};
}

}  // namespace hone::bridge
