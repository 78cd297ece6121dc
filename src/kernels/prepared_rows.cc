// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/gemm_int4/gemm_int4.h"
#include "kernels/linear.h"
#include "kernels/quantize_row/quantize_row.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/tile.h"

namespace hone::kernels {
namespace {

// Values that one task takes at least; less is not worth waking a thread.
constexpr std::int64_t kGrainValues = 16384;

std::int64_t RowsPerTask(std::int64_t k) {
  return std::max<std::int64_t>(1, kGrainValues / std::max<std::int64_t>(1, k));
}

template <typename Buffer>
void Grow(Buffer& buffer, std::int64_t size) {
  if (static_cast<std::int64_t>(buffer.size()) < size) {
    buffer.resize(static_cast<std::size_t>(size));
  }
}

}  // namespace

void PreparedRows::Reserve(InputKind kind, const float* x, std::int64_t m, std::int64_t k) {
  kind_ = kind;
  m_ = m;
  k_ = k;
  plain_ = x;
  if (kind == InputKind::kPlain) return;
  constexpr std::int64_t kPadding = 64;
  q8_stride_ = CeilDiv(k, kPadding) * kPadding;
  static const gemm_int4::Kernel& int4 = gemm_int4::Find();
  Grow(q8_, m * q8_stride_);
  if (gemm_int4::ReadsOffsetRows(int4)) Grow(q8_offset_, m * q8_stride_);
  if (gemm_int4::ReadsBlockOffsets(int4)) Grow(block_offsets_, m * q8_stride_ / kSumBlock);
  Grow(scale_, m);
  Grow(zero_point_, m);
  Grow(row_sum_, m);
}

void PreparedRows::QuantizeRow(const float* x, std::int64_t row) {
  static const quantize_row::Fn quantize = quantize_row::Find().fn;
  quantize_row::Args args;
  args.x = x;
  args.k = k_;
  args.padded = q8_stride_;
  args.q = q8_.data() + row * q8_stride_;
  if (!q8_offset_.empty()) args.q_offset = q8_offset_.data() + row * q8_stride_;
  if (!block_offsets_.empty()) {
    args.block_offsets = block_offsets_.data() + row * q8_stride_ / kSumBlock;
  }
  quantize(args);
  const auto i = static_cast<std::size_t>(row);
  scale_[i] = args.params.scale;
  zero_point_[i] = args.params.zero_point;
  row_sum_[i] = args.sum;
}

void PreparedRows::Prepare(InputKind kind, const float* x, std::int64_t m, std::int64_t k,
                           ThreadPool& pool) {
  Reserve(kind, x, m, k);
  if (kind == InputKind::kPlain) return;
  pool.For(m, RowsPerTask(k), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) QuantizeRow(x + i * k, i);
  });
}

void PreparedRows::PrepareNormed(InputKind kind, const float* x, const float* norm_weight,
                                 float epsilon, std::int64_t m, std::int64_t k, float* normed,
                                 ThreadPool& pool) {
  Reserve(kind, normed, m, k);
  static const rmsnorm::Fn norm = rmsnorm::Find().fn;
  pool.For(m, RowsPerTask(k), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      norm(x + i * k, norm_weight, epsilon, k, normed + i * k);
      if (kind == InputKind::kRowQ8) QuantizeRow(normed + i * k, i);
    }
  });
}

}  // namespace hone::kernels
