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

namespace hone::kernels {
namespace {

using attention::kSegmentPositions;
using attention::Partial;
using attention::Unit;

// Queries that share one load of a value row.
constexpr int kSharedQueries = 4;

// rows [count, dim] of one head of a page as float32 rows of padded length; points into the page
// where it can.
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

// scores[p] = dot(q, k row p) for p < count.
void ScorePage(const float* q, const float* k, std::int64_t count, std::int64_t padded,
               float* scores) {
  std::int64_t p = 0;
  for (; p + 4 <= count; p += 4, k += 4 * padded) {
    Vec16 a = Vec16::Set1(0), b = a, c = a, d = a;
    for (std::int64_t j = 0; j < padded; j += 16) {
      const Vec16 x = Vec16::Load(q + j);
      a = Vec16::MulAdd(x, Vec16::Load(k + j), a);
      b = Vec16::MulAdd(x, Vec16::Load(k + padded + j), b);
      c = Vec16::MulAdd(x, Vec16::Load(k + 2 * padded + j), c);
      d = Vec16::MulAdd(x, Vec16::Load(k + 3 * padded + j), d);
    }
    Vec16::ReduceAdd4(a, b, c, d, scores + p);
  }
  for (; p < count; ++p, k += padded) {
    Vec16 a = Vec16::Set1(0);
    for (std::int64_t j = 0; j < padded; j += 16) {
      a = Vec16::MulAdd(Vec16::Load(q + j), Vec16::Load(k + j), a);
    }
    scores[p] = a.ReduceAdd();
  }
}

// scores become exp(score - max). The padding to 16 becomes 0.
void SoftmaxSegment(float* scores, std::int64_t count, float* max, float* sum) {
  for (std::int64_t p = count; p % 16 != 0; ++p) {
    scores[p] = -std::numeric_limits<float>::infinity();
  }
  Vec16 most = Vec16::Load(scores);
  for (std::int64_t p = 16; p < count; p += 16) {
    most = Vec16::Max(Vec16::Load(scores + p), most);
  }
  *max = most.ReduceMax();
  const Vec16 shift = Vec16::Set1(*max);
  Vec16 total = Vec16::Set1(0);
  for (std::int64_t p = 0; p < count; p += 16) {
    const Vec16 e = Exp(Vec16::Sub(Vec16::Load(scores + p), shift));
    e.Store(scores + p);
    total = Vec16::Add(total, e);
  }
  *sum = total.ReduceAdd();
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

// Positions of [begin, begin + limit) that a query sees; may be negative or zero.
HONE_INLINE std::int64_t Seen(const Unit& unit, std::int64_t query, std::int64_t begin,
                              std::int64_t limit) {
  return std::min<std::int64_t>(limit, unit.position(query) + 1 - begin);
}

void ScoreSegment(const Unit& unit, std::int64_t begin, const float* q, float* tile,
                  float* scores) {
  const std::int64_t padded = unit.padded_dim();
  for (std::int64_t at = begin; at < begin + kSegmentPositions && at <= unit.last_position();
       at += kPagePositions) {
    const std::int64_t used = std::min(kPagePositions, unit.last_position() + 1 - at);
    const float* k = LoadPage(unit, unit.call->k_pages[at / kPagePositions], used, tile);
    for (std::int64_t t = 0; t < unit.queries(); ++t) {
      const std::int64_t seen = Seen(unit, t, at, kPagePositions);
      ScorePage(q + t * padded, k, seen, padded, scores + t * kSegmentPositions + (at - begin));
    }
  }
}

void SumSegment(const Unit& unit, std::int64_t begin, float* tile, const float* scores, float* v) {
  const std::int64_t padded = unit.padded_dim();
  for (std::int64_t at = begin; at < begin + kSegmentPositions && at <= unit.last_position();
       at += kPagePositions) {
    const std::int64_t used = std::min(kPagePositions, unit.last_position() + 1 - at);
    const float* values = LoadPage(unit, unit.call->v_pages[at / kPagePositions], used, tile);
    for (std::int64_t t = 0; t < unit.queries();) {
      const std::int64_t seen = Seen(unit, t, at, kPagePositions);
      const float* weights = scores + t * kSegmentPositions + (at - begin);
      const bool shared = t + kSharedQueries <= unit.queries() &&
                          Seen(unit, t + kSharedQueries - 1, at, kPagePositions) == seen;
      if (shared) {
        AddValues<kSharedQueries>(weights, values, seen, padded, v + t * padded);
        t += kSharedQueries;
      } else {
        AddValues<1>(weights, values, seen, padded, v + t * padded);
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
    const std::int64_t seen = Seen(unit, t, begin, kSegmentPositions);
    if (seen <= 0) continue;
    SoftmaxSegment(scores + t * kSegmentPositions, seen, out.max + t, out.sum + t);
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
    if (segment == 0) {
      total.max[t] = part.max[t];
      total.sum[t] = part.sum[t];
      std::memcpy(into, from, static_cast<std::size_t>(padded) * sizeof(float));
      continue;
    }
    if (unit.position(t) < segment * kSegmentPositions) continue;
    const float max = total.max[t] > part.max[t] ? total.max[t] : part.max[t];
    const Vec16 old_factor = Exp(Vec16::Set1(total.max[t] - max));
    const Vec16 new_factor = Exp(Vec16::Set1(part.max[t] - max));
    float factors[2][16];
    old_factor.Store(factors[0]);
    new_factor.Store(factors[1]);
    total.max[t] = max;
    total.sum[t] = total.sum[t] * factors[0][0] + part.sum[t] * factors[1][0];
    for (std::int64_t j = 0; j < padded; j += 16) {
      Vec16::Add(Vec16::Mul(Vec16::Load(into + j), old_factor),
                 Vec16::Mul(Vec16::Load(from + j), new_factor))
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
    for (std::int64_t j = 0; j < call.head_dim; ++j) out[j] = v[j] / total.sum[t];
  }
}

void StoreHalf(const float* x, std::int64_t n, std::uint16_t* out) {
  std::int64_t j = 0;
  for (; j + 16 <= n; j += 16) Vec16::Load(x + j).StoreF16(out + j);
  for (; j < n; ++j) out[j] = FloatToFp16(x[j]);
}

}  // namespace
}  // namespace hone::kernels
