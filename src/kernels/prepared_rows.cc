// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear.h"
#include "kernels/quantize_row/quantize_row.h"

namespace hone::kernels {

void PreparedRows::Prepare(InputKind kind, const float* x, std::int64_t m, std::int64_t k,
                           ThreadPool& pool) {
  kind_ = kind;
  m_ = m;
  k_ = k;
  plain_ = x;
  if (kind == InputKind::kPlain) return;
  constexpr std::int64_t kPadding = 64;
  q8_stride_ = (k + kPadding - 1) / kPadding * kPadding;
  const std::int64_t offsets_stride = q8_stride_ / 32;
  const auto grow = [](auto& buffer, std::int64_t size) {
    if (static_cast<std::int64_t>(buffer.size()) < size) {
      buffer.resize(static_cast<std::size_t>(size));
    }
  };
  grow(q8_, m * q8_stride_);
  grow(q8_offset_, m * q8_stride_);
  grow(block_offsets_, m * offsets_stride);
  grow(scale_, m);
  grow(zero_point_, m);
  grow(row_sum_, m);
  static const quantize_row::Fn quantize = quantize_row::Find().fn;
  constexpr std::int64_t kGrainValues = 16384;
  const std::int64_t grain = k >= kGrainValues ? 1 : kGrainValues / (k > 0 ? k : 1);
  pool.For(m, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      quantize_row::Args args;
      args.x = x + i * k;
      args.k = k;
      args.padded = q8_stride_;
      args.q = q8_.data() + i * q8_stride_;
      args.block_offsets = block_offsets_.data() + i * offsets_stride;
      quantize(args);
      std::uint8_t* offset = q8_offset_.data() + i * q8_stride_;
      for (std::int64_t j = 0; j < q8_stride_; ++j) {
        offset[j] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(args.q[j]) ^ 0x80U);
      }
      const auto row = static_cast<std::size_t>(i);
      scale_[row] = args.params.scale;
      zero_point_[row] = args.params.zero_point;
      row_sum_[row] = args.sum;
    }
  });
}

}  // namespace hone::kernels
