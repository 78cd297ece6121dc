// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Scores of int8 keys in floats. Include after attention_tiles.h, inside the same target region.
#pragma once

namespace hone::kernels {
namespace {

// What a unit keeps for its scores of int8 keys; memory: floats [queries, padded / 2 + 16].
class Int8Scores {
 public:
  Int8Scores(const float* q, std::int64_t /*queries*/, std::int64_t dim, float* /*memory*/)
      : q_(q), dim_(dim), padded_((dim + 15) / 16 * 16) {}

  // For each page first. tile: floats [kPagePositions, padded].
  void StartPage(const std::byte* piece, std::int64_t used, float* tile) {
    ExpandInt8Keys(reinterpret_cast<const std::int8_t*>(piece), used, dim_, tile);
    tile_ = tile;
    scales_ = reinterpret_cast<const float*>(piece + attention::Int8CodeBytes(dim_));
  }

  // Scores of queries from t on and positions [first, last) of the page, and up to 15 more.
  template <int kQueries>
  void Score(std::int64_t t, std::int64_t first, std::int64_t last, std::intptr_t /*ahead*/,
             float* scores) const {
    ScorePage<kQueries>(q_ + t * padded_, tile_, 0, first, last, dim_, padded_, scores);
    for (int i = 0; i < kQueries; ++i) {
      float* mine = scores + i * kSegmentPositions;
      for (std::int64_t p = first / 16 * 16; p < last; p += 16) {
        Vec16::Mul(Vec16::Load(mine + p), Vec16::Load(scales_ + p)).Store(mine + p);
      }
    }
  }

 private:
  const float* q_;
  std::int64_t dim_, padded_;
  const float* tile_ = nullptr;
  const float* scales_ = nullptr;
};

}  // namespace
}  // namespace hone::kernels
