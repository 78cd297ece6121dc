// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Checks of arguments that the parser of the command line cannot do well.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hone::cli {

// Refuses before the work what would fail after it: a name that is empty, a folder or a device, and
// a folder that does not exist.
Status CheckOutputPath(const std::string& path);

// Refuses to replace the source, or a file that does not begin with magic: a wrong name must not
// cost another file. An empty file may be replaced, since it holds nothing to lose.
Status CheckReplaces(const std::string& out, const std::string& source, std::string_view magic,
                     std::string_view kind);

// Both checks for a bundle that is written from source, and whether it may replace a bundle.
Status CheckBundleOutput(const std::string& out, const std::string& source, bool force);

// "1,35, 87": at least one number, each in [low, high], spaces around them allowed.
Result<std::vector<std::int64_t>> ParseNumberList(std::string_view option, std::string_view text,
                                                  std::int64_t low, std::int64_t high);

// "134217728", "128MiB", "1GiB", "1.5GiB", "2GB": a number of bytes, at least 1. KiB, MiB and GiB
// are powers of 1024, KB, MB and GB of 1000.
Result<std::uint64_t> ParseByteCount(std::string_view option, std::string_view text);

// The name of the argument and what is wrong, if text is not UTF-8.
Status CheckUtf8(std::string_view argument, std::string_view text);

// For CLI::Option::check: "" if the word is a whole number of 64 bits, else what is wrong. The
// parser itself takes a larger number for the largest one.
std::string WholeNumber(const std::string& word);

// For CLI::Option::transform of --threads: "auto" is another word for 0, the rest stays.
std::string ThreadsWord(const std::string& word);
// What --threads does, for its help.
inline constexpr const char* kThreadsHelp =
    "A number, or auto (0): the performance cores that this process may use, capped by the "
    "container's quota";

}  // namespace hone::cli
