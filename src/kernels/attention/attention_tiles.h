// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Attention's inner loops over a Vec16: one page of keys or values, some queries. Include after a
// Vec16, inside the same target region.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/float16.h"
#include "kernels/attention/attention_kernels.h"

namespace hone::kernels {
namespace {

using attention::kSegmentPositions;
using attention::Partial;
using attention::Unit;

// Queries that share one load of keys or values, and the vectors of keys or values that they are
// multiplied with at once: as many sums as there are registers for.
constexpr bool kManyRegisters = Vec16::kGemmRows > 4;
constexpr int kTileQueries = kManyRegisters ? 8 : 4;
template <int kQueries>
constexpr int kTileChunks = !kManyRegisters ? 1
                            : kQueries > 4  ? 2
                                            : 4;

HONE_INLINE Vec16 LoadFloats(const float* p) { return Vec16::Load(p); }
HONE_INLINE Vec16 LoadFloats(const std::uint16_t* p) { return Vec16::LoadF16(p); }
HONE_INLINE Vec16 LoadFloats(const std::int8_t* p) { return Vec16::LoadI8(p); }
HONE_INLINE float ToFloat(float x) { return x; }
HONE_INLINE float ToFloat(std::uint16_t x) { return Fp16ToFloat(x); }
HONE_INLINE float ToFloat(std::int8_t x) { return static_cast<float>(x); }

// Asks for the memory `ahead` bytes behind p: the same place of the piece that is used next. Pages
// lie apart, so the processor does not guess it.
HONE_INLINE void FetchAhead(const void* p, std::intptr_t ahead) {
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::intptr_t>(p) + ahead));  // NOLINT
}

// The same for the scales of an int8 piece.
HONE_INLINE void FetchScales(const std::byte* scales, std::intptr_t ahead) {
  for (std::int64_t i = 0; i < kPagePositions * 4; i += 64) FetchAhead(scales + i, ahead);
}

// A page of keys, used without turning it: scores[i][p] = dot(q[i], key p), j rising, for kQueries
// queries and kChunks * 16 positions.
template <int kQueries, int kChunks, typename T>
HONE_INLINE void ScoreChunk(const float* q, const T* keys, std::intptr_t ahead, std::int64_t dim,
                            std::int64_t padded, float* scores) {
  Vec16 acc[kQueries][kChunks];
  for (int i = 0; i < kQueries; ++i) {
    for (int c = 0; c < kChunks; ++c) acc[i][c] = Vec16::Set1(0);
  }
  for (std::int64_t j = 0; j < dim; ++j, keys += 16) {
    Vec16 row[kChunks];
    for (int c = 0; c < kChunks; ++c) {
      row[c] = LoadFloats(keys + c * 16 * dim);
      FetchAhead(keys + c * 16 * dim, ahead);
    }
    for (int i = 0; i < kQueries; ++i) {
      const Vec16 x = Vec16::Set1(q[i * padded + j]);
      for (int c = 0; c < kChunks; ++c) acc[i][c] = Vec16::MulAdd(x, row[c], acc[i][c]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int c = 0; c < kChunks; ++c) acc[i][c].Store(scores + i * kSegmentPositions + c * 16);
  }
}

// The same for positions [first, count) of a page, and up to 15 more on either side.
template <int kQueries, typename T>
void ScorePage(const float* q, const T* keys, std::intptr_t ahead, std::int64_t first,
               std::int64_t count, std::int64_t dim, std::int64_t padded, float* scores) {
  constexpr int kChunks = kTileChunks<kQueries>;
  std::int64_t p = first / 16 * 16;
  for (; p + 16 * kChunks <= count; p += 16 * kChunks) {
    ScoreChunk<kQueries, kChunks>(q, keys + p * dim, ahead, dim, padded, scores + p);
  }
  for (; p < count; p += 16) {
    ScoreChunk<kQueries, 1>(q, keys + p * dim, ahead, dim, padded, scores + p);
  }
}

// out[i] += sum over p of weights[i][p] * v row p, kQueries queries, kChunks * 16 lanes at once.
template <int kQueries, int kChunks, typename T>
HONE_INLINE void AddValueChunk(const float* weights, const T* v, std::intptr_t ahead,
                               std::int64_t count, std::int64_t padded, float* out) {
  Vec16 acc[kQueries][kChunks];
  for (int i = 0; i < kQueries; ++i) {
    for (int c = 0; c < kChunks; ++c) acc[i][c] = Vec16::Load(out + i * padded + c * 16);
  }
  for (std::int64_t p = 0; p < count; ++p, v += padded) {
    Vec16 row[kChunks];
    for (int c = 0; c < kChunks; ++c) row[c] = LoadFloats(v + c * 16);
    FetchAhead(v, ahead);
    if constexpr (kChunks * 16 * sizeof(T) > 64) FetchAhead(v + 64 / sizeof(T), ahead);
    for (int i = 0; i < kQueries; ++i) {
      const Vec16 weight = Vec16::Set1(weights[i * kSegmentPositions + p]);
      for (int c = 0; c < kChunks; ++c) acc[i][c] = Vec16::MulAdd(weight, row[c], acc[i][c]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int c = 0; c < kChunks; ++c) acc[i][c].Store(out + i * padded + c * 16);
  }
}

// Rows of padded values, `padded` apart.
template <int kQueries, typename T>
void AddValues(const float* weights, const T* v, std::intptr_t ahead, std::int64_t count,
               std::int64_t padded, float* out) {
  constexpr int kChunks = kTileChunks<kQueries>;
  std::int64_t j = 0;
  for (; j + 16 * kChunks <= padded; j += 16 * kChunks) {
    AddValueChunk<kQueries, kChunks>(weights, v + j, ahead, count, padded, out + j);
  }
  for (; j < padded; j += 16) {
    AddValueChunk<kQueries, 1>(weights, v + j, ahead, count, padded, out + j);
  }
}

// The first count rows of a piece of values as float32 rows of padded length. int8: the codes.
template <typename T>
void ExpandRows(const T* rows, std::int64_t count, std::int64_t dim, float* out) {
  const std::int64_t padded = (dim + 15) / 16 * 16;
  for (std::int64_t p = 0; p < count; ++p, rows += dim, out += padded) {
    std::int64_t j = 0;
    for (; j + 16 <= dim; j += 16) LoadFloats(rows + j).Store(out + j);
    for (; j < padded; ++j) out[j] = j < dim ? ToFloat(rows[j]) : 0.0f;
  }
}

// Keys of the groups that hold positions below count, as float32.
template <typename T>
void ExpandKeys(const T* keys, std::int64_t count, std::int64_t dim, float* out) {
  const std::int64_t size = (count + 15) / 16 * 16 * dim;
  for (std::int64_t i = 0; i < size; i += 16) LoadFloats(keys + i).Store(out + i);
}

// The codes of int8 keys as float32 keys.
HONE_INLINE void ExpandInt8Keys(const std::int8_t* codes, std::int64_t count, std::int64_t dim,
                                float* out) {
  for (std::int64_t p = 0; p < count; p += 16) {
    for (std::int64_t j = 0; j < dim; j += 4, codes += 64) {
      Vec16::LoadI8Of4<0>(codes).Store(out);
      if (j + 1 < dim) Vec16::LoadI8Of4<1>(codes).Store(out + 16);
      if (j + 2 < dim) Vec16::LoadI8Of4<2>(codes).Store(out + 32);
      if (j + 3 < dim) Vec16::LoadI8Of4<3>(codes).Store(out + 48);
      out += 16 * std::min<std::int64_t>(4, dim - j);
    }
  }
}

}  // namespace
}  // namespace hone::kernels
