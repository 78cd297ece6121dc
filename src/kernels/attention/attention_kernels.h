// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The pieces of attention that are compiled once an instruction set.
//
// Pages. A page has one piece of HeadBytes bytes for each key/value head.
//   keys, f32 and f16: [4 groups of 16 positions, head_dim, 16 positions], so 16 positions are one
//     vector and decode turns nothing;
//   keys, int8: [4 groups, quads of four dims, 16 positions, 4 dims], head_dim padded with zeros to
//     a multiple of four, then 64 float32 scales: what four-byte dot products take;
//   values, f32 and f16: [64 positions, head_dim];
//   values, int8: the same, then (where the keys' begin) 64 float32 scales.
// An int8 value is code * scale, codes in [-127, 127], scale = largest magnitude / 127 of the
// position and head. It is NaN where a value is not finite.
//
// Order of sums. Positions are cut into segments of kSegmentPositions. For each query and segment:
// scores are dot(q * scale, k), the products added in rising order, then the segment's maximum, exp
// of the difference, their sum in 32 lanes (position mod 32), p = exp / sum, and the sum of p v in
// rising position. This is XNNPACK's order for a context of a multiple of 64 positions, so within
// the first segment a result agrees with its (docs/perf/parity.md). Segments are merged in rising
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

// Where the scales of an int8 piece begin.
inline std::int64_t Int8CodeBytes(std::int64_t head_dim) {
  return kPagePositions * ((head_dim + 3) / 4 * 4);
}

// Bytes of one head's piece of a page: a multiple of 64.
inline std::int64_t HeadBytes(KvType type, std::int64_t head_dim) {
  if (type == KvType::kInt8) {
    return Int8CodeBytes(head_dim) + kPagePositions * static_cast<std::int64_t>(sizeof(float));
  }
  return kPagePositions * head_dim * (type == KvType::kF32 ? 4 : 2);
}

// Element [position, j] of a piece of f32 or f16 keys, and the byte of int8 keys.
inline std::int64_t KeyIndex(std::int64_t position, std::int64_t j, std::int64_t head_dim) {
  return (position / 16 * head_dim + j) * 16 + position % 16;
}
inline std::int64_t Int8KeyIndex(std::int64_t position, std::int64_t j, std::int64_t head_dim) {
  return ((position / 16 * ((head_dim + 3) / 4) + j / 4) * 16 + position % 16) * 4 + j % 4;
}

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
  // The segment that the query's total begins with, and those of the whole unit.
  std::int64_t first_segment(std::int64_t query) const {
    return first_seen(query) / kSegmentPositions;
  }
  std::int64_t first_segment() const { return first_segment(0); }
  std::int64_t last_segment() const { return last_position() / kSegmentPositions; }
  std::int64_t last_position() const { return call->first_position + first_row + num_rows - 1; }
  // The piece of the unit's head in a page.
  const std::byte* Piece(const void* page) const {
    return static_cast<const std::byte*>(page) + kv_head * HeadBytes(call->kv_type, call->head_dim);
  }
};

// Floats of scratch that attend_segment needs: queries, scores, a page as floats, then queries or a
// page's weights as integers.
inline std::int64_t ScratchFloats(std::int64_t queries, std::int64_t padded_dim) {
  const std::int64_t query_floats = padded_dim / 2 + 16, weight_floats = kPagePositions / 2 + 1;
  return queries * (padded_dim + kSegmentPositions + std::max(query_floats, weight_floats)) +
         kPagePositions * padded_dim;
}

// count rows of one head, row i at x + i * stride, for the positions from slot on of a piece.
struct StoreArgs {
  KvType type = KvType::kF32;
  KvPart part = KvPart::kKeys;
  const float* x = nullptr;
  std::int64_t stride = 0, count = 0, slot = 0, head_dim = 0;
  std::byte* piece = nullptr;
};

struct Kernel {
  const char* name;
  CpuTarget needs;
  // Fills out for the queries that see the segment; leaves the others alone. scratch is aligned to
  // 64 bytes.
  void (*attend_segment)(const Unit& unit, std::int64_t segment, float* scratch,
                         const Partial& out) noexcept;
  // Adds a segment's partial to the total of the segments before it. For a query's first segment it
  // copies.
  void (*merge)(const Unit& unit, std::int64_t segment, const Partial& part,
                const Partial& total) noexcept;
  // call->out = total.v.
  void (*finish)(const Unit& unit, const Partial& total) noexcept;
  void (*store)(const StoreArgs& args) noexcept;
  // |out - twin| <= tolerance * max |v|, f32 and f16 or int8.
  double tolerance, int8_tolerance;
};

#define HONE_KERNEL(isa, needs, tolerance, int8_tolerance)                           \
  void attend_segment__##isa(const Unit& unit, std::int64_t segment, float* scratch, \
                             const Partial& out) noexcept;                           \
  void merge__##isa(const Unit& unit, std::int64_t segment, const Partial& part,     \
                    const Partial& total) noexcept;                                  \
  void finish__##isa(const Unit& unit, const Partial& total) noexcept;               \
  void store__##isa(const StoreArgs& args) noexcept;
#include "kernels/attention/kernels.inc"
#undef HONE_KERNEL

std::span<const Kernel> Kernels();
const Kernel& Find();

// Floats of results that a run keeps until a unit's last segment is done (64 MB). Units beyond that
// are not shared among threads.
inline constexpr std::int64_t kMostKeptFloats = std::int64_t{1} << 24;
// Floats of memory that a run of the calls on so many threads asks for. Reads only their numbers.
std::int64_t WorkFloats(std::span<const AttentionArgs> calls, int num_threads);

// hone::kernels::Attention and StoreKv with a given kernel.
void AttentionWith(const Kernel& kernel, std::span<const AttentionArgs> calls, ThreadPool& pool,
                   AttentionScratch& scratch);
void StoreKvWith(const Kernel& kernel, KvType type, KvPart part, const float* rows, std::int64_t m,
                 std::int64_t first_position, std::int64_t kv_heads, std::int64_t head_dim,
                 void* const* pages);

}  // namespace hone::kernels::attention
