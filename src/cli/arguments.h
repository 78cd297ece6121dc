// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Checks of arguments that the parser of the command line cannot do well.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hone::cli {

// Refuses before the work what would fail after it: a name that is empty, a folder or a device, and
// a folder that does not exist.
Status CheckOutputPath(const std::string& path);

// "1,35, 87": at least one number, each in [low, high], spaces around them allowed.
Result<std::vector<std::int64_t>> ParseNumberList(std::string_view option, std::string_view text,
                                                  std::int64_t low, std::int64_t high);

}  // namespace hone::cli
