// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace hone::hub {
namespace {

// The notes begin with this line and its parameters, then the map follows. Another line: another
// program's file, or another version's.
std::string HeaderFor(const std::string& etag, std::uint64_t size, std::uint32_t chunk_bytes) {
  return StrCat("\nhone partial 1 ", etag, " ", size, " ", chunk_bytes, "\n");
}

Status WriteAll(int fd, std::uint64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status(Code::kIo, std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Status ReadAll(int fd, std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status(Code::kIo, std::strerror(errno));
    if (n == 0) return Status(Code::kIo, "it became shorter");
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

}  // namespace

Status PartialFile::Fail(const char* what) const {
  return Status(Code::kIo, StrCat(path_, ": ", what, ": ", std::strerror(errno)));
}

std::uint64_t PartialFile::ChunkCount() const { return (size_ + chunk_bytes_ - 1) / chunk_bytes_; }

std::uint64_t PartialFile::ChunkEnd(std::uint64_t chunk) const {
  return std::min(size_, (chunk + 1) * chunk_bytes_);
}

bool PartialFile::Has(std::uint64_t chunk) const {
  return (map_[static_cast<std::size_t>(chunk / 8)] >> (chunk % 8) & 1) != 0;
}

// Reads the map of an earlier run if the file has exactly the form that this one would give it.
Status PartialFile::Load(const std::string& header) {
  struct stat st{};
  if (::fstat(fd_, &st) != 0) return Fail("cannot ask for its size");
  if (static_cast<std::uint64_t>(st.st_size) != map_at_ + map_.size()) {
    return Status(Code::kNotFound, "no earlier run");
  }
  std::string found(header.size(), '\0');
  HONE_TRY(ReadAll(fd_, size_, std::as_writable_bytes(std::span(found))));
  if (found != header) return Status(Code::kNotFound, "another run");
  return ReadAll(fd_, map_at_, std::as_writable_bytes(std::span(map_)));
}

Result<std::unique_ptr<PartialFile>> PartialFile::Open(const std::string& path,
                                                       const std::string& etag, std::uint64_t size,
                                                       std::uint32_t chunk_bytes) {
  std::unique_ptr<PartialFile> file(new PartialFile);
  file->path_ = path;
  file->size_ = size;
  file->chunk_bytes_ = chunk_bytes;
  const std::string header = HeaderFor(etag, size, chunk_bytes);
  file->map_at_ = size + header.size();
  file->map_.resize(static_cast<std::size_t>((file->ChunkCount() + 7) / 8));
  file->fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file->fd_ < 0) return file->Fail("cannot create the file");
  if (file->Load(header).ok()) return file;
  if (::ftruncate(file->fd_, 0) != 0) return file->Fail("cannot begin anew");
  file->map_.assign(file->map_.size(), 0);
  const Status written = WriteAll(file->fd_, size, AsBytes(header));
  if (!written.ok()) return file->Fail("cannot write");
  HONE_TRY(file->Reset());
  return file;
}

std::uint64_t PartialFile::MissingAt(const std::string& path, const std::string& etag,
                                     std::uint64_t size, std::uint32_t chunk_bytes) {
  PartialFile file;
  file.path_ = path;
  file.size_ = size;
  file.chunk_bytes_ = chunk_bytes;
  const std::string header = HeaderFor(etag, size, chunk_bytes);
  file.map_at_ = size + header.size();
  file.map_.resize(static_cast<std::size_t>((file.ChunkCount() + 7) / 8));
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file.fd_ < 0 || !file.Load(header).ok()) return size;
  return file.missing_bytes();
}

PartialFile::~PartialFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::vector<ByteRange> PartialFile::Missing(std::uint64_t max_bytes) const {
  std::vector<ByteRange> ranges;
  for (std::uint64_t chunk = 0; chunk < ChunkCount(); ++chunk) {
    if (Has(chunk)) continue;
    const std::uint64_t begin = chunk * chunk_bytes_;
    const bool joins = !ranges.empty() && ranges.back().end == begin &&
                       ChunkEnd(chunk) - ranges.back().begin <= max_bytes;
    if (joins) {
      ranges.back().end = ChunkEnd(chunk);
    } else {
      ranges.push_back({begin, ChunkEnd(chunk)});
    }
  }
  return ranges;
}

std::uint64_t PartialFile::missing_bytes() const {
  std::uint64_t bytes = 0;
  for (std::uint64_t chunk = 0; chunk < ChunkCount(); ++chunk) {
    if (!Has(chunk)) bytes += ChunkEnd(chunk) - chunk * chunk_bytes_;
  }
  return bytes;
}

Status PartialFile::Reset() {
  map_.assign(map_.size(), 0);
  if (!WriteAll(fd_, map_at_, std::as_bytes(std::span(map_))).ok()) return Fail("cannot write");
  return {};
}

Status PartialFile::Write(std::uint64_t offset, ByteSpan bytes) {
  if (offset > size_ || bytes.size() > size_ - offset) {
    return Status(Code::kInternal, StrCat(path_, ": a write past the end"));
  }
  if (!WriteAll(fd_, offset, bytes).ok()) return Fail("cannot write");
  return {};
}

Status PartialFile::Advance(std::uint64_t begin, std::uint64_t old_end, std::uint64_t new_end) {
  for (std::uint64_t chunk = old_end / chunk_bytes_; chunk < ChunkCount(); ++chunk) {
    if (ChunkEnd(chunk) > new_end) break;
    if (chunk * chunk_bytes_ < begin || Has(chunk)) continue;
    std::uint8_t& byte = map_[static_cast<std::size_t>(chunk / 8)];
    byte = static_cast<std::uint8_t>(byte | 1U << (chunk % 8));
    const Status written =
        WriteAll(fd_, map_at_ + chunk / 8, std::as_bytes(std::span<const std::uint8_t>(&byte, 1)));
    if (!written.ok()) return Fail("cannot write");
  }
  return {};
}

Status PartialFile::ReadAt(std::uint64_t offset, std::span<std::byte> out) const {
  Status status = ReadAll(fd_, offset, out);
  return status.ok() ? Status() : std::move(status).Context(path_);
}

Status PartialFile::MoveTo(const std::string& target) {
  // The long flush comes first: whoever is killed in it still has the notes.
  if (::fsync(fd_) != 0) return Fail("cannot flush");
  if (::ftruncate(fd_, static_cast<off_t>(size_)) != 0) return Fail("cannot cut");
  if (::fsync(fd_) != 0) return Fail("cannot flush");
  if (::rename(path_.c_str(), target.c_str()) != 0) {
    return Status(Code::kIo,
                  StrCat(target, ": cannot move the download there: ", std::strerror(errno)));
  }
  const std::string folder = std::filesystem::path(target).parent_path().string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {  // makes the new name durable; not every file system allows it
    static_cast<void>(::fsync(fd));
    ::close(fd);
  }
  return {};
}

Status PartialFile::Remove() {
  if (::unlink(path_.c_str()) != 0) return Fail("cannot remove");
  return {};
}

}  // namespace hone::hub
