// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, used if it loads: ids stay below size(), a stream never splits UTF-8.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "bridge/tokenizer.h"

namespace {

bool IsUtf8(const std::string& text) { return hone::ParseJson(hone::Json(text).Dump()).ok(); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = hone::bridge::Tokenizer::FromJson(json);
  if (!tokenizer.ok()) return 0;
  const auto ids = tokenizer->Encode("Hi there,  12 \xc3\xa9\xf0\x9f\x99\x82<s>\n",
                                     {.add_special_tokens = true});
  if (!ids.ok()) return 0;
  hone::bridge::StreamDecoder stream(*tokenizer, false);
  for (const std::int32_t id : *ids) {
    HONE_CHECK(id >= 0 && id < tokenizer->size());
    static_cast<void>(tokenizer->TokenBytes(id).ok());
    const auto part = stream.Push(id);
    if (part.ok()) HONE_CHECK(IsUtf8(*part));
  }
  const auto rest = stream.Finish();
  if (rest.ok()) HONE_CHECK(IsUtf8(*rest));
  static_cast<void>(tokenizer->Decode(*ids, true).ok());
  return 0;
}
