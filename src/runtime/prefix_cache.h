// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Blocks of keys and values that were computed already, found by the tokens that led to them.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/kv_block.h"

namespace hone::runtime {

struct PrefixCacheStats {
  std::uint64_t lookups = 0;
  std::uint64_t hits = 0;           // lookups that gave blocks
  std::uint64_t reused_tokens = 0;  // of all hits
  std::uint64_t evicted_blocks = 0;
  std::uint64_t blocks = 0;  // held now
  std::uint64_t bytes = 0;   // of these
};

// A tree: a node is a full block of kernels::kPagePositions tokens, its parent the block before it.
// A node is found by the hash of its tokens chained with its parent's hash, and is used only if its
// tokens and its parent are the ones asked for: equal hashes alone reuse nothing. One thread at a
// time.
class PrefixCache {
 public:
  // The hash of a block's tokens, given the hash of what stands before it (0 at the start).
  using HashFunction =
      std::function<std::uint64_t(std::uint64_t before, std::span<const std::int32_t> tokens)>;

  // Holds at most max_bytes of blocks of block_bytes (more than 0). Tests give a hash of their own.
  PrefixCache(std::uint64_t max_bytes, std::uint64_t block_bytes, HashFunction hash = {});

  // Takes the full blocks of a sequence that are not known yet. blocks[i] belongs to tokens
  // [64 i, 64 i + 64). The least recently used leaves are dropped to stay within the bound; the
  // blocks of this sequence stay, so that the last of a long one may be left out.
  void Offer(std::span<const std::int32_t> tokens,
             std::span<const std::shared_ptr<KvBlock>> blocks);

  // The blocks of the longest known beginning of tokens, in order; none if it is not longer than
  // more_than tokens.
  std::vector<std::shared_ptr<KvBlock>> Find(std::span<const std::int32_t> tokens,
                                             std::int64_t more_than = 0);

  const PrefixCacheStats& stats() const { return stats_; }

 private:
  struct Node;
  using Order = std::list<Node>;  // the most recently used first
  struct Node {
    std::uint64_t hash = 0;
    const Node* parent = nullptr;
    std::vector<std::int32_t> tokens;  // of this block
    std::shared_ptr<KvBlock> block;
  };
  using Path = std::vector<Order::iterator>;  // from the start of the tokens on

  // The known beginning.
  Path Walk(std::span<const std::int32_t> tokens);
  // Parents become more recent than their children, so the oldest node is always a leaf.
  void Touch(const Path& path);
  void DropOldest();

  std::uint64_t max_blocks_;
  std::uint64_t block_bytes_;
  HashFunction hash_;
  Order order_;
  std::unordered_multimap<std::uint64_t, Order::iterator> by_hash_;
  PrefixCacheStats stats_;
};

}  // namespace hone::runtime
