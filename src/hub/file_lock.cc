// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace hone::hub {

Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return {};
  return Status(Code::kIo, StrCat(path, ": cannot create the folder: ", error.message()));
}

Result<std::optional<FileLock>> FileLock::Try(const std::string& path) {
  HONE_TRY(MakeFolders(std::filesystem::path(path).parent_path().string()));
  FileLock lock;
  for (int attempt = 0; attempt < 10; ++attempt) {
    lock = FileLock();
    // Writable for the group, as huggingface_hub does it: a cache may be shared.
    lock.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (lock.fd_ < 0) {
      return Status(Code::kIo, StrCat(path, ": cannot open the lock: ", std::strerror(errno)));
    }
    if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return std::optional<FileLock>();
      // A file system without locks: two programs would then only load the same bytes twice, each
      // checked and renamed on its own.
      if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP)
        return std::optional(std::move(lock));
      return Status(Code::kIo, StrCat(path, ": cannot lock: ", std::strerror(errno)));
    }
    // Some programs remove the file when they let go; then this is the lock of a file that is gone.
    struct stat ours{};
    struct stat there{};
    if (::fstat(lock.fd_, &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
        ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) {
      return std::optional(std::move(lock));
    }
  }
  return std::optional<FileLock>();
}

FileLock::FileLock(FileLock&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& o) noexcept {
  std::swap(fd_, o.fd_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace hone::hub
