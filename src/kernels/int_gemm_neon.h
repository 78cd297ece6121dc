// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the NEON kernels of int8 and int4 share. Include inside a target region, after <arm_neon.h>
// and kernels/int_gemm.h. A quad is four columns: one vector of a panel.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/int_gemm.h"
#include "kernels/target.h"

namespace hone::kernels {
namespace {

// Bytes ahead of the load that weights are fetched when they are read once: about a page, since
// hardware prefetchers stop at page ends.
constexpr std::int64_t kAhead = 2048;

// Where quad q begins behind quad 0, which is the first of its panel if q reaches the next one.
HONE_INLINE std::int64_t QuadOffset(int q, std::int64_t panel_bytes) {
  return q / 4 * panel_bytes + q % 4 * 16;
}

// Fetches 128 bytes of each panel that kQuads quads lie in.
template <int kQuads, typename T>
HONE_INLINE void PrefetchPanels(const T* codes, std::int64_t panel_bytes) {
  static_assert(sizeof(T) == 1);
  for (int p = 0; p < kQuads / 4; ++p) {
    __builtin_prefetch(codes + p * panel_bytes + kAhead, 0, 0);
    __builtin_prefetch(codes + p * panel_bytes + kAhead + 64, 0, 0);
  }
}

HONE_INLINE float32x4_t LoadFloats(const std::byte* p) {
  return vld1q_f32(reinterpret_cast<const float*>(p));
}
HONE_INLINE int32x4_t LoadInts(const std::byte* p) {
  return vld1q_s32(reinterpret_cast<const std::int32_t*>(p));
}
// Four fp16 as floats.
HONE_INLINE float32x4_t LoadHalves(const std::byte* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(p))));
}

// (sum - zero * sum of codes) * x_scale for one scale a row; head: the quad's place in the panel's
// head.
HONE_INLINE float32x4_t ScaledSum(int32x4_t sum, const std::byte* head, std::int32_t zero,
                                  float x_scale) {
  return vmulq_n_f32(vcvtq_f32_s32(vmlsq_n_s32(sum, LoadInts(head), zero)), x_scale);
}

// out[column] and so on = scaled * the weights' scales + bias, rounded once; bias may be null.
HONE_INLINE void StoreScaled(float32x4_t scaled, const std::byte* head, const float* bias,
                             std::int64_t column, float* out) {
  const float32x4_t scale = LoadFloats(head + 64);
  vst1q_f32(out + column, bias == nullptr ? vmulq_f32(scaled, scale)
                                          : vfmaq_f32(vld1q_f32(bias + column), scaled, scale));
}

}  // namespace
}  // namespace hone::kernels
