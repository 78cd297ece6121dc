// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Attention over a Vec16. Include after a Vec16, inside the same target region.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/float16.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/simd/exp.h"
#include "kernels/simd/tanh.h"

namespace hone::kernels {
namespace {

using attention::kSegmentPositions;
using attention::Partial;
using attention::Unit;

// Queries that share one load of keys or values.
constexpr int kSharedQueries = 4;

// rows [count, dim] of one head of a page of values as float32 rows of padded length; points into
// the page where it can.
const float* LoadPage(const Unit& unit, const void* page, std::int64_t count, float* buffer) {
  const std::int64_t dim = unit.call->head_dim, padded = unit.padded_dim();
  const std::int64_t offset = unit.kv_head * kPagePositions * dim;
  if (unit.call->kv_type == KvType::kF32) {
    const float* rows = static_cast<const float*>(page) + offset;
    if (dim == padded) return rows;
    for (std::int64_t p = 0; p < count; ++p) {
      std::memcpy(buffer + p * padded, rows + p * dim, static_cast<std::size_t>(dim) * 4);
      for (std::int64_t j = dim; j < padded; ++j) buffer[p * padded + j] = 0;
    }
    return buffer;
  }
  const std::uint16_t* rows = static_cast<const std::uint16_t*>(page) + offset;
  for (std::int64_t p = 0; p < count; ++p, rows += dim) {
    float* out = buffer + p * padded;
    std::int64_t j = 0;
    for (; j + 16 <= dim; j += 16) Vec16::LoadF16(rows + j).Store(out + j);
    for (; j < padded; ++j) out[j] = j < dim ? Fp16ToFloat(rows[j]) : 0.0f;
  }
  return buffer;
}

HONE_INLINE Vec16 LoadFloats(const float* p) { return Vec16::Load(p); }
HONE_INLINE Vec16 LoadFloats(const std::uint16_t* p) { return Vec16::LoadF16(p); }
HONE_INLINE float ToFloat(float x) { return x; }
HONE_INLINE float ToFloat(std::uint16_t x) { return Fp16ToFloat(x); }

// 16 rows of dim values, turned: out[j * kPagePositions + r].
template <typename T>
HONE_INLINE void TurnRows(const T* rows, std::int64_t dim, float* out) {
  std::int64_t j = 0;
  for (; j + 16 <= dim; j += 16) {
    Vec16 block[16];
    for (int r = 0; r < 16; ++r) block[r] = LoadFloats(rows + r * dim + j);
    Vec16::Transpose(block, out + j * kPagePositions, kPagePositions);
  }
  for (; j < dim; ++j) {
    for (int r = 0; r < 16; ++r) out[j * kPagePositions + r] = ToFloat(rows[r * dim + j]);
  }
}

// The first count rows of one head of a page of keys, turned: out[j * kPagePositions + p]. Behind
// count, up to a multiple of 16, positions hold anything.
void TurnPage(const Unit& unit, const void* page, std::int64_t count, float* out) {
  const std::int64_t dim = unit.call->head_dim;
  const std::int64_t offset = unit.kv_head * kPagePositions * dim;
  for (std::int64_t p = 0; p < count; p += 16) {
    if (unit.call->kv_type == KvType::kF32) {
      TurnRows(static_cast<const float*>(page) + offset + p * dim, dim, out + p);
    } else {
      TurnRows(static_cast<const std::uint16_t*>(page) + offset + p * dim, dim, out + p);
    }
  }
}

// scores[i][p] = dot(q[i], key p), j rising, for kQueries queries and kChunks * 16 positions.
template <int kQueries, int kChunks>
HONE_INLINE void ScoreChunk(const float* q, const float* keys, std::int64_t dim,
                            std::int64_t padded, float* scores) {
  Vec16 acc[kQueries][kChunks];
  for (int i = 0; i < kQueries; ++i) {
    for (int c = 0; c < kChunks; ++c) acc[i][c] = Vec16::Set1(0);
  }
  for (std::int64_t j = 0; j < dim; ++j, keys += kPagePositions) {
    Vec16 row[kChunks];
    for (int c = 0; c < kChunks; ++c) row[c] = Vec16::Load(keys + c * 16);
    for (int i = 0; i < kQueries; ++i) {
      const Vec16 x = Vec16::Set1(q[i * padded + j]);
      for (int c = 0; c < kChunks; ++c) acc[i][c] = Vec16::MulAdd(x, row[c], acc[i][c]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int c = 0; c < kChunks; ++c) acc[i][c].Store(scores + i * kSegmentPositions + c * 16);
  }
}

// The same for positions [first, count) of a turned page, and up to 15 more on either side.
template <int kQueries>
void ScorePage(const float* q, const float* keys, std::int64_t first, std::int64_t count,
               std::int64_t dim, std::int64_t padded, float* scores) {
  constexpr int kChunks = Vec16::kGemmRows > 4 ? 4 : 1;
  std::int64_t p = first / 16 * 16;
  for (; p + 16 * kChunks <= count; p += 16 * kChunks) {
    ScoreChunk<kQueries, kChunks>(q, keys + p, dim, padded, scores + p);
  }
  for (; p < count; p += 16) {
    ScoreChunk<kQueries, 1>(q, keys + p, dim, padded, scores + p);
  }
}

// scores[first, count) become cap * tanh(score / cap), and up to 15 more on either side.
void CapScores(float* scores, std::int64_t first, std::int64_t count, float cap) {
  const Vec16 scale = Vec16::Set1(1.0f / cap), back = Vec16::Set1(cap);
  for (std::int64_t p = first / 16 * 16; p < count; p += 16) {
    Vec16::Mul(FastTanh(Vec16::Mul(Vec16::Load(scores + p), scale)), back).Store(scores + p);
  }
}

// scores[first, count) become exp(score - max) / sum. The padding to 16 on either side becomes 0.
void SoftmaxSegment(float* scores, std::int64_t first, std::int64_t count, float* max, float* sum) {
  const std::int64_t begin = first / 16 * 16;
  for (std::int64_t p = begin; p < first; ++p) {
    scores[p] = -std::numeric_limits<float>::infinity();
  }
  for (std::int64_t p = count; p % 16 != 0; ++p) {
    scores[p] = -std::numeric_limits<float>::infinity();
  }
  Vec16 most = Vec16::Load(scores + begin);
  for (std::int64_t p = begin + 16; p < count; p += 16) {
    most = Vec16::Max(Vec16::Load(scores + p), most);
  }
  *max = most.ReduceMax();
  const Vec16 shift = Vec16::Set1(*max);
  Vec16 total[2] = {Vec16::Set1(0), Vec16::Set1(0)};
  for (std::int64_t p = begin; p < count; p += 16) {
    const Vec16 e = FastExp(Vec16::Sub(Vec16::Load(scores + p), shift));
    e.Store(scores + p);
    total[p / 16 % 2] = Vec16::Add(total[p / 16 % 2], e);
  }
  *sum = Vec16::Add(total[0], total[1]).ReduceAdd();
  const Vec16 factor = Vec16::Set1(1.0f / *sum);
  for (std::int64_t p = begin; p < count; p += 16) {
    Vec16::Mul(Vec16::Load(scores + p), factor).Store(scores + p);
  }
}

// out[i] += sum over p of weights[i][p] * v row p, kQueries queries, kChunks * 16 lanes at once.
template <int kQueries, int kChunks>
HONE_INLINE void AddValueChunk(const float* weights, const float* v, std::int64_t count,
                               std::int64_t padded, float* out) {
  Vec16 acc[kQueries][kChunks];
  for (int i = 0; i < kQueries; ++i) {
    for (int c = 0; c < kChunks; ++c) acc[i][c] = Vec16::Load(out + i * padded + c * 16);
  }
  for (std::int64_t p = 0; p < count; ++p, v += padded) {
    Vec16 row[kChunks];
    for (int c = 0; c < kChunks; ++c) row[c] = Vec16::Load(v + c * 16);
    for (int i = 0; i < kQueries; ++i) {
      const Vec16 weight = Vec16::Set1(weights[i * kSegmentPositions + p]);
      for (int c = 0; c < kChunks; ++c) acc[i][c] = Vec16::MulAdd(weight, row[c], acc[i][c]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    for (int c = 0; c < kChunks; ++c) acc[i][c].Store(out + i * padded + c * 16);
  }
}

template <int kQueries>
void AddValues(const float* weights, const float* v, std::int64_t count, std::int64_t padded,
               float* out) {
  constexpr int kChunks = Vec16::kGemmRows > 4 ? 2 : 1;
  std::int64_t j = 0;
  for (; j + 16 * kChunks <= padded; j += 16 * kChunks) {
    AddValueChunk<kQueries, kChunks>(weights, v + j, count, padded, out + j);
  }
  for (; j < padded; j += 16) {
    AddValueChunk<kQueries, 1>(weights, v + j, count, padded, out + j);
  }
}

// The part of [begin, begin + limit) that a query sees, counted from begin. Nothing if
// last <= first.
struct Range {
  std::int64_t first, last;
  bool operator==(const Range&) const = default;
};
HONE_INLINE Range Seen(const Unit& unit, std::int64_t query, std::int64_t begin,
                       std::int64_t limit) {
  return {std::clamp<std::int64_t>(unit.first_seen(query) - begin, 0, limit),
          std::min<std::int64_t>(limit, unit.position(query) + 1 - begin)};
}

// How many queries from t on, at most four, see the same positions of the page at `at`.
HONE_INLINE std::int64_t SharedQueries(const Unit& unit, std::int64_t t, std::int64_t at,
                                       const Range& seen) {
  std::int64_t count = 1;
  while (count < kSharedQueries && t + count < unit.queries() &&
         Seen(unit, t + count, at, kPagePositions) == seen) {
    ++count;
  }
  return count;
}

// The first page of the segment at begin that the unit sees.
HONE_INLINE std::int64_t FirstPage(const Unit& unit, std::int64_t begin) {
  return std::max(begin, unit.first_seen(0) / kPagePositions * kPagePositions);
}

void ScoreSegment(const Unit& unit, std::int64_t begin, const float* q, float* tile,
                  float* scores) {
  const std::int64_t padded = unit.padded_dim(), dim = unit.call->head_dim;
  for (std::int64_t at = FirstPage(unit, begin);
       at < begin + kSegmentPositions && at <= unit.last_position(); at += kPagePositions) {
    const std::int64_t used = std::min(kPagePositions, unit.last_position() + 1 - at);
    TurnPage(unit, unit.call->k_pages[at / kPagePositions], used, tile);
    for (std::int64_t t = 0; t < unit.queries();) {
      const Range seen = Seen(unit, t, at, kPagePositions);
      float* out = scores + t * kSegmentPositions + (at - begin);
      switch (SharedQueries(unit, t, at, seen)) {
        case 4:
          ScorePage<4>(q + t * padded, tile, seen.first, seen.last, dim, padded, out);
          t += 4;
          break;
        case 3:
          ScorePage<3>(q + t * padded, tile, seen.first, seen.last, dim, padded, out);
          t += 3;
          break;
        case 2:
          ScorePage<2>(q + t * padded, tile, seen.first, seen.last, dim, padded, out);
          t += 2;
          break;
        default:
          ScorePage<1>(q + t * padded, tile, seen.first, seen.last, dim, padded, out);
          ++t;
      }
    }
  }
}

void SumSegment(const Unit& unit, std::int64_t begin, float* tile, const float* scores, float* v) {
  const std::int64_t padded = unit.padded_dim();
  for (std::int64_t at = FirstPage(unit, begin);
       at < begin + kSegmentPositions && at <= unit.last_position(); at += kPagePositions) {
    const std::int64_t used = std::min(kPagePositions, unit.last_position() + 1 - at);
    const float* values = LoadPage(unit, unit.call->v_pages[at / kPagePositions], used, tile);
    for (std::int64_t t = 0; t < unit.queries();) {
      const Range seen = Seen(unit, t, at, kPagePositions);
      const float* weights = scores + t * kSegmentPositions + (at - begin) + seen.first;
      const float* rows = values + seen.first * padded;
      float* out = v + t * padded;
      switch (SharedQueries(unit, t, at, seen)) {
        case 4:
          AddValues<4>(weights, rows, seen.last - seen.first, padded, out);
          t += 4;
          break;
        case 3:
          AddValues<3>(weights, rows, seen.last - seen.first, padded, out);
          t += 3;
          break;
        case 2:
          AddValues<2>(weights, rows, seen.last - seen.first, padded, out);
          t += 2;
          break;
        default:
          AddValues<1>(weights, rows, seen.last - seen.first, padded, out);
          ++t;
      }
    }
  }
}

void AttendOneSegment(const Unit& unit, std::int64_t segment, float* scratch, const Partial& out) {
  const AttentionArgs& call = *unit.call;
  const std::int64_t padded = unit.padded_dim(), queries = unit.queries();
  const std::int64_t begin = segment * kSegmentPositions;
  float* q = scratch;
  float* scores = q + queries * padded;
  float* tile = scores + queries * kSegmentPositions;
  for (std::int64_t t = 0; t < queries; ++t) {
    const std::int64_t row = unit.first_row + t / unit.group();
    const std::int64_t head = unit.kv_head * unit.group() + t % unit.group();
    const float* from = call.q + (row * call.heads + head) * call.head_dim;
    for (std::int64_t j = 0; j < padded; ++j) {
      q[t * padded + j] = j < call.head_dim ? from[j] * call.scale : 0.0f;
    }
  }
  ScoreSegment(unit, begin, q, tile, scores);
  for (std::int64_t t = 0; t < queries; ++t) {
    const Range seen = Seen(unit, t, begin, kSegmentPositions);
    if (seen.last <= seen.first) continue;
    float* mine = scores + t * kSegmentPositions;
    if (call.softcap > 0) CapScores(mine, seen.first, seen.last, call.softcap);
    SoftmaxSegment(mine, seen.first, seen.last, out.max + t, out.sum + t);
    std::memset(out.v + t * padded, 0, static_cast<std::size_t>(padded) * sizeof(float));
  }
  SumSegment(unit, begin, tile, scores, out.v);
}

void MergeSegment(const Unit& unit, std::int64_t segment, const Partial& part,
                  const Partial& total) {
  const std::int64_t padded = unit.padded_dim();
  for (std::int64_t t = 0; t < unit.queries(); ++t) {
    const float* from = part.v + t * padded;
    float* into = total.v + t * padded;
    if (segment < unit.first_segment(t)) continue;
    if (segment == unit.first_segment(t)) {
      total.max[t] = part.max[t];
      total.sum[t] = part.sum[t];
      std::memcpy(into, from, static_cast<std::size_t>(padded) * sizeof(float));
      continue;
    }
    if (unit.position(t) < segment * kSegmentPositions) continue;
    const float max = total.max[t] > part.max[t] ? total.max[t] : part.max[t];
    const Vec16 old_factor = FastExp(Vec16::Set1(total.max[t] - max));
    const Vec16 new_factor = FastExp(Vec16::Set1(part.max[t] - max));
    float factors[2][16];
    old_factor.Store(factors[0]);
    new_factor.Store(factors[1]);
    total.max[t] = max;
    const float old_sum = total.sum[t] * factors[0][0], new_sum = part.sum[t] * factors[1][0];
    total.sum[t] = old_sum + new_sum;
    const Vec16 old_share = Vec16::Set1(old_sum / total.sum[t]);
    const Vec16 new_share = Vec16::Set1(new_sum / total.sum[t]);
    for (std::int64_t j = 0; j < padded; j += 16) {
      Vec16::Add(Vec16::Mul(Vec16::Load(into + j), old_share),
                 Vec16::Mul(Vec16::Load(from + j), new_share))
          .Store(into + j);
    }
  }
}

void FinishUnit(const Unit& unit, const Partial& total) {
  const AttentionArgs& call = *unit.call;
  for (std::int64_t t = 0; t < unit.queries(); ++t) {
    const std::int64_t row = unit.first_row + t / unit.group();
    const std::int64_t head = unit.kv_head * unit.group() + t % unit.group();
    float* out = call.out + (row * call.heads + head) * call.head_dim;
    const float* v = total.v + t * unit.padded_dim();
    std::memcpy(out, v, static_cast<std::size_t>(call.head_dim) * sizeof(float));
  }
}

void StoreHalf(const float* x, std::int64_t n, std::uint16_t* out) {
  std::int64_t j = 0;
  for (; j + 16 <= n; j += 16) Vec16::Load(x + j).StoreF16(out + j);
  for (; j < n; ++j) out[j] = FloatToFp16(x[j]);
}

}  // namespace
}  // namespace hone::kernels
