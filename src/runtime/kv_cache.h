// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Keys and values of one sequence, in pages of kernels::kPagePositions positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/attention.h"

namespace hone::runtime {

// One thread at a time.
class KvCache {
 public:
  KvCache(kernels::KvType type, std::int64_t num_layers, std::int64_t num_kv_heads,
          std::int64_t head_dim);

  // Room for positions [0, num_positions). kOutOfMemory leaves the cache as it was.
  Status Reserve(std::int64_t num_positions);
  // Gives back the pages that [0, num_positions) does not need.
  void Shrink(std::int64_t num_positions);

  // Page tables of a layer, as kernels::Attention wants them. Valid until the next Reserve or
  // Shrink.
  void* const* k_pages(std::int64_t layer) const;
  void* const* v_pages(std::int64_t layer) const;
  kernels::KvType type() const { return type_; }
  std::uint64_t bytes() const { return blocks_.size() * block_bytes_; }

 private:
  struct FreeAligned {
    void operator()(std::byte* p) const;
  };
  // The pages of all layers for the same positions are one allocation, so that sequences can share
  // them as one piece.
  using Block = std::unique_ptr<std::byte, FreeAligned>;

  kernels::KvType type_;
  std::uint64_t page_bytes_;  // of one layer's keys
  std::uint64_t block_bytes_;
  std::vector<Block> blocks_;
  std::vector<std::vector<void*>> k_pages_, v_pages_;  // [layers][blocks]
};

}  // namespace hone::runtime
