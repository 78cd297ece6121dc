// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Template, a NUL byte, context. Neither may crash, and text that comes out is UTF-8.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "bridge/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = input.find('\0');
  const std::string_view source = input.substr(0, cut);
  const std::string_view context =
      cut == std::string_view::npos ? std::string_view("{}") : input.substr(cut + 1);
  const auto compiled = hone::bridge::ChatTemplate::Compile(source);
  if (!compiled.ok()) return 0;
  const auto text = compiled->Render(context, 1796029500);
  if (text.ok()) HONE_CHECK(hone::ParseJson(hone::Json(*text).Dump()).ok());
  return 0;
}
