// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Jinja chat templates, rendered as Transformers renders them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hone::bridge {

// Read-only after creation, so thread-safe. Hostile templates end with an error, not a crash: work,
// output, nesting and source size are limited.
class ChatTemplate {
 public:
  // kDataLoss with line and reason if the syntax is wrong.
  static Result<ChatTemplate> Compile(std::string_view source);

  // context_json is a JSON object of variables, passed as they are (no key is dropped or added).
  // local_now: seconds since 1970 of the local wall clock, for strftime_now. An error that the
  // template raises itself is kInvalidArgument with the template's exact words.
  Result<std::string> Render(std::string_view context_json, std::int64_t local_now) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace hone::bridge
