// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto json = hone::ParseJson({reinterpret_cast<const char*>(data), size});
  if (!json.ok()) return 0;
  // What was read can be written and read again, and means the same.
  const std::string text = json->Dump();
  auto again = hone::ParseJson(text);
  HONE_CHECK(again.ok() && again->Dump() == text);
  return 0;
}
