// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Memory for keys and values: blocks that caches can share, and the pool that they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/span_util.h"
#include "kernels/aligned_buffer.h"

namespace hone::runtime {

class KvPool;

// The pages of all layers for the same kernels::kPagePositions positions: for each layer the page
// of keys, then the page of values. Shared by std::shared_ptr; who holds it alone may write to it,
// unless it is read-only.
class KvBlock {
 public:
  // Read-only memory that owner keeps, for example a part of a mapped file. Aligned to 64 bytes.
  KvBlock(ByteSpan memory, std::shared_ptr<const void> owner);
  ~KvBlock();
  KvBlock(const KvBlock&) = delete;
  KvBlock& operator=(const KvBlock&) = delete;

  std::byte* data() const { return data_; }
  bool read_only() const { return pool_ == nullptr; }

 private:
  friend class KvPool;
  KvBlock(std::byte* data, std::shared_ptr<KvPool> pool, std::size_t slab);

  std::byte* data_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<KvPool> pool_;
  std::size_t slab_ = 0;
};

// Blocks of one size. Memory is taken from the system several blocks at a time, so that large pages
// can hold it, and used again after a block is gone. Thread-safe.
class KvPool : public std::enable_shared_from_this<KvPool> {
 public:
  // max_bytes bounds the blocks that are in use; 0: no bound.
  static std::shared_ptr<KvPool> Make(std::uint64_t block_bytes, std::uint64_t max_bytes = 0);

  // A block of zeros. Null if there is no memory or the bound is reached. The block keeps the pool.
  std::shared_ptr<KvBlock> New();

  std::uint64_t block_bytes() const { return block_bytes_; }
  std::uint64_t bytes_in_use() const;
  // Taken from the system; what is not in use of it need not be resident.
  std::uint64_t bytes_held() const;

 private:
  friend class KvBlock;
  struct Slab {
    kernels::AlignedBuffer memory;  // null: given back
    std::uint32_t num_blocks = 0;
    std::vector<std::uint32_t> free;
  };

  KvPool(std::uint64_t block_bytes, std::uint64_t max_bytes);
  // The slab to take a block from; slabs_.size() if there is no memory.
  std::size_t FindSlab();
  void Free(const std::byte* data, std::size_t slab);

  const std::uint64_t block_bytes_;
  const std::uint64_t max_bytes_;
  mutable std::mutex mutex_;
  std::vector<Slab> slabs_;  // indices stay: an empty place is used again
  std::uint64_t used_blocks_ = 0;
  std::uint64_t held_blocks_ = 0;
};

}  // namespace hone::runtime
