// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Filled caches for the tests of attention.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/aligned_buffer.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/test_memory.h"
#include "kernels/test_util.h"

namespace hone::kernels {

inline constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kInt8};

struct Shape {
  std::int64_t heads, kv_heads, head_dim, positions;
  KvType type;
  std::int64_t window = 0;
  float softcap = 0;
};

// AttentionWith for one call.
inline void Attend(const attention::Kernel& kernel, const AttentionArgs& call, ThreadPool& pool) {
  AttentionScratch scratch;
  attention::AttentionWith(kernel, {&call, 1}, pool, scratch);
}

// A filled cache and queries for its last rows. Unused memory of the pages is NaN (of int8: their
// scales). fenced: each page ends at one that may not be touched.
class Cache {
 public:
  Cache(const attention::Kernel& kernel, const Shape& s, bool fenced = false) : shape(s) {
    const std::int64_t row = s.kv_heads * s.head_dim;
    const std::int64_t pages = (s.positions + kPagePositions - 1) / kPagePositions;
    const std::uint64_t bytes = KvPageBytes(s.type, s.kv_heads, s.head_dim);
    EXPECT_EQ(bytes % 64, 0U);
    for (std::int64_t p = 0; p < 2 * pages; ++p) {
      std::byte* page = nullptr;
      if (fenced) {
        fenced_.emplace_back(bytes);
        page = fenced_.back().data() + (fenced_.back().size() - bytes);
      } else {
        memory_.push_back(AllocateAligned(bytes));
        page = memory_.back().get();
      }
      std::memset(page, 0xff, bytes);
      (p < pages ? k_pages_ : v_pages_).push_back(page);
    }
    k_rows = RandomFloats(s.positions * row, 1);
    v_rows = RandomFloats(s.positions * row, 2);
    q = RandomFloats(s.positions * s.heads * s.head_dim, 3);
    for (float& x : q) x *= 4;
    Store(kernel);
  }
  // Writes k_rows and v_rows into the pages.
  void Store(const attention::Kernel& kernel) const {
    for (const KvPart part : {KvPart::kKeys, KvPart::kValues}) {
      const bool keys = part == KvPart::kKeys;
      attention::StoreKvWith(kernel, shape.type, part, (keys ? k_rows : v_rows).data(),
                             shape.positions, 0, shape.kv_heads, shape.head_dim,
                             (keys ? k_pages_ : v_pages_).data());
    }
  }
  AttentionArgs Rows(std::int64_t first, std::int64_t m, float* out) const {
    AttentionArgs args;
    args.q = q.data() + first * shape.heads * shape.head_dim;
    args.out = out;
    args.m = m;
    args.first_position = first;
    args.heads = shape.heads;
    args.kv_heads = shape.kv_heads;
    args.head_dim = shape.head_dim;
    args.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    args.window = shape.window;
    args.softcap = shape.softcap;
    args.kv_type = shape.type;
    args.k_pages = k_pages_.data();
    args.v_pages = v_pages_.data();
    return args;
  }
  Shape shape;
  std::vector<float> k_rows, v_rows, q;

 private:
  std::vector<AlignedBuffer> memory_;
  std::vector<FencedPages> fenced_;
  std::vector<void*> k_pages_, v_pages_;
};

}  // namespace hone::kernels
