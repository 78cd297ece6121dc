// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/float16.h"
#include "kernels/gemm_int4/gemm_int4.h"

namespace hone::kernels::gemm_int4 {
namespace {

int CodeAt(const std::byte* codes, std::int64_t i) {
  const auto byte = static_cast<unsigned>(codes[i / 2]);
  const int code = static_cast<int>(i % 2 == 0 ? byte & 15U : byte >> 4);
  return code < 8 ? code : code - 16;
}

double ScaleAt(const std::byte* scales, std::int64_t i, bool is_block) {
  if (is_block) {
    std::uint16_t scale;
    std::memcpy(&scale, scales + 2 * i, 2);
    return Fp16ToFloat(scale);
  }
  float scale;
  std::memcpy(&scale, scales + 4 * i, 4);
  return scale;
}

}  // namespace

void Reference(const IntGemmArgs& a, const std::byte* codes, const std::byte* scales) {
  const std::int64_t block = a.block == 0 ? a.k : a.block;
  const std::int64_t blocks = a.k / block;
  for (std::int64_t i = 0; i < a.m; ++i) {
    for (std::int64_t r = 0; r < a.n; ++r) {
      double y = 0;
      for (std::int64_t b = 0; b < blocks; ++b) {
        std::int64_t sum = 0;
        for (std::int64_t j = b * block; j < (b + 1) * block; ++j) {
          sum += std::int64_t{CodeAt(codes, r * a.k + j)} * (a.x[i * a.x_stride + j] - a.x_zero[i]);
        }
        y += static_cast<double>(sum) * ScaleAt(scales, r * blocks + b, a.block != 0);
      }
      y *= a.x_scale[i];
      if (a.bias != nullptr) y += a.bias[r];
      a.y[i * a.y_stride + r] = static_cast<float>(y);
    }
  }
}

}  // namespace hone::kernels::gemm_int4
