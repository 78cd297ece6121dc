// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Regular expressions that search in time proportional to the text, whatever the pattern.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hone::bridge {

// A compiled pattern; cheap to copy, read-only, so thread-safe.
class Regex {
 public:
  // Python's and Rust's common syntax. kUnsupported says why a pattern cannot be used: look-around
  // and back references are not known, and pattern and program have size limits.
  static Result<Regex> Compile(std::string_view pattern);
  // Whether the pattern matches anywhere in the text, as Python's re.search. text is UTF-8.
  bool Search(std::string_view text) const;

 private:
  std::shared_ptr<const void> regex_;
};

}  // namespace hone::bridge
