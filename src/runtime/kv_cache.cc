// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace hone::runtime {
namespace {

std::size_t BlocksFor(std::int64_t num_positions) {
  return static_cast<std::size_t>((num_positions + kernels::kPagePositions - 1) /
                                  kernels::kPagePositions);
}

}  // namespace

std::uint64_t KvCache::BlockBytes(kernels::KvType type, std::int64_t num_layers,
                                  std::int64_t num_kv_heads, std::int64_t head_dim) {
  return kernels::KvPageBytes(type, num_kv_heads, head_dim) * 2 *
         static_cast<std::uint64_t>(num_layers);
}

KvCache::KvCache(kernels::KvType type, std::int64_t num_layers, std::int64_t num_kv_heads,
                 std::int64_t head_dim)
    : KvCache(type, num_layers, num_kv_heads, head_dim,
              KvPool::Make(BlockBytes(type, num_layers, num_kv_heads, head_dim))) {}

KvCache::KvCache(kernels::KvType type, std::int64_t num_layers, std::int64_t num_kv_heads,
                 std::int64_t head_dim, std::shared_ptr<KvPool> pool)
    : type_(type),
      page_bytes_(kernels::KvPageBytes(type, num_kv_heads, head_dim)),
      block_bytes_(BlockBytes(type, num_layers, num_kv_heads, head_dim)),
      pool_(std::move(pool)),
      k_pages_(static_cast<std::size_t>(num_layers)),
      v_pages_(static_cast<std::size_t>(num_layers)) {
  HONE_CHECK(pool_->block_bytes() == block_bytes_);
}

// Puts a block at an index that is in the tables already, or behind the last one.
void KvCache::SetBlock(std::size_t idx, std::shared_ptr<KvBlock> block) {
  for (std::size_t layer = 0; layer < k_pages_.size(); ++layer) {
    std::byte* keys = block->data() + 2 * layer * page_bytes_;
    if (idx == blocks_.size()) {
      k_pages_[layer].push_back(keys);
      v_pages_[layer].push_back(keys + page_bytes_);
    } else {
      k_pages_[layer][idx] = keys;
      v_pages_[layer][idx] = keys + page_bytes_;
    }
  }
  if (idx == blocks_.size()) {
    blocks_.push_back(std::move(block));
  } else {
    blocks_[idx] = std::move(block);
  }
}

Status KvCache::Reserve(std::int64_t num_positions) {
  if (num_positions <= size_) return Status();
  // The block of position size_ is the only old one that is written: Shrink leaves none behind it.
  const bool open_block = size_ % kernels::kPagePositions != 0;
  const std::size_t last = blocks_.size() - (open_block ? 1 : 0);
  const bool copies = open_block && (blocks_[last]->read_only() || blocks_[last].use_count() > 1);
  const std::size_t first_new = copies ? last : blocks_.size();
  const std::size_t wanted = BlocksFor(num_positions);

  std::vector<std::shared_ptr<KvBlock>> fresh;
  while (first_new + fresh.size() < wanted) {
    fresh.push_back(pool_->New());
    if (fresh.back() == nullptr) {
      return Status(
          Code::kOutOfMemory,
          StrCat("key/value cache: ", num_positions, " positions need ", wanted * block_bytes_,
                 " bytes, more than there are; use a shorter context or a cache of f16"));
    }
  }
  if (copies) {
    std::memcpy(fresh[0]->data(), blocks_[last]->data(), static_cast<std::size_t>(block_bytes_));
  }
  for (std::size_t i = 0; i < fresh.size(); ++i) SetBlock(first_new + i, std::move(fresh[i]));
  size_ = num_positions;
  return Status();
}

void KvCache::Shrink(std::int64_t num_positions) {
  size_ = std::min(size_, num_positions);
  const std::size_t wanted = BlocksFor(size_);
  if (wanted >= blocks_.size()) return;
  blocks_.resize(wanted);
  for (auto& pages : k_pages_) pages.resize(wanted);
  for (auto& pages : v_pages_) pages.resize(wanted);
}

void KvCache::Attach(std::span<const std::shared_ptr<KvBlock>> blocks, std::int64_t num_positions) {
  HONE_CHECK(blocks_.empty() && blocks.size() == BlocksFor(num_positions));
  for (const auto& block : blocks) SetBlock(blocks_.size(), block);
  size_ = num_positions;
}

void* const* KvCache::k_pages(std::int64_t layer) const {
  return k_pages_[static_cast<std::size_t>(layer)].data();
}
void* const* KvCache::v_pages(std::int64_t layer) const {
  return v_pages_[static_cast<std::size_t>(layer)].data();
}

}  // namespace hone::runtime
