// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/regex.h"

#include "bridge/no_bridge/not_built.h"

namespace hone::bridge {

Result<Regex> Regex::Compile(std::string_view /*pattern*/) { return NotBuilt(); }
bool Regex::Search(std::string_view /*text*/) const { return false; }

}  // namespace hone::bridge
