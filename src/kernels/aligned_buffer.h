// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Memory for packed weights and caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace hone::kernels {

struct FreeDeleter {
  // The region that the memory is a part of, which lives as long as its last part; null: the memory
  // came from std::aligned_alloc.
  std::shared_ptr<const void> region;
  void operator()(std::byte* p) const {
    if (region == nullptr) std::free(p);
  }
};
using AlignedBuffer = std::unique_ptr<std::byte[], FreeDeleter>;

// bytes (at least 1) of memory that is not cleared, aligned to a cache line; large buffers ask the
// system for large pages. Null if there is none.
AlignedBuffer AllocateAligned(std::uint64_t bytes);

// Many buffers from few large regions, one after the other: what they fill lies on large pages, and
// at most one large page is filled in part. Memory is given back when the last buffer of a region
// and the arena are gone. One thread at a time.
class PackArena {
 public:
  // bytes (at least 1), aligned to a cache line. Null if there is no memory.
  AlignedBuffer Allocate(std::uint64_t bytes);

 private:
  std::shared_ptr<const void> region_;
  std::byte* next_ = nullptr;
  std::uint64_t left_ = 0;
  std::uint64_t last_region_ = 0;
};

}  // namespace hone::kernels
