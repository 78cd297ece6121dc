// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

namespace hone {
namespace {

Status Errno(const std::string& path, std::string_view what) {
  const int e = errno;
  const Code code = e == ENOENT || e == ENOTDIR ? Code::kNotFound : Code::kIo;
  return Status(code, StrCat(path, ": ", what, ": ", std::strerror(e)));
}

// Names of the temporary files that are open, in fixed storage so that a signal handler may read
// it.
constexpr std::size_t kMaxTemporaries = 64;
constexpr std::size_t kMaxPath = 4096;
struct Slot {
  std::atomic<bool> used{false};
  std::atomic<bool> ready{false};
  std::array<char, kMaxPath> path{};
};
std::array<Slot, kMaxTemporaries> g_slots;

void Register(const std::string& path) {
  if (path.size() + 1 > kMaxPath) return;
  for (Slot& slot : g_slots) {
    if (slot.used.exchange(true)) continue;
    std::memcpy(slot.path.data(), path.c_str(), path.size() + 1);
    slot.ready.store(true);
    return;
  }
}

void Unregister(const std::string& path) {
  for (Slot& slot : g_slots) {
    if (!slot.ready.load() || path != slot.path.data()) continue;
    slot.ready.store(false);
    slot.used.store(false);
    return;
  }
}

std::string FolderOf(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

void RemoveAllTemporaries() {
  for (Slot& slot : g_slots) {
    if (slot.ready.load()) ::unlink(slot.path.data());
  }
}

Result<std::string> ReadFile(const std::string& path, std::uint64_t max_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Errno(path, "cannot open");
  std::string out;
  std::vector<char> chunk(1 << 16);
  while (true) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      Status s = Errno(path, "cannot read");
      ::close(fd);
      return s;
    }
    if (n == 0) break;
    if (out.size() + static_cast<std::size_t>(n) > max_bytes) {
      ::close(fd);
      return Status(Code::kUnsupported, StrCat(path, ": larger than the ", max_bytes,
                                               " bytes that this file may have"));
    }
    out.append(chunk.data(), static_cast<std::size_t>(n));
  }
  ::close(fd);
  return out;
}

bool FileExists(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

bool IsDirectory(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  std::unique_ptr<AtomicFile> file(new AtomicFile);
  file->path_ = path;
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string name =
        StrCat(path, ".tmp-", static_cast<long>(::getpid()), "-", counter.fetch_add(1));
    Register(name);  // before the file exists, so that a signal in between leaves nothing behind
    file->fd_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd_ >= 0) {
      file->temporary_ = name;
      return file;
    }
    const int error = errno;
    Unregister(name);
    errno = error;
    if (error != EEXIST) return Errno(path, "cannot create a file there");
  }
  return Status(Code::kIo, StrCat(path, ": too many temporary files are left beside it"));
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
  Unregister(temporary_);
}

Status AtomicFile::WriteAt(std::uint64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), 1U << 30),
                               static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Errno(path_, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
    size_ = std::max(size_, offset);
  }
  return {};
}

Status AtomicFile::ReadAt(std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Errno(path_, "cannot read back");
    if (n == 0) return Status(Code::kInternal, StrCat(path_, ": read back past the end"));
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Status AtomicFile::Append(ByteSpan bytes) { return WriteAt(size_, bytes); }

Status AtomicFile::AppendZeros(std::uint64_t count) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  while (count > 0) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(count, kZeros.size()));
    HONE_TRY(Append(ByteSpan(kZeros).first(n)));
    count -= n;
  }
  return {};
}

Status AtomicFile::Commit() {
  if (::fsync(fd_) != 0) return Errno(path_, "cannot flush");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return Errno(path_, "cannot rename");
  Unregister(temporary_);
  ::close(fd_);
  fd_ = -1;
  const int folder = ::open(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {  // makes the new name durable; not every file system allows it
    static_cast<void>(::fsync(folder));
    ::close(folder);
  }
  return {};
}

Status WriteFileAtomic(const std::string& path, ByteSpan bytes) {
  HONE_ASSIGN(auto file, AtomicFile::Create(path));
  HONE_TRY(file->Append(bytes));
  return file->Commit();
}

}  // namespace hone
