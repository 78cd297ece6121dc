// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Files: read-only maps, and output that appears whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"

namespace hone {

// A whole file mapped read-only. Movable; the bytes stay valid while the object lives.
// Thread-compatible. Errors name the path. An empty file maps to an empty span.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& o) noexcept;
  MappedFile& operator=(MappedFile&& o) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  ByteSpan bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  const std::string& path() const { return path_; }
  // Tells the kernel that part (which must lie in bytes()) is not needed for now: its pages leave
  // this process. The bytes stay readable.
  void Release(ByteSpan part) const;

 private:
  MappedFile() = default;
  void* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
};

// Tells the kernel that a part of mapped memory is needed soon, so that it reads ahead. Any memory
// may be given.
void PrefetchPages(ByteSpan part);

// The whole file as a string. Refuses files over max_bytes.
Result<std::string> ReadFile(const std::string& path, std::uint64_t max_bytes = 1ULL << 30);

bool FileExists(const std::string& path);
bool IsDirectory(const std::string& path);

// Output that appears at path only at Commit(): written to a temporary name in the same folder,
// flushed to disk, renamed. Destroyed without Commit() the temporary file is removed; a signal
// handler can call RemoveAllTemporaries() before it ends the process. What a killed program left
// under such a name is removed by the next Create() for the same path.
class AtomicFile {
 public:
  // Fails if the folder does not exist or cannot be written.
  static Result<std::unique_ptr<AtomicFile>> Create(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  Status Append(ByteSpan bytes);
  Status AppendZeros(std::uint64_t count);
  // Writes over bytes that were appended before.
  Status WriteAt(std::uint64_t offset, ByteSpan bytes);
  // Reads back what was written, for hashing.
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out);
  std::uint64_t size() const { return size_; }
  Status Commit();

 private:
  AtomicFile() = default;
  std::string path_, temporary_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

// Writes a small file atomically.
Status WriteFileAtomic(const std::string& path, ByteSpan bytes);

// A fresh folder, gone with everything in it when this object is. RemoveAllTemporaries() removes it
// too if it holds no other files than the expected ones.
class TemporaryFolder {
 public:
  // PREFIX and six random characters. Folders of that form that a killed program left are removed.
  static Result<std::unique_ptr<TemporaryFolder>> Create(const std::string& prefix);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  // Names a file that will lie in the folder.
  void Expect(const std::string& name);
  const std::string& path() const { return path_; }

 private:
  TemporaryFolder() = default;
  std::string path_;
  std::vector<std::string> expected_;
  int fd_ = -1;  // locked, so that others see that someone uses the folder
};

// Unlinks the temporary files that are open now, and temporary folders. Async-signal-safe.
void RemoveAllTemporaries();

}  // namespace hone
