// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/kv_cache.h"

#include <cstring>
#include <new>

namespace hone::runtime {
namespace {
constexpr std::align_val_t kAlignment{64};

std::size_t BlocksFor(std::int64_t num_positions) {
  return static_cast<std::size_t>((num_positions + kernels::kPagePositions - 1) /
                                  kernels::kPagePositions);
}
}  // namespace

void KvCache::FreeAligned::operator()(std::byte* p) const { ::operator delete(p, kAlignment); }

KvCache::KvCache(kernels::KvType type, std::int64_t num_layers, std::int64_t num_kv_heads,
                 std::int64_t head_dim)
    : type_(type),
      k_pages_(static_cast<std::size_t>(num_layers)),
      v_pages_(static_cast<std::size_t>(num_layers)) {
  const std::uint64_t element_bytes = type == kernels::KvType::kF16 ? 2 : 4;
  page_bytes_ =
      static_cast<std::uint64_t>(num_kv_heads * kernels::kPagePositions * head_dim) * element_bytes;
  // Each page starts on its own cache line.
  page_bytes_ = (page_bytes_ + 63) / 64 * 64;
  block_bytes_ = page_bytes_ * 2 * static_cast<std::uint64_t>(num_layers);
}

Status KvCache::Reserve(std::int64_t num_positions) {
  const std::size_t old_blocks = blocks_.size();
  const std::size_t wanted = BlocksFor(num_positions);
  while (blocks_.size() < wanted) {
    Block block(static_cast<std::byte*>(::operator new(block_bytes_, kAlignment, std::nothrow)));
    if (block == nullptr) {
      Shrink(static_cast<std::int64_t>(old_blocks) * kernels::kPagePositions);
      return Status(
          Code::kOutOfMemory,
          StrCat("key/value cache: ", num_positions, " positions need ", wanted * block_bytes_,
                 " bytes, more than there are; use a shorter context or a cache of f16"));
    }
    // Kernels may read whole pages and multiply what they do not use by zero.
    std::memset(block.get(), 0, block_bytes_);
    for (std::size_t layer = 0; layer < k_pages_.size(); ++layer) {
      std::byte* keys = block.get() + 2 * layer * page_bytes_;
      k_pages_[layer].push_back(keys);
      v_pages_[layer].push_back(keys + page_bytes_);
    }
    blocks_.push_back(std::move(block));
  }
  return Status();
}

void KvCache::Shrink(std::int64_t num_positions) {
  const std::size_t wanted = BlocksFor(num_positions);
  if (wanted >= blocks_.size()) return;
  blocks_.resize(wanted);
  for (auto& pages : k_pages_) pages.resize(wanted);
  for (auto& pages : v_pages_) pages.resize(wanted);
}

void* const* KvCache::k_pages(std::int64_t layer) const {
  return k_pages_[static_cast<std::size_t>(layer)].data();
}
void* const* KvCache::v_pages(std::int64_t layer) const {
  return v_pages_[static_cast<std::size_t>(layer)].data();
}

}  // namespace hone::runtime
