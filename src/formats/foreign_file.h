// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Helpers of the readers: what a wrong file is, paths, valid UTF-8, short quotes.
#pragma once

#include <string>
#include <string_view>

#include "base/span_util.h"

namespace hone::formats {

// What a file is that was meant to be something else, and what to do: "this is a Git LFS pointer,
// ..." or "this is a web page, ...". Empty if nothing is recognized.
std::string DescribeForeignFile(ByteSpan bytes);

// The path of a file in a folder, which may end with a slash.
std::string JoinPath(const std::string& folder, std::string_view name);

// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(std::string_view text);

// The text in double quotes for a message: one line, clipped, other bytes as \xNN.
std::string Quote(std::string_view text);

}  // namespace hone::formats
