// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Keys and values of one sequence, in pages of kernels::kPagePositions positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/attention.h"
#include "runtime/kv_block.h"

namespace hone::runtime {

// Several caches may hold the same blocks. Before positions are written into a block that others
// hold, or that is read-only, the cache takes its own copy: what others see never changes. One
// thread at a time for all caches that share blocks.
class KvCache {
 public:
  // With a pool of its own.
  KvCache(kernels::KvType type, std::int64_t num_layers, std::int64_t num_kv_heads,
          std::int64_t head_dim);
  // The pool's blocks have BlockBytes of the same numbers.
  KvCache(kernels::KvType type, std::int64_t num_layers, std::int64_t num_kv_heads,
          std::int64_t head_dim, std::shared_ptr<KvPool> pool);

  // Bytes of the pages of all layers for kernels::kPagePositions positions; a multiple of 64.
  static std::uint64_t BlockBytes(kernels::KvType type, std::int64_t num_layers,
                                  std::int64_t num_kv_heads, std::int64_t head_dim);

  // Room for positions [0, num_positions); those from size() on may then be written. size() becomes
  // num_positions if that is more. kOutOfMemory leaves the cache as it was.
  Status Reserve(std::int64_t num_positions);
  // Gives back the pages that [0, num_positions) does not need, and forgets later positions.
  void Shrink(std::int64_t num_positions);
  std::int64_t size() const { return size_; }

  // Page tables of a layer, as kernels::Attention wants them. Valid until the next Reserve, Shrink
  // or Attach. Only pages of reserved positions may be written.
  void* const* k_pages(std::int64_t layer) const;
  void* const* v_pages(std::int64_t layer) const;
  kernels::KvType type() const { return type_; }
  std::uint64_t bytes() const { return blocks_.size() * block_bytes_; }
  std::uint64_t block_bytes() const { return block_bytes_; }

  // In order of their positions; the last one may be filled in part. To hold a block is to share
  // it: copy the pointer.
  std::span<const std::shared_ptr<KvBlock>> blocks() const { return blocks_; }
  // The first num_positions positions of a cache that is empty become those of the blocks, which
  // have the sizes and the type of this cache; no more blocks than the positions need are given.
  void Attach(std::span<const std::shared_ptr<KvBlock>> blocks, std::int64_t num_positions);

 private:
  void SetBlock(std::size_t idx, std::shared_ptr<KvBlock> block);

  kernels::KvType type_;
  std::uint64_t page_bytes_;  // of one layer's keys
  std::uint64_t block_bytes_;
  std::int64_t size_ = 0;
  std::shared_ptr<KvPool> pool_;
  std::vector<std::shared_ptr<KvBlock>> blocks_;
  std::vector<std::vector<void*>> k_pages_, v_pages_;  // [layers][blocks]
};

}  // namespace hone::runtime
