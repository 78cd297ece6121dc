// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The option --tool-family of commands that write bundles.
#pragma once

#include <string>

#include "base/status.h"

namespace hone::cli {

// The name of a family in chat/tool_family.h; "none" gives "". Else kInvalidArgument with the list.
Result<std::string> ParseToolFamily(const std::string& text);

}  // namespace hone::cli
