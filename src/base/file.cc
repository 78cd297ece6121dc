// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
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

// Whoever uses a temporary file or folder holds this lock on it; it ends with the process.
enum class Lock { kOurs, kTaken, kNotPossible };
Lock LockTemporary(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? Lock::kTaken : Lock::kNotPossible;
  }
  // Without a name any more: another program took it for a left one before it was locked.
  struct stat st{};
  return ::fstat(fd, &st) == 0 && st.st_nlink > 0 ? Lock::kOurs : Lock::kTaken;
}

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "PID-NUMBER"
bool IsTemporaryEnd(std::string_view text) {
  const std::size_t dash = text.find('-');
  return dash != std::string_view::npos && IsDigits(text.substr(0, dash)) &&
         IsDigits(text.substr(dash + 1));
}

// The names in the folder of prefix that begin with it, as paths.
std::vector<std::string> PathsWithPrefix(const std::string& prefix) {
  const std::string folder = FolderOf(prefix);
  const std::string begin = prefix.substr(prefix.rfind('/') + 1);  // npos + 1 is 0
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename().string().starts_with(begin)) paths.push_back(it->path().string());
  }
  return paths;
}

// Removes what killed programs left: nobody holds its lock.
void RemoveLeftFiles(const std::string& path) {
  for (const std::string& left : PathsWithPrefix(path + ".tmp-")) {
    if (!IsTemporaryEnd(std::string_view(left).substr(left.rfind(".tmp-") + 5))) continue;
    const int fd = ::open(left.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    struct stat st{};
    if (::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && LockTemporary(fd) == Lock::kOurs)
      ::unlink(left.c_str());
    ::close(fd);
  }
}

void RemoveLeftFolders(const std::string& prefix) {
  constexpr std::size_t kRandom = 6;
  for (const std::string& left : PathsWithPrefix(prefix)) {
    if (left.size() - (left.rfind('/') + 1) != prefix.size() - (prefix.rfind('/') + 1) + kRandom)
      continue;
    const int fd = ::open(left.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY);
    if (fd < 0) continue;
    std::error_code ignored;
    if (LockTemporary(fd) == Lock::kOurs) std::filesystem::remove_all(left, ignored);
    ::close(fd);
  }
}

}  // namespace

void RemoveAllTemporaries() {
  for (Slot& slot : g_slots) {
    if (slot.ready.load()) ::unlink(slot.path.data());
  }
  for (Slot& slot : g_slots) {  // the folders, now that their files are gone
    if (slot.ready.load()) ::rmdir(slot.path.data());
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
  RemoveLeftFiles(path);
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string name =
        StrCat(path, ".tmp-", static_cast<long>(::getpid()), "-", counter.fetch_add(1));
    Register(name);  // before the file exists, so that a signal in between leaves nothing behind
    file->fd_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd_ >= 0 && LockTemporary(file->fd_) == Lock::kTaken) {
      ::close(file->fd_);  // another program removes it
      file->fd_ = -1;
      Unregister(name);
      continue;
    }
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

Status AtomicFile::Append(ByteSpan bytes) {
  const std::uint64_t before = size_;
  HONE_TRY(WriteAt(size_, bytes));
#if defined(SYNC_FILE_RANGE_WRITE)
  // Has the disk begin with what is complete, so that Commit waits for the rest alone.
  constexpr std::uint64_t kPart = std::uint64_t{16} << 20;
  const std::uint64_t begin = before / kPart * kPart;
  const std::uint64_t end = size_ / kPart * kPart;
  if (begin < end) {
    static_cast<void>(::sync_file_range(fd_, static_cast<off_t>(begin),
                                        static_cast<off_t>(end - begin), SYNC_FILE_RANGE_WRITE));
  }
#endif
  return {};
}

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

Result<std::unique_ptr<TemporaryFolder>> TemporaryFolder::Create(const std::string& prefix) {
  RemoveLeftFolders(prefix);
  std::unique_ptr<TemporaryFolder> folder(new TemporaryFolder);
  std::string name = prefix + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return Errno(prefix, "cannot create a folder there");
  folder->path_ = name;
  Register(name);
  folder->fd_ = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (folder->fd_ < 0) return Errno(name, "cannot open the folder");
  static_cast<void>(LockTemporary(folder->fd_));  // not every file system can
  return folder;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  for (const std::string& path : expected_) Unregister(path);
  Unregister(path_);
  if (fd_ >= 0) ::close(fd_);
}

void TemporaryFolder::Expect(const std::string& name) {
  expected_.push_back(StrCat(path_, "/", name));
  Register(expected_.back());
}

Status WriteFileAtomic(const std::string& path, ByteSpan bytes) {
  HONE_ASSIGN(auto file, AtomicFile::Create(path));
  HONE_TRY(file->Append(bytes));
  return file->Commit();
}

}  // namespace hone
