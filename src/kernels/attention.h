// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Attention over the used positions of a paged key/value cache.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace hone::kernels {

inline constexpr std::int64_t kPagePositions = 64;

enum class KvType : std::uint8_t { kF32, kF16 };

// Writes rows [m, kv_heads, head_dim] (float32) of keys or values at positions first_position + i.
// A page holds [kv_heads, kPagePositions, head_dim] elements of the type; pages[p] is the page of
// positions [64 p, 64 p + 64).
void StoreKv(KvType type, const float* rows, std::int64_t m, std::int64_t first_position,
             std::int64_t kv_heads, std::int64_t head_dim, void* const* pages);

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

// Softmax(softcap(scale q k^T)) v, causal. Bit-equal for any number of threads and any split of the
// rows into calls: a row's result depends only on its query and the cache. Twin:
// AttentionReference.
void Attention(const AttentionArgs& args, ThreadPool& pool);

// The same with plain double loops.
void AttentionReference(const AttentionArgs& args);

}  // namespace hone::kernels
