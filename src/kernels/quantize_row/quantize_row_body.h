// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The row quantizer over a Vec16. Include after a Vec16, inside the same target region.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/quantize_row/quantize_row.h"

namespace hone::kernels {
namespace {

HONE_INLINE Vec16 LoadPart(const float* p, std::int64_t n) {
  float buffer[16] = {};
  std::memcpy(buffer, p, static_cast<std::size_t>(n) * sizeof(float));
  return Vec16::Load(buffer);
}

void QuantizeRow(quantize_row::Args& a) {
  const std::int64_t whole = a.k / 16 * 16;
  Vec16 lo = Vec16::Set1(0), hi = lo;
  for (std::int64_t j = 0; j < whole; j += 16) {
    const Vec16 x = Vec16::Load(a.x + j);
    lo = Vec16::Min(x, lo);
    hi = Vec16::Max(x, hi);
  }
  if (whole < a.k) {
    const Vec16 x = LoadPart(a.x + whole, a.k - whole);
    lo = Vec16::Min(x, lo);
    hi = Vec16::Max(x, hi);
  }
  a.params =
      quantize_row::ParamsFromRange(-Vec16::Sub(Vec16::Set1(0), lo).ReduceMax(), hi.ReduceMax());
  const std::int32_t zero = a.params.zero_point;
  const Vec16 inverse = Vec16::Set1(a.params.inverse);
  const Vec16 most = Vec16::Set1(static_cast<float>(127 - zero));
  const Vec16 least = Vec16::Set1(static_cast<float>(-128 - zero));
  for (std::int64_t j = 0; j < a.padded; j += 16) {
    if (j >= a.k) {
      std::memset(a.q + j, 0, 16);
      continue;
    }
    const std::int64_t n = a.k - j < 16 ? a.k - j : 16;
    const Vec16 x = n == 16 ? Vec16::Load(a.x + j) : LoadPart(a.x + j, n);
    const Vec16 scaled = Vec16::Max(Vec16::Min(Vec16::Mul(x, inverse), most), least);
    scaled.StoreRounded(zero, a.q + j);
    if (n < 16) std::memset(a.q + j + n, 0, static_cast<std::size_t>(16 - n));
  }
  if (a.q_offset != nullptr) {
    for (std::int64_t j = 0; j < a.padded; ++j) {
      a.q_offset[j] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(a.q[j]) ^ 0x80U);
    }
  }
  a.sum = 0;
  for (std::int64_t b = 0; b < a.padded / 32; ++b) {
    std::int32_t sum = 0;
    for (int j = 0; j < 32; ++j) sum += a.q[b * 32 + j];
    if (a.block_offsets != nullptr) a.block_offsets[b] = -8 * sum;
    a.sum += sum;
  }
}

}  // namespace
}  // namespace hone::kernels
