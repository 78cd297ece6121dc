// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Attention over a Vec16. Include after a Vec16, attention_tiles.h and one of the int8_scores
// headers, and before one of the int8_values headers, inside the same target region.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/float16.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/simd/exp.h"
#include "kernels/simd/tanh.h"

namespace hone::kernels {
namespace {

// scores[first, count) become cap * tanh(score / cap), and up to 15 more on either side.
void CapScores(float* scores, std::int64_t first, std::int64_t count, float cap) {
  const Vec16 scale = Vec16::Set1(1.0f / cap), back = Vec16::Set1(cap);
  for (std::int64_t p = first / 16 * 16; p < count; p += 16) {
    Vec16::Mul(FastTanh(Vec16::Mul(Vec16::Load(scores + p), scale)), back).Store(scores + p);
  }
}

// Bounds that make lanes behind or before some lane minus infinity and leave the others.
constexpr float kInfinity = std::numeric_limits<float>::infinity();
alignas(64) constexpr float kBounds[48] = {
    -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity,
    -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity,
    kInfinity,  kInfinity,  kInfinity,  kInfinity,  kInfinity,  kInfinity,  kInfinity,  kInfinity,
    kInfinity,  kInfinity,  kInfinity,  kInfinity,  kInfinity,  kInfinity,  kInfinity,  kInfinity,
    -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity,
    -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity};

// scores[first, count) become exp(score - max) / sum. The padding to 16 on either side becomes 0.
void SoftmaxSegment(float* scores, std::int64_t first, std::int64_t count, float* max, float* sum) {
  const std::int64_t begin = first / 16 * 16;
  // Whole vectors: single stores would hold up the loads behind them.
  if (begin < first) {
    Vec16::Min(Vec16::Load(scores + begin), Vec16::Load(kBounds + 16 - first % 16))
        .Store(scores + begin);
  }
  if (count % 16 != 0) {
    float* last = scores + count / 16 * 16;
    Vec16::Min(Vec16::Load(last), Vec16::Load(kBounds + 32 - count % 16)).Store(last);
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

// How many queries from t on, at most a tile, see the same positions of the page at `at`.
HONE_INLINE std::int64_t SharedQueries(const Unit& unit, std::int64_t t, std::int64_t at,
                                       const Range& seen) {
  std::int64_t count = 1;
  while (count < kTileQueries && t + count < unit.queries() &&
         Seen(unit, t + count, at, kPagePositions) == seen) {
    ++count;
  }
  return count;
}

// work(number, t, seen) for each tile of queries that see the same positions of the page at `at`;
// number is an integral_constant of queries from t on.
template <typename Work>
HONE_INLINE void ForTiles(const Unit& unit, std::int64_t at, const Work& work) {
  for (std::int64_t t = 0; t < unit.queries();) {
    const Range seen = Seen(unit, t, at, kPagePositions);
    const std::int64_t count = SharedQueries(unit, t, at, seen);
    if (seen.last > seen.first) {
      switch (count) {
        case 1:
          work(std::integral_constant<int, 1>(), t, seen);
          break;
        case 2:
          work(std::integral_constant<int, 2>(), t, seen);
          break;
        case 3:
          work(std::integral_constant<int, 3>(), t, seen);
          break;
        default:
          if constexpr (kTileQueries == 4) {
            work(std::integral_constant<int, 4>(), t, seen);
          } else {
            switch (count) {
              case 4:
                work(std::integral_constant<int, 4>(), t, seen);
                break;
              case 5:
                work(std::integral_constant<int, 5>(), t, seen);
                break;
              case 6:
                work(std::integral_constant<int, 6>(), t, seen);
                break;
              case 7:
                work(std::integral_constant<int, 7>(), t, seen);
                break;
              default:
                work(std::integral_constant<int, 8>(), t, seen);
            }
          }
      }
    }
    t += count;
  }
}

// The first page of the segment at begin that the unit sees.
HONE_INLINE std::int64_t FirstPage(const Unit& unit, std::int64_t begin) {
  return std::max(begin, unit.first_seen(0) / kPagePositions * kPagePositions);
}

// The bytes from one piece to another; 0 if there is no other.
HONE_INLINE std::intptr_t Distance(const std::byte* from, const std::byte* to) {
  if (to == nullptr) return 0;
  return reinterpret_cast<std::intptr_t>(to) - reinterpret_cast<std::intptr_t>(from);
}

// A segment of one unit, and its memory.
struct Segment {
  const Unit* unit;
  std::int64_t begin;
  float* q;       // [queries, padded]
  float* scores;  // [queries, kSegmentPositions]
  float* tile;    // [kPagePositions, padded]
  float* int8;    // for Int8Scores, then for Int8Weights

  std::int64_t end() const {
    return std::min(begin + kSegmentPositions, unit->last_position() + 1);
  }
  // Pieces that follow the one of the page at `at` in the order of use; null if none.
  const std::byte* NextKeys(std::int64_t at) const {
    const std::int64_t next = at + kPagePositions;
    if (next < end()) return unit->Piece(unit->call->k_pages[next / kPagePositions]);
    return unit->Piece(unit->call->v_pages[FirstPage(*unit, begin) / kPagePositions]);
  }
  const std::byte* NextValues(std::int64_t at) const {
    const std::int64_t next = at + kPagePositions;
    if (next < end()) return unit->Piece(unit->call->v_pages[next / kPagePositions]);
    // The next segment is likely to follow on this thread.
    if (end() > unit->last_position()) return nullptr;
    return unit->Piece(unit->call->k_pages[end() / kPagePositions]);
  }
};

// Scores of a page of f32 or f16 keys.
template <typename T>
void ScoreFloats(const Segment& s, std::int64_t at, const T* keys, std::intptr_t ahead) {
  const std::int64_t padded = s.unit->padded_dim(), dim = s.unit->call->head_dim;
  ForTiles(*s.unit, at, [&](auto number, std::int64_t t, const Range& seen) {
    ScorePage<decltype(number)::value>(s.q + t * padded, keys, ahead, seen.first, seen.last, dim,
                                       padded, s.scores + t * kSegmentPositions + (at - s.begin));
  });
}

void ScoreSegment(const Segment& s) {
  const Unit& unit = *s.unit;
  const std::int64_t dim = unit.call->head_dim;
  const bool one_tile = unit.queries() <= kTileQueries;
  if (unit.call->kv_type == KvType::kInt8) {
    Int8Scores int8(s.q, unit.queries(), dim, s.int8);
    for (std::int64_t at = FirstPage(unit, s.begin); at < s.end(); at += kPagePositions) {
      const std::byte* piece = unit.Piece(unit.call->k_pages[at / kPagePositions]);
      const std::intptr_t ahead = Distance(piece, s.NextKeys(at));
      FetchScales(piece + attention::Int8CodeBytes(dim), ahead);
      int8.StartPage(piece, std::min(kPagePositions, s.end() - at), s.tile);
      ForTiles(unit, at, [&](auto number, std::int64_t t, const Range& seen) {
        int8.template Score<decltype(number)::value>(
            t, seen.first, seen.last, ahead, s.scores + t * kSegmentPositions + (at - s.begin));
      });
    }
    return;
  }
  for (std::int64_t at = FirstPage(unit, s.begin); at < s.end(); at += kPagePositions) {
    const std::byte* piece = unit.Piece(unit.call->k_pages[at / kPagePositions]);
    const std::intptr_t ahead = Distance(piece, s.NextKeys(at));
    if (unit.call->kv_type == KvType::kF32) {
      ScoreFloats(s, at, reinterpret_cast<const float*>(piece), ahead);
      continue;
    }
    const auto* halves = reinterpret_cast<const std::uint16_t*>(piece);
    if (one_tile) {
      ScoreFloats(s, at, halves, ahead);
    } else {
      ExpandKeys(halves, std::min(kPagePositions, s.end() - at), dim, s.tile);
      ScoreFloats(s, at, static_cast<const float*>(s.tile), 0);
    }
  }
}

template <typename T>
void SumFloats(const Segment& s, std::int64_t at, const T* values, std::intptr_t ahead, float* v) {
  const std::int64_t padded = s.unit->padded_dim();
  ForTiles(*s.unit, at, [&](auto number, std::int64_t t, const Range& seen) {
    AddValues<decltype(number)::value>(
        s.scores + t * kSegmentPositions + (at - s.begin) + seen.first,
        values + seen.first * padded, ahead, seen.last - seen.first, padded, v + t * padded);
  });
}

// A page of values of type T: as it is where that saves work and its rows need no padding.
template <typename T>
void SumPage(const Segment& s, std::int64_t at, const T* values, std::intptr_t ahead, float* v) {
  const std::int64_t dim = s.unit->call->head_dim;
  const bool direct = std::is_same_v<T, float> || s.unit->queries() <= kTileQueries;
  if (direct && dim % 16 == 0) {
    SumFloats(s, at, values, ahead, v);
  } else {
    ExpandRows(values, std::min(kPagePositions, s.end() - at), dim, s.tile);
    SumFloats(s, at, static_cast<const float*>(s.tile), 0, v);
  }
}

// v += a page of int8 values times its weights. An int8_values header defines it.
void SumInt8(const Segment& s, std::int64_t at, const std::byte* piece, std::intptr_t ahead,
             float* v);

void SumSegment(const Segment& s, float* v) {
  const Unit& unit = *s.unit;
  for (std::int64_t at = FirstPage(unit, s.begin); at < s.end(); at += kPagePositions) {
    const std::byte* piece = unit.Piece(unit.call->v_pages[at / kPagePositions]);
    const std::intptr_t ahead = Distance(piece, s.NextValues(at));
    switch (unit.call->kv_type) {
      case KvType::kF32:
        SumPage(s, at, reinterpret_cast<const float*>(piece), ahead, v);
        break;
      case KvType::kF16:
        SumPage(s, at, reinterpret_cast<const std::uint16_t*>(piece), ahead, v);
        break;
      case KvType::kInt8:
        FetchScales(piece + attention::Int8CodeBytes(unit.call->head_dim), ahead);
        SumInt8(s, at, piece, ahead, v);
    }
  }
}

void AttendOneSegment(const Unit& unit, std::int64_t segment, float* scratch, const Partial& out) {
  const AttentionArgs& call = *unit.call;
  const std::int64_t padded = unit.padded_dim(), queries = unit.queries();
  Segment s = {&unit, segment * kSegmentPositions, scratch, nullptr, nullptr, nullptr};
  s.scores = s.q + queries * padded;
  s.tile = s.scores + queries * kSegmentPositions;
  s.int8 = s.tile + kPagePositions * padded;
  for (std::int64_t t = 0; t < queries; ++t) {
    const std::int64_t row = unit.first_row + t / unit.group();
    const std::int64_t head = unit.kv_head * unit.group() + t % unit.group();
    const float* from = call.q + (row * call.heads + head) * call.head_dim;
    for (std::int64_t j = 0; j < padded; ++j) {
      s.q[t * padded + j] = j < call.head_dim ? from[j] * call.scale : 0.0f;
    }
  }
  ScoreSegment(s);
  for (std::int64_t t = 0; t < queries; ++t) {
    const Range seen = Seen(unit, t, s.begin, kSegmentPositions);
    if (seen.last <= seen.first) continue;
    float* mine = s.scores + t * kSegmentPositions;
    if (call.softcap > 0) CapScores(mine, seen.first, seen.last, call.softcap);
    SoftmaxSegment(mine, seen.first, seen.last, out.max + t, out.sum + t);
    std::memset(out.v + t * padded, 0, static_cast<std::size_t>(padded) * sizeof(float));
  }
  SumSegment(s, out.v);
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

}  // namespace
}  // namespace hone::kernels
