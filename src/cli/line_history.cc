// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/line_history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/env.h"
#include "base/file.h"
#include "formats/foreign_file.h"

namespace hone::cli {
namespace {

// What a file may have grown to while several chats appended to it.
constexpr std::uint64_t kMaxFileBytes = 64 << 20;

Status IoError(const std::string& path, const char* what) {
  return Status(Code::kIo, StrCat(path, ": ", what, ": ", std::strerror(errno)));
}

std::string ReadLine(std::string_view line) {
  std::string message;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      message += line[i];
    } else {
      ++i;
      message += line[i] == 'n' ? '\n' : line[i];
    }
  }
  return message;
}

// Writes text to a file that is opened with flags and only the user's.
Status WriteOwn(const std::string& path, int flags, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (fd < 0) return IoError(path, "cannot be opened");
  const ssize_t count = ::fchmod(fd, 0600) == 0 ? ::write(fd, text.data(), text.size()) : -1;
  const bool written = count == static_cast<ssize_t>(text.size());
  Status status = written ? Status() : IoError(path, "cannot be written");
  if (::close(fd) != 0 && written) return IoError(path, "cannot be written");
  return status;
}

// The folder and those above it, only the user's if they are new.
Status MakeFolders(const std::filesystem::path& folder) {
  if (folder.empty() || IsDirectory(folder.string())) return Status();
  HONE_TRY(MakeFolders(folder.parent_path()));
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return Status();
  return IoError(folder.string(), "cannot be made");
}

}  // namespace

std::string HistoryPath() {
  const std::string state = GetEnv("XDG_STATE_HOME");
  if (state.starts_with('/')) return state + "/hone/history";
  const std::string home = GetEnv("HOME");
  return home.empty() ? "" : home + "/.local/state/hone/history";
}

std::string HistoryLine(std::string_view message) {
  std::string line;
  for (const char c : message) {
    if (c == '\\') {
      line += "\\\\";
    } else if (c == '\n') {
      line += "\\n";
    } else {
      line += c;
    }
  }
  return line + '\n';
}

std::vector<std::string> ParseHistory(std::string_view text) {
  std::vector<std::string> newest;
  std::size_t bytes = 0;
  while (!text.empty() && newest.size() < kMaxHistory) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    const std::size_t end = text.rfind('\n');
    const std::size_t begin = end == std::string_view::npos ? 0 : end + 1;
    const std::string_view line = text.substr(begin);
    text = text.substr(0, begin);
    if (line.empty() || line.size() > 2 * kMaxHistoryEntry || !formats::IsUtf8(line)) continue;
    std::string message = ReadLine(line);
    if (message.size() > kMaxHistoryEntry || message.find('\0') != std::string::npos) continue;
    bytes += line.size() + 1;
    if (bytes > kMaxHistoryBytes) break;
    newest.push_back(std::move(message));
  }
  return {newest.rbegin(), newest.rend()};
}

Result<std::vector<std::string>> LineHistory::Load() const {
  if (!FileExists(path_)) return std::vector<std::string>();
  HONE_ASSIGN(const std::string text, ReadFile(path_, kMaxFileBytes));
  std::vector<std::string> messages = ParseHistory(text);
  // Only now and then, so that most chats only append.
  std::size_t lines = 0;
  for (const char c : text) lines += c == '\n' ? 1 : 0;
  if (lines > kMaxHistory + kMaxHistory / 4 || text.size() > 2 * kMaxHistoryBytes) {
    HONE_TRY(Rewrite(messages));
  }
  return messages;
}

Status LineHistory::Append(std::string_view message) const {
  if (message.empty() || message.size() > kMaxHistoryEntry) return Status();
  if (message.find('\0') != std::string_view::npos || !formats::IsUtf8(message)) return Status();
  HONE_TRY(MakeFolders(std::filesystem::path(path_).parent_path()));
  return WriteOwn(path_, O_APPEND, HistoryLine(message));
}

Status LineHistory::Rewrite(const std::vector<std::string>& messages) const {
  std::string text;
  for (const std::string& message : messages) text += HistoryLine(message);
  const std::string fresh = StrCat(path_, ".", ::getpid());
  Status status = WriteOwn(fresh, O_TRUNC, text);
  if (status.ok() && std::rename(fresh.c_str(), path_.c_str()) != 0) {
    status = IoError(path_, "cannot be replaced");
  }
  if (!status.ok()) ::unlink(fresh.c_str());
  return status;
}

}  // namespace hone::cli
