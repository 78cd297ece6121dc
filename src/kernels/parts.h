// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How the panels of a matrix are cut into the parts that threads take.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/tile.h"

namespace hone::kernels {

// Kernels take panels in pairs.
inline constexpr std::int64_t kPair = 2;

// Work of `bytes` of weights cut into parts that shrink towards the end, down to `least` (more for
// a large matrix, so that kMost parts are enough), so that threads which take one after the other
// finish together. A rest of less than two least parts is halved. With one thread there is one
// part. The cuts depend on the arguments alone. bytes >= 0, least and threads >= 1.
class Parts {
 public:
  static constexpr int kMost = 256;

  Parts(std::int64_t bytes, std::int64_t least, int threads)
      : least_(std::max(least, CeilDiv(bytes, kMost - 1))) {
    std::int64_t at = 0;
    while (at < bytes) {
      const std::int64_t rest = bytes - at;
      std::int64_t size = std::max(least_, rest / (2 * threads));
      if (threads == 1 || rest <= least_) {
        size = rest;
      } else if (rest < 2 * least_) {
        size = CeilDiv(rest, 2);
      }
      at += size;
      ends_[static_cast<std::size_t>(count_++)] = at;
    }
  }
  int count() const { return count_; }
  // What `least` became.
  std::int64_t least() const { return least_; }
  std::int64_t begin(int part) const {
    return part == 0 ? 0 : ends_[static_cast<std::size_t>(part - 1)];
  }
  std::int64_t end(int part) const { return ends_[static_cast<std::size_t>(part)]; }

 private:
  std::int64_t least_;
  int count_ = 0;
  std::array<std::int64_t, kMost> ends_;
};

// The first pair of panels of a matrix that begins at or behind byte `at` of the pass; the matrix
// begins at byte `first`.
inline std::int64_t PanelAt(std::int64_t at, std::int64_t first, std::int64_t panels,
                            std::int64_t panel_bytes) {
  const std::int64_t pairs = CeilDiv(std::max<std::int64_t>(at - first, 0), kPair * panel_bytes);
  return std::min(kPair * pairs, panels);
}

}  // namespace hone::kernels
