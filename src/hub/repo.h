// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Names: of a model on the hub, of its revisions and files, and patterns over them. Nothing that a
// server says becomes a path before it has passed here.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace hone::hub {

struct RepoRef {
  std::string name;  // ORG/NAME
  std::string revision = "main";
};

// Reads ORG/NAME, ORG/NAME@REVISION, hf://ORG/NAME and the address of a model's page.
Result<RepoRef> ParseRepoRef(std::string_view text);

// A path that stays inside the folder that it is joined to, also on Windows: no "..", no absolute
// path, no drive, no control character, nothing under .git.
Status CheckFileName(std::string_view name);

// Exactly that many lower-case hex digits.
bool IsHex(std::string_view text, std::size_t digits);

// What may be the name of a blob in the cache: an etag without quotes.
bool IsBlobName(std::string_view text);

// For an address: everything but letters, digits and "-._~" as %XX, and '/' too unless keep_slash.
std::string QuoteUrl(std::string_view text, bool keep_slash);

// As a shell, except that * also matches '/': "*.json", "onnx/*", "model-0000[12]-*". A pattern
// that ends in '/' means all that lies below.
bool MatchesGlob(std::string_view pattern, std::string_view text);

}  // namespace hone::hub
