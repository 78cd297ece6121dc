// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/chat_template.h"

#include "bridge/no_bridge/not_built.h"

namespace hone::bridge {

struct ChatTemplate::Impl {};

Result<ChatTemplate> ChatTemplate::Compile(std::string_view /*source*/) { return NotBuilt(); }

Result<std::string> ChatTemplate::Render(std::string_view /*context_json*/,
                                         std::int64_t /*local_now*/) const {
  return NotBuilt();
}

}  // namespace hone::bridge
