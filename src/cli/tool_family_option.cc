// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/tool_family_option.h"

#include "chat/tool_family.h"

namespace hone::cli {

Result<std::string> ParseToolFamily(const std::string& text) {
  if (text == "none") return std::string();
  if (chat::FindToolFamily(text) != nullptr) return text;
  std::string names;
  for (const chat::ToolFamily& family : chat::ToolFamilies()) names += StrCat(family.name, ", ");
  return Status(Code::kInvalidArgument,
                StrCat("--tool-family: found '", text, "', expected ", names, "or none"));
}

}  // namespace hone::cli
