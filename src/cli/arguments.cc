// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/file.h"
#include "formats/foreign_file.h"

namespace hone::cli {

Status CheckOutputPath(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) {
    return Status(Code::kInvalidArgument, "the name of the output is empty");
  }
  std::error_code ignored;
  const fs::path out(path);
  if (fs::is_directory(out, ignored) || !out.has_filename()) {
    return Status(Code::kInvalidArgument, StrCat(path, ": is a folder, expected a file"));
  }
  if (fs::exists(out, ignored) && !fs::is_regular_file(out, ignored)) {
    return Status(Code::kInvalidArgument, StrCat(path, ": is not an ordinary file"));
  }
  const fs::path folder = out.has_parent_path() ? out.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, ignored)) {
    return Status(Code::kNotFound, StrCat(folder.string(), ": no such folder"));
  }
  return {};
}

Status CheckReplaces(const std::string& out, const std::string& source, std::string_view magic,
                     std::string_view kind) {
  std::error_code ignored;
  if (!std::filesystem::exists(out, ignored)) return {};
  if (std::filesystem::equivalent(out, source, ignored)) {
    return Status(Code::kInvalidArgument, StrCat(out, ": would overwrite its own source"));
  }
  std::ifstream in(out, std::ios::binary);
  std::string start(magic.size(), '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(in.gcount()));
  if (start.empty() || start == magic) return {};
  return Status(Code::kInvalidArgument,
                StrCat(out, ": is no ", kind, ", so it is not replaced; give another name"));
}

Status CheckBundleOutput(const std::string& out, const std::string& source, bool force) {
  HONE_TRY(CheckOutputPath(out));
  HONE_TRY(CheckReplaces(out, source, "LITERTLM", ".litertlm bundle"));
  if (!FileExists(out) || force) return {};
  return Status(Code::kInvalidArgument,
                StrCat(out, ": exists already; pass --force to replace it"));
}

Result<std::vector<std::int64_t>> ParseNumberList(std::string_view option, std::string_view text,
                                                  std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || stop != word.data() + word.size() || value < low || value > high) {
      return Status(Code::kInvalidArgument,
                    StrCat(option, ": found \"", word, "\", expected whole numbers from ", low,
                           " to ", high, ", separated by commas"));
    }
    numbers.push_back(value);
    begin = end + 1;
  }
  return numbers;
}

Result<std::uint64_t> ParseByteCount(std::string_view option, std::string_view text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr Unit kUnits[] = {{"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0},
                             {"KB", 1e3},     {"MB", 1e6},        {"GB", 1e9}};
  Status error(Code::kInvalidArgument,
               StrCat(option, ": found \"", text,
                      "\", expected a number of bytes such as 134217728, 128MiB or 1GiB"));
  double factor = 1;
  std::string_view number = text;
  for (const Unit& unit : kUnits) {
    if (!number.ends_with(unit.name)) continue;
    number.remove_suffix(unit.name.size());
    factor = unit.bytes;
    break;
  }
  while (number.ends_with(' ')) number.remove_suffix(1);
  double value = 0;
  const char* end = number.data() + number.size();
  const auto [stop, problem] = std::from_chars(number.data(), end, value, std::chars_format::fixed);
  const double bytes = value * factor;
  if (problem != std::errc() || stop != end || !(bytes >= 1) || bytes > 1e15) return error;
  return static_cast<std::uint64_t>(bytes);
}

Status CheckUtf8(std::string_view argument, std::string_view text) {
  if (formats::IsUtf8(text)) return {};
  return Status(Code::kInvalidArgument, StrCat(argument, ": the text is not UTF-8"));
}

std::string WholeNumber(const std::string& word) {
  std::int64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error == std::errc() && stop == end) return "";
  return StrCat("found ", word, ", expected a whole number that fits in 64 bits");
}

std::string ThreadsWord(const std::string& word) { return word == "auto" ? "0" : word; }

}  // namespace hone::cli
