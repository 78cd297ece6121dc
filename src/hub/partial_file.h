// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A file while it is downloaded, in pieces and in any order. Behind the bytes of the file stands
// which chunks are there, so a later run goes on where this one was killed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"

namespace hone::hub {

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class PartialFile {
 public:
  // Goes on with the file at path if it is for the same etag, size and chunks; else begins anew.
  // Only one program may have it open: the caller holds a lock.
  static Result<std::unique_ptr<PartialFile>> Open(const std::string& path, const std::string& etag,
                                                   std::uint64_t size, std::uint32_t chunk_bytes);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  // What is not there yet, in pieces of at most max_bytes (a multiple of the chunk size).
  std::vector<ByteRange> Missing(std::uint64_t max_bytes) const;
  std::uint64_t missing_bytes() const;
  // Forgets all chunks.
  Status Reset();

  Status Write(std::uint64_t offset, ByteSpan bytes);
  // All bytes of [begin, old_end) were known to be written, and now those up to new_end are: notes
  // the chunks that became whole.
  Status Advance(std::uint64_t begin, std::uint64_t old_end, std::uint64_t new_end);
  // Reads bytes that are there.
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const;

  std::uint64_t size() const { return size_; }
  // Cuts the notes off, flushes and renames. The object is then of no use any more.
  Status MoveTo(const std::string& target);
  Status Remove();

  // The bytes that are missing from the file that may lie at path, without changing it.
  static std::uint64_t MissingAt(const std::string& path, const std::string& etag,
                                 std::uint64_t size, std::uint32_t chunk_bytes);

 private:
  PartialFile() = default;
  Status Load(const std::string& header);
  std::uint64_t ChunkCount() const;
  std::uint64_t ChunkEnd(std::uint64_t chunk) const;
  bool Has(std::uint64_t chunk) const;
  Status Fail(const char* what) const;

  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::uint32_t chunk_bytes_ = 0;
  std::uint64_t map_at_ = 0;
  std::vector<std::uint8_t> map_;  // one bit for each chunk
};

}  // namespace hone::hub
