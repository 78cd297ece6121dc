// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Attention over the used positions of a paged key/value cache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/thread_pool.h"

namespace hone::kernels {

inline constexpr std::int64_t kPagePositions = 64;
// Counts the changes of the layout of pages: saved pages of another layout cannot be used.
inline constexpr std::uint32_t kKvLayoutVersion = 1;

// kInt8: symmetric, one float32 scale for each position and head of keys and of values.
enum class KvType : std::uint8_t { kF32, kF16, kInt8 };
enum class KvPart : std::uint8_t { kKeys, kValues };

// "f32", "f16" or "int8".
const char* KvTypeName(KvType type);

// Bytes of the page of one layer's keys, or of its values: a multiple of 64.
std::uint64_t KvPageBytes(KvType type, std::int64_t kv_heads, std::int64_t head_dim);

// Writes rows [m, kv_heads, head_dim] (float32) of keys or values at positions first_position + i.
// pages[p] is the page of positions [64 p, 64 p + 64): KvPageBytes bytes, aligned to 64, zeroed
// before its first use. Layout and bytes are the same on every machine
// (attention/attention_kernels.h).
void StoreKv(KvType type, KvPart part, const float* rows, std::int64_t m,
             std::int64_t first_position, std::int64_t kv_heads, std::int64_t head_dim,
             void* const* pages);

struct AttentionArgs {
  const float* q = nullptr;  // [m, heads, head_dim], rope applied
  float* out = nullptr;      // [m, heads, head_dim]
  std::int64_t m = 0;
  std::int64_t first_position = 0;  // row i sits at position first_position + i
  // A row sees itself and the window - 1 positions before it; 0: all before it. Pages that no row
  // sees are not read.
  std::int64_t window = 0;
  float softcap = 0;  // scores become cap * tanh(score / cap); 0: off
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1.0f;
  KvType kv_type = KvType::kF32;
  const void* const* k_pages = nullptr;
  const void* const* v_pages = nullptr;
};

// Work memory of Attention that is kept from call to call: nothing is allocated once it has grown
// to the largest call. One thread at a time.
class AttentionScratch {
 public:
  AttentionScratch();
  ~AttentionScratch();
  AttentionScratch(const AttentionScratch&) = delete;
  AttentionScratch& operator=(const AttentionScratch&) = delete;
  struct Buffers;
  Buffers& buffers() { return *buffers_; }

 private:
  std::unique_ptr<Buffers> buffers_;
};

// Softmax(softcap(scale q k^T)) v, causal, for each call: rows of several sequences in one pass
// over the threads. Bit-equal for any number of threads, any split of the rows into calls and any
// other calls beside it: a row's result depends only on its query and the cache. out of one call
// must not overlap memory that another reads. Twin: AttentionReference.
void Attention(std::span<const AttentionArgs> calls, ThreadPool& pool, AttentionScratch& scratch);

// One call with plain double loops.
void AttentionReference(const AttentionArgs& args);

}  // namespace hone::kernels
