// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Activations and arguments for the tests of the integer matrix kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/int_gemm.h"
#include "kernels/quantize_row/quantize_row.h"
#include "kernels/test_memory.h"
#include "kernels/test_util.h"

namespace hone::kernels {

// m rows of k seeded codes over the whole range, with scales and zero points of their own.
struct IntRows {
  IntRows(std::int64_t m, std::int64_t k, std::uint32_t seed) {
    std::mt19937 random(seed);
    const std::int64_t stride = (k + 63) / 64 * 64;
    q.assign(static_cast<std::size_t>(m * stride), 0);
    block_offsets.assign(static_cast<std::size_t>(m * stride / kSumBlock), 0);
    for (std::int64_t i = 0; i < m; ++i) {
      std::int32_t sum = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        // The ends often, so that saturation would show.
        const auto r = random();
        const int code = r % 4 == 0 ? -128 : r % 4 == 1 ? 127 : static_cast<int>(r / 4 % 256) - 128;
        q[static_cast<std::size_t>(i * stride + j)] = static_cast<std::int8_t>(code);
        block_offsets[static_cast<std::size_t>((i * stride + j) / kSumBlock)] -= 8 * code;
        sum += code;
      }
      sums.push_back(sum);
      scale.push_back(0.001f * static_cast<float>(1 + random() % 50));
      zero.push_back(static_cast<std::int32_t>(random() % 256) - 128);
    }
    for (const std::int8_t code : q) q_offset.push_back(static_cast<std::uint8_t>(code + 128));
    args.x = q.data();
    args.x_offset = q_offset.data();
    args.x_stride = stride;
    args.x_scale = scale.data();
    args.x_zero = zero.data();
    args.x_sum = sums.data();
    args.x_block_offsets = block_offsets.data();
    args.offsets_stride = stride / kSumBlock;
    args.m = m;
    args.k = k;
  }
  std::vector<std::int8_t> q;
  std::vector<std::uint8_t> q_offset;
  std::vector<std::int32_t> block_offsets, zero, sums;
  std::vector<float> scale;
  IntGemmArgs args;
};

// m rows whose codes are all -128 or all 127, with the zero point -128 or 127: row i is combination
// (first + i) % 4. Scales are one.
struct ExtremeRows : IntRows {
  ExtremeRows(std::int64_t m, std::int64_t k, int first) : IntRows(m, k, 1) {
    for (std::int64_t i = 0; i < m; ++i) {
      const std::int64_t which = (first + i) % 4, begin = i * args.x_stride;
      const int code = which % 2 == 0 ? -128 : 127;
      std::fill_n(q.begin() + begin, k, static_cast<std::int8_t>(code));
      std::fill_n(q_offset.begin() + begin, k, static_cast<std::uint8_t>(code + 128));
      for (std::int64_t j = 0; j < k; j += kSumBlock) {
        block_offsets[static_cast<std::size_t>((begin + j) / kSumBlock)] =
            -8 * code * static_cast<int>(std::min(kSumBlock, k - j));
      }
      sums[static_cast<std::size_t>(i)] = code * static_cast<int>(k);
      scale[static_cast<std::size_t>(i)] = 1.0f;
      zero[static_cast<std::size_t>(i)] = which / 2 == 0 ? -128 : 127;
    }
  }
};

// The arguments of a call whose arrays are placed, with n columns; bias may be null. The caller
// sets panel_bytes and block.
class PlacedIntGemm {
 public:
  PlacedIntGemm(const IntRows& rows, const std::vector<std::byte>& panels, const float* bias,
                std::int64_t n, const Placement& at)
      : PlacedIntGemm(rows, rows.args.m, rows.args.x_stride, panels, bias, n, at) {}

  // Whether the kernel left all alone but y.
  bool Intact() const {
    return x_.Intact() && x_offset_.Intact() && offsets_.Intact() && scale_.Intact() &&
           zero_.Intact() && sum_.Intact() && w_.Intact() && bias_.Intact() && y_.Intact();
  }
  IntGemmArgs args;

