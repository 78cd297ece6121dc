// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the readers of both kinds of recipe share.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

namespace hone::quant {

inline Status Invalid(std::string message) {
  return Status(Code::kInvalidArgument, std::move(message));
}

inline Status RefuseUnknownKeys(const Json& object, std::span<const std::string_view> known) {
  for (const auto& [key, value] : object.AsObject()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return Invalid(StrCat("unknown key \"", key, "\"; known are ", Join(known, ", ")));
  }
  return {};
}

}  // namespace hone::quant
