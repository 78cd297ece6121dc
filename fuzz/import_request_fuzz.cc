// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Bodies of POST /models/import: what is taken can be a model, what is refused can be sent.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "serve/import_request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hone::serve::Request request;
  request.method = "POST";
  request.path = "/models/import";
  request.body.assign(reinterpret_cast<const char*>(data), size);
  request.remote = "127.0.0.1:1";
  const auto wish = hone::serve::CheckImport(request, /*allowed=*/true);
  if (!wish.ok()) {
    HONE_CHECK(wish.error().http_status == 400 && !wish.error().message.empty());
    HONE_CHECK(hone::ParseJson(hone::serve::openai::ErrorJson(wish.error()).Dump()).ok());
    return 0;
  }
  HONE_CHECK(wish->entry.path.starts_with('/'));
  HONE_CHECK(!wish->entry.context || *wish->entry.context >= 1);
  HONE_CHECK(!hone::serve::CheckImport(request, /*allowed=*/false).ok());
  return 0;
}
