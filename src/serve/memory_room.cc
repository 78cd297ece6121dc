// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/memory_room.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.h"

namespace hone::serve {
namespace {

namespace fs = std::filesystem;
using Bytes = std::optional<std::uint64_t>;

constexpr std::uint64_t kMaxText = 1U << 20;
constexpr std::uint64_t kWorkBytes = 64U << 20;

std::string Text(const std::string& path) {
  auto text = ReadFile(path, kMaxText);
  return text.ok() ? *std::move(text) : "";
}

// The number at the beginning of text, after blanks.
Bytes Number(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin);
  std::uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// The number behind key at the beginning of a line.
Bytes Field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    if (text.starts_with(key)) return Number(text.substr(key.size(), end - key.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

Bytes Smaller(Bytes a, Bytes b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// Room of one control group. Pages of files that were not used lately can be dropped.
Bytes RoomOfGroup(const std::string& folder, const char* limit_name, const char* used_name,
                  std::string_view inactive_key) {
  const Bytes limit = Number(Text(StrCat(folder, "/", limit_name)));  // "max" is no number
  const Bytes used = Number(Text(StrCat(folder, "/", used_name)));
  if (!limit || !used) return std::nullopt;
  const std::uint64_t inactive =
      Field(Text(StrCat(folder, "/memory.stat")), inactive_key).value_or(0);
  const std::uint64_t held = *used - std::min(inactive, *used);
  return *limit - std::min(held, *limit);
}

Bytes RoomOfGroup2(const std::string& folder) {
  return RoomOfGroup(folder, "memory.max", "memory.current", "inactive_file ");
}
Bytes RoomOfGroup1(const std::string& folder) {
  return RoomOfGroup(folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                     "total_inactive_file ");
}

// The smallest room of the group at path and of those above it, as far as they are visible.
Bytes WalkUp(const std::string& mount, std::string path, Bytes (*room_of)(const std::string&)) {
  Bytes room = room_of(mount);
  if (path.find("..") != std::string::npos) return room;
  while (path.size() > 1) {
    room = Smaller(room, room_of(mount + path));
    path.resize(path.rfind('/'));
  }
  return room;
}

Bytes RoomOfGroups(const std::string& root) {
  const std::string text = Text(root + "/proc/self/cgroup");  // "4:memory:/a/b", "0::/a/b"
  std::string_view rest = text;
  Bytes room;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1).find('/') != 0) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers.empty()) {
      room = Smaller(room, WalkUp(root + "/sys/fs/cgroup", path, RoomOfGroup2));
    } else if (controllers == "memory") {
      room = Smaller(room, WalkUp(root + "/sys/fs/cgroup/memory", path, RoomOfGroup1));
    }
  }
  return room;
}

}  // namespace

Bytes AvailableMemory(const std::string& root) {
  const Bytes kilobytes = Field(Text(root + "/proc/meminfo"), "MemAvailable:");
  const Bytes machine = kilobytes ? Bytes(*kilobytes * 1024) : std::nullopt;
  return Smaller(machine, RoomOfGroups(root));
}

Result<std::uint64_t> ModelFileBytes(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return Status(Code::kNotFound, StrCat(path, ": no such file or folder"));
  }
  if (!fs::is_directory(status)) {
    const std::uint64_t bytes = fs::file_size(path, error);
    if (error) return Status(Code::kIo, StrCat(path, ": ", error.message()));
    return bytes;
  }
  std::uint64_t sum = 0;
  fs::directory_iterator entry(path, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;  // a file that has just gone counts nothing
    if (!entry->is_regular_file(ignored)) continue;
    const std::uint64_t bytes = entry->file_size(ignored);
    if (!ignored) sum += bytes;
  }
  if (error) return Status(Code::kIo, StrCat(path, ": ", error.message()));
  return sum;
}

std::uint64_t LoadBytes(std::uint64_t file_bytes) {
  return file_bytes + file_bytes / 8 + kWorkBytes;
}

}  // namespace hone::serve
