// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The pieces of attention that are compiled once an instruction set.
//
// Positions are cut into segments of kSegmentPositions. For each query and segment: scores are
// dot(q * scale, k), the products added in rising order, then the segment's maximum, exp of the
// difference, their sum in 32 lanes (position mod 32), p = exp / sum, and the sum of p v in rising
// position. This is XNNPACK's order for a context of a multiple of 64 positions, so within the
// first segment a result agrees with its (docs/perf/parity.md). Segments are merged in rising
// order. Nothing depends on other queries, calls or threads. Positions before a query's window add
// nothing, as if they were masked; segments and pages before it are not visited.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/cpu_info.h"
#include "kernels/attention.h"

namespace hone::kernels::attention {

inline constexpr std::int64_t kSegmentPositions = 8 * kPagePositions;

// Softmax-weighted means of some queries over some positions.
struct Partial {
  float* max = nullptr;  // [queries] largest score
  float* sum = nullptr;  // [queries] sum of exp(score - max)
  float* v = nullptr;    // [queries, padded head_dim] sum of exp(score - max) * v / sum
};

// Rows [first_row, first_row + num_rows) of the call times the heads that share kv_head; query
// r * group + g is head kv_head * group + g of row first_row + r.
struct Unit {
  const AttentionArgs* call = nullptr;
  std::int64_t first_row = 0, num_rows = 0, kv_head = 0;

  std::int64_t group() const { return call->heads / call->kv_heads; }
  std::int64_t queries() const { return num_rows * group(); }
  std::int64_t padded_dim() const { return (call->head_dim + 15) / 16 * 16; }
  std::int64_t position(std::int64_t query) const {
    return call->first_position + first_row + query / group();
  }
  // The first position that the query sees.
  std::int64_t first_seen(std::int64_t query) const {
    return call->window > 0 ? std::max<std::int64_t>(0, position(query) + 1 - call->window) : 0;
  }
  // The segment that the query's total begins with, and that of the whole unit.
  std::int64_t first_segment(std::int64_t query) const {
    return first_seen(query) / kSegmentPositions;
  }
  std::int64_t first_segment() const { return first_segment(0); }
  std::int64_t last_position() const { return call->first_position + first_row + num_rows - 1; }
};

// Floats of scratch that AttendSegment needs.
inline std::int64_t ScratchFloats(std::int64_t queries, std::int64_t padded_dim) {
  return queries * (padded_dim + kSegmentPositions) + kPagePositions * padded_dim;
}

struct Kernel {
  const char* name;
  CpuTarget needs;
  // Fills out for the queries that see the segment; leaves the others alone.
  void (*attend_segment)(const Unit& unit, std::int64_t segment, float* scratch,
                         const Partial& out) noexcept;
  // Adds a segment's partial to the total of the segments before it. For a query's first segment it
  // copies.
  void (*merge)(const Unit& unit, std::int64_t segment, const Partial& part,
                const Partial& total) noexcept;
  // call->out = total.v.
  void (*finish)(const Unit& unit, const Partial& total) noexcept;
  void (*store_f16)(const float* x, std::int64_t n, std::uint16_t* out) noexcept;
  double tolerance;  // |out - twin| <= tolerance * max |v|
};

#define HONE_KERNEL(isa, needs, tolerance)                                           \
  void attend_segment__##isa(const Unit& unit, std::int64_t segment, float* scratch, \
                             const Partial& out) noexcept;                           \
  void merge__##isa(const Unit& unit, std::int64_t segment, const Partial& part,     \
                    const Partial& total) noexcept;                                  \
  void finish__##isa(const Unit& unit, const Partial& total) noexcept;               \
  void store_f16__##isa(const float* x, std::int64_t n, std::uint16_t* out) noexcept;
#include "kernels/attention/kernels.inc"
#undef HONE_KERNEL

std::span<const Kernel> Kernels();
const Kernel& Find();

// hone::kernels::Attention and StoreKv with a given kernel.
void AttentionWith(const Kernel& kernel, const AttentionArgs& args, ThreadPool& pool);
void StoreKvWith(const Kernel& kernel, KvType type, const float* rows, std::int64_t m,
                 std::int64_t first_position, std::int64_t kv_heads, std::int64_t head_dim,
                 void* const* pages);

}  // namespace hone::kernels::attention
