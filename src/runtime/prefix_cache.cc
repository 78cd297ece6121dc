// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/attention.h"
#include "runtime/hash64.h"

namespace hone::runtime {
namespace {

constexpr auto kBlockTokens = static_cast<std::size_t>(kernels::kPagePositions);

std::uint64_t HashTokens(std::uint64_t before, std::span<const std::int32_t> tokens) {
  return Hash64(std::as_bytes(tokens), before);
}

}  // namespace

PrefixCache::PrefixCache(std::uint64_t max_bytes, std::uint64_t block_bytes, HashFunction hash)
    : max_blocks_(max_bytes / block_bytes),
      block_bytes_(block_bytes),
      hash_(hash ? std::move(hash) : HashTokens) {}

PrefixCache::Path PrefixCache::Walk(std::span<const std::int32_t> tokens) {
  Path path;
  const Node* parent = nullptr;
  std::uint64_t before = 0;
  for (; tokens.size() >= kBlockTokens; tokens = tokens.subspan(kBlockTokens)) {
    const auto wanted = tokens.first(kBlockTokens);
    before = hash_(before, wanted);
    auto [it, end] = by_hash_.equal_range(before);
    it = std::find_if(it, end, [&](const auto& entry) {
      const Node& node = *entry.second;
      return node.parent == parent && std::equal(wanted.begin(), wanted.end(), node.tokens.begin());
    });
    if (it == end) break;
    path.push_back(it->second);
    parent = &*it->second;
  }
  return path;
}

void PrefixCache::Touch(const Path& path) {
  for (auto it = path.rbegin(); it != path.rend(); ++it) order_.splice(order_.begin(), order_, *it);
}

void PrefixCache::DropOldest() {
  const auto last = std::prev(order_.end());
  auto [it, end] = by_hash_.equal_range(last->hash);
  it = std::find_if(it, end, [&](const auto& entry) { return entry.second == last; });
  HONE_CHECK(it != end);
  by_hash_.erase(it);
  order_.pop_back();
  ++stats_.evicted_blocks;
}

void PrefixCache::Offer(std::span<const std::int32_t> tokens,
                        std::span<const std::shared_ptr<KvBlock>> blocks) {
  const std::size_t full = std::min(tokens.size() / kBlockTokens, blocks.size());
  Path path = Walk(tokens.first(full * kBlockTokens));
  Touch(path);
  while (path.size() < full) {
    // The nodes of the path are the most recent ones: they are not dropped for their own child.
    if (order_.size() >= max_blocks_) {
      if (path.size() >= max_blocks_) break;
      DropOldest();
    }
    const std::size_t i = path.size();
    const auto part = tokens.subspan(i * kBlockTokens, kBlockTokens);
    Node node;
    node.parent = i == 0 ? nullptr : &*path.back();
    node.hash = hash_(i == 0 ? 0 : path.back()->hash, part);
    node.tokens.assign(part.begin(), part.end());
    node.block = blocks[i];
    // Behind its ancestors, in front of all others.
    const auto place = i == 0 ? order_.begin() : std::next(path.back());
    const auto it = order_.insert(place, std::move(node));
    by_hash_.emplace(it->hash, it);
    path.push_back(it);
  }
  stats_.blocks = order_.size();
  stats_.bytes = stats_.blocks * block_bytes_;
}

std::vector<std::shared_ptr<KvBlock>> PrefixCache::Find(std::span<const std::int32_t> tokens,
                                                        std::int64_t more_than) {
  const Path path = Walk(tokens);
  Touch(path);
  ++stats_.lookups;
  std::vector<std::shared_ptr<KvBlock>> blocks;
  const std::size_t known = path.size() * kBlockTokens;
  if (static_cast<std::int64_t>(known) <= more_than) return blocks;
  ++stats_.hits;
  stats_.reused_tokens += known;
  blocks.reserve(path.size());
  for (const auto& node : path) blocks.push_back(node->block);
  return blocks;
}

}  // namespace hone::runtime
