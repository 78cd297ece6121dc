// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "kernels/aligned_buffer.h"
#include "runtime/hash64.h"
#include "runtime/kv_cache.h"
#include "runtime/sequence_state.h"

namespace {

using hone::ByteSpan;

// A tiny model: small files.
const hone::runtime::StateFacts kFacts = {.model_hash = 7,
                                          .compute = hone::kernels::Compute::kQ8,
                                          .kv_type = hone::kernels::KvType::kF16,
                                          .num_layers = 1,
                                          .num_kv_heads = 1,
                                          .head_dim = 4,
                                          .vocab = 100,
                                          .max_positions = 200};

// Puts both hashes right where the sizes allow it, so that the fuzzer passes them.
void Seal(std::byte* data, std::size_t size) {
  const ByteSpan bytes(data, size);
  const auto num_tokens = hone::ReadLe<std::uint64_t>(bytes, 56);
  const auto text_bytes = hone::ReadLe<std::uint64_t>(bytes, 64);
  const auto block_bytes = hone::ReadLe<std::uint64_t>(bytes, 72);
  const auto blocks_at = hone::ReadLe<std::uint64_t>(bytes, 80);
  if (size < 128) return;
  std::uint64_t hash = 0;
  for (std::uint64_t at = *blocks_at; *block_bytes > 0 && at < size; at += *block_bytes) {
    const auto block = hone::SubSpan(bytes, at, *block_bytes);
    if (!block) break;
    hash = hone::runtime::Hash64(*block, hash);
  }
  std::memcpy(data + 112, &hash, sizeof(hash));
  const auto head = hone::SubSpan(bytes, 128, *num_tokens * 4 + *text_bytes);
  if (!head) return;
  hash = hone::runtime::Hash64(*head, hone::runtime::Hash64(bytes.first(120)));
  std::memcpy(data + 120, &hash, sizeof(hash));
}

void Use(ByteSpan bytes, const std::shared_ptr<const void>& owner) {
  const auto state = hone::runtime::ParseSequenceState(bytes, owner, kFacts);
  if (!state.ok()) return;
  const auto size = static_cast<std::int64_t>(state->tokens.size());
  HONE_CHECK(size > 0 && size <= kFacts.max_positions);
  HONE_CHECK(std::all_of(state->tokens.begin(), state->tokens.end(),
                         [](std::int32_t id) { return id >= 0 && id < kFacts.vocab; }));
  // All pages can be read, and copied before they are written.
  hone::runtime::KvCache cache(kFacts.kv_type, kFacts.num_layers, kFacts.num_kv_heads,
                               kFacts.head_dim);
  cache.Attach(state->blocks, size);
  HONE_CHECK(cache.Reserve(size + 64).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // As mapped: aligned, and not a byte longer.
  const std::size_t padding = (64 - size % 64) % 64;
  const std::shared_ptr<std::byte> memory(
      hone::kernels::AllocateAligned(size + padding + 64).release(), std::free);
  std::byte* bytes = memory.get();
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, bytes);
  Use(ByteSpan(bytes, size), memory);
  Seal(bytes, size);
  Use(ByteSpan(bytes, size), memory);
  return 0;
}