 private:
  PlacedIntGemm(const IntRows& rows, std::int64_t m, std::int64_t padded,
                const std::vector<std::byte>& panels, const float* bias, std::int64_t n,
                const Placement& at)
      : x_(rows.q.data(), m, padded, padded, padded + at.x_gap, at),
        x_offset_(rows.q_offset.data(), m, padded, padded, padded + at.x_gap, at),
        offsets_(rows.block_offsets.data(), m, padded / kSumBlock, padded / kSumBlock,
                 padded / kSumBlock + at.x_gap, at),
        scale_(rows.scale.data(), m, at),
        zero_(rows.zero.data(), m, at),
        sum_(rows.sums.data(), m, at),
        w_(panels.data(), static_cast<std::int64_t>(panels.size()), at),
        bias_(bias, n, at),
        y_(nullptr, m, n, n, n + at.y_gap, at) {
    args = rows.args;
    args.x = x_.data();
    args.x_offset = x_offset_.data();
    args.x_stride = x_.stride();
    args.x_scale = scale_.data();
    args.x_zero = zero_.data();
    args.x_sum = sum_.data();
    args.x_block_offsets = offsets_.data();
    args.offsets_stride = offsets_.stride();
    args.w = w_.data();
    args.bias = bias == nullptr ? nullptr : bias_.data();
    args.y = y_.data();
    args.y_stride = y_.stride();
    args.n = n;
  }

  PlacedRows<std::int8_t> x_;
  PlacedRows<std::uint8_t> x_offset_;
  PlacedRows<std::int32_t> offsets_;
  PlacedRows<float> scale_;
  PlacedRows<std::int32_t> zero_, sum_;
  PlacedRows<std::byte> w_;
  PlacedRows<float> bias_, y_;
};

// y [m, n] of a call whose rows and panels are moved so far apart that 32 bits do not hold an index
// of the third of them. Empty if the system refuses the address space.
inline std::vector<float> RunFarApart(IntGemmFn fn, const IntGemmArgs& near) {
  constexpr std::int64_t kFar = std::int64_t{1} << 30;
  const std::int64_t panels = NumPanels(near.n), padded = (near.k + 63) / 64 * 64;
  IntGemmArgs far = near;
  far.x_stride = kFar + 64;
  far.offsets_stride = kFar + 2;
  far.panel_bytes = 2 * kFar + 192;
  far.y_stride = kFar + near.n;
  const auto bytes = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const SparseMemory x(bytes(near.m * far.x_stride)), x_offset(bytes(near.m * far.x_stride));
  const SparseMemory offsets(bytes(near.m * far.offsets_stride * 4));
  const SparseMemory w(bytes(panels * far.panel_bytes)), y(bytes(near.m * far.y_stride * 4));
  for (const SparseMemory* memory : {&x, &x_offset, &offsets, &w, &y}) {
    if (memory->data() == nullptr) return {};
  }
  for (std::int64_t i = 0; i < near.m; ++i) {
    std::memcpy(x.data() + i * far.x_stride, near.x + i * near.x_stride, bytes(padded));
    std::memcpy(x_offset.data() + i * far.x_stride, near.x_offset + i * near.x_stride,
                bytes(padded));
    std::memcpy(offsets.data() + i * far.offsets_stride * 4,
                near.x_block_offsets + i * near.offsets_stride, bytes(padded / kSumBlock * 4));
  }
  for (std::int64_t p = 0; p < panels; ++p) {
    std::memcpy(w.data() + p * far.panel_bytes, near.w + p * near.panel_bytes,
                bytes(near.panel_bytes));
  }
  far.x = reinterpret_cast<const std::int8_t*>(x.data());
  far.x_offset = reinterpret_cast<const std::uint8_t*>(x_offset.data());
  far.x_block_offsets = reinterpret_cast<const std::int32_t*>(offsets.data());
  far.w = w.data();
  far.y = reinterpret_cast<float*>(y.data());
  fn(far);
  std::vector<float> result;
  for (std::int64_t i = 0; i < near.m; ++i) {
    const float* row = far.y + i * far.y_stride;
    result.insert(result.end(), row, row + near.n);
  }
  return result;
}

}  // namespace hone::kernels
