// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/kv_block.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hone::runtime {
namespace {
// Enough for large pages (kernels/aligned_buffer.h), little enough not to matter if it stays empty:
// memory that nobody touched is not resident.
constexpr std::uint64_t kSlabBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kMostBlocks = 8;
}  // namespace

// Nobody writes through the pointer: read_only() is true.
KvBlock::KvBlock(ByteSpan memory, std::shared_ptr<const void> owner)
    : data_(const_cast<std::byte*>(memory.data())), owner_(std::move(owner)) {}

KvBlock::KvBlock(std::byte* data, std::shared_ptr<KvPool> pool, std::size_t slab)
    : data_(data), pool_(std::move(pool)), slab_(slab) {}

KvBlock::~KvBlock() {
  if (pool_ != nullptr) pool_->Free(data_, slab_);
}

KvPool::KvPool(std::uint64_t block_bytes, std::uint64_t max_bytes)
    : block_bytes_(block_bytes), max_bytes_(max_bytes) {}

std::shared_ptr<KvPool> KvPool::Make(std::uint64_t block_bytes, std::uint64_t max_bytes) {
  return std::shared_ptr<KvPool>(new KvPool(block_bytes, max_bytes));
}

std::size_t KvPool::FindSlab() {
  std::size_t place = slabs_.size();
  for (std::size_t i = 0; i < slabs_.size(); ++i) {
    if (!slabs_[i].free.empty()) return i;
    if (slabs_[i].memory == nullptr) place = i;
  }
  auto num_blocks = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      kSlabBytes / std::max<std::uint64_t>(block_bytes_, 1), 1, kMostBlocks));
  const auto bytes = MulChecked(num_blocks, block_bytes_);
  Slab slab;
  if (bytes) slab.memory = kernels::AllocateAligned(*bytes);
  if (slab.memory == nullptr && num_blocks > 1) {  // perhaps there is room for one
    num_blocks = 1;
    slab.memory = kernels::AllocateAligned(block_bytes_);
  }
  if (slab.memory == nullptr) return slabs_.size();
  slab.num_blocks = num_blocks;
  for (std::uint32_t i = num_blocks; i > 0; --i) slab.free.push_back(i - 1);
  held_blocks_ += num_blocks;
  if (place == slabs_.size()) slabs_.emplace_back();
  slabs_[place] = std::move(slab);
  return place;
}

std::shared_ptr<KvBlock> KvPool::New() {
  std::byte* data = nullptr;
  std::size_t slab = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (max_bytes_ > 0 && (used_blocks_ + 1) * block_bytes_ > max_bytes_) return nullptr;
    slab = FindSlab();
    if (slab == slabs_.size()) return nullptr;
    data = slabs_[slab].memory.get() + slabs_[slab].free.back() * block_bytes_;
    slabs_[slab].free.pop_back();
    ++used_blocks_;
  }
  // Kernels may read whole pages and multiply what they do not use by zero.
  std::memset(data, 0, static_cast<std::size_t>(block_bytes_));
  return std::shared_ptr<KvBlock>(new KvBlock(data, shared_from_this(), slab));
}

void KvPool::Free(const std::byte* data, std::size_t slab_idx) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Slab& slab = slabs_[slab_idx];
  const auto offset = static_cast<std::uint64_t>(data - slab.memory.get());
  slab.free.push_back(
      static_cast<std::uint32_t>(offset / std::max<std::uint64_t>(block_bytes_, 1)));
  --used_blocks_;
  if (slab.free.size() < slab.num_blocks) return;
  // One slab that nobody uses is kept for the next block, the others go back to the system.
  const auto idle = std::count_if(slabs_.begin(), slabs_.end(), [](const Slab& s) {
    return s.memory != nullptr && s.free.size() == s.num_blocks;
  });
  if (idle <= 1) return;
  held_blocks_ -= slab.num_blocks;
  slab = Slab();
}

std::uint64_t KvPool::bytes_in_use() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return used_blocks_ * block_bytes_;
}

std::uint64_t KvPool::bytes_held() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return held_blocks_ * block_bytes_;
}

}  // namespace hone::runtime
