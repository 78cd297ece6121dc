// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Vec16 of vec16_portable.h in four NEON registers. Include inside HONE_TARGET_BEGIN(neon_dot),
// after <arm_neon.h>.
#pragma once

#include <arm_neon.h>

#include <cmath>
#include <cstdint>

#include "kernels/target.h"

namespace hone::kernels {
namespace {

struct Vec16 {
  float32x4_t q[4];
  static constexpr int kGemmRows = 3;

  static HONE_INLINE Vec16 Set1(float x) {
    const float32x4_t s = vdupq_n_f32(x);
    return {{s, s, s, s}};
  }
  static HONE_INLINE Vec16 Load(const float* p) {
    return {{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
  }
  static HONE_INLINE Vec16 LoadF16(const std::uint16_t* p) {
    Vec16 r;
    for (int i = 0; i < 4; ++i) {
      r.q[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
    }
    return r;
  }
  static HONE_INLINE Vec16 LoadBf16(const std::uint16_t* p) {
    Vec16 r;
    for (int i = 0; i < 4; ++i)
      r.q[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16));
    return r;
  }
  static HONE_INLINE Vec16 LoadI8(const std::int8_t* p) {
    const int8x16_t x = vld1q_s8(p);
    const int16x8_t a = vmovl_s8(vget_low_s8(x)), b = vmovl_high_s8(x);
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(a))), vcvtq_f32_s32(vmovl_high_s16(a)),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(b))), vcvtq_f32_s32(vmovl_high_s16(b))}};
  }
  template <int kByte>
  static HONE_INLINE Vec16 LoadI8Of4(const std::int8_t* p) {
    Vec16 r;
    for (int i = 0; i < 4; ++i) {
      const int32x4_t x = vreinterpretq_s32_s8(vld1q_s8(p + 16 * i));
      r.q[i] = vcvtq_f32_s32(vshrq_n_s32(vshlq_n_s32(x, 24 - 8 * kByte), 24));
    }
    return r;
  }
  HONE_INLINE void Store(float* p) const {
    for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, q[i]);
  }
  HONE_INLINE void StoreF16(std::uint16_t* p) const {
    for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(q[i])));
  }

  static HONE_INLINE Vec16 Add(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] = vaddq_f32(a.q[i], b.q[i]);
    return a;
  }
  static HONE_INLINE Vec16 Sub(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] = vsubq_f32(a.q[i], b.q[i]);
    return a;
  }
  static HONE_INLINE Vec16 Mul(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] = vmulq_f32(a.q[i], b.q[i]);
    return a;
  }
  static HONE_INLINE Vec16 Div(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] = vdivq_f32(a.q[i], b.q[i]);
    return a;
  }
  // fmin and fmax would give NaN where one value is NaN; these give b.
  static HONE_INLINE Vec16 Min(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] = vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]);
    return a;
  }
  static HONE_INLINE Vec16 Max(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] = vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]);
    return a;
  }
  static HONE_INLINE Vec16 MulAdd(Vec16 a, Vec16 b, Vec16 c) {
    for (int i = 0; i < 4; ++i) c.q[i] = vfmaq_f32(c.q[i], a.q[i], b.q[i]);
    return c;
  }
  static HONE_INLINE Vec16 Fused(Vec16 a, Vec16 b, Vec16 c) { return MulAdd(a, b, c); }
  static HONE_INLINE Vec16 Lookup32(const float* table, Vec16 index) {
    for (int i = 0; i < 4; ++i) {
      const uint32x4_t k = vandq_u32(vreinterpretq_u32_f32(index.q[i]), vdupq_n_u32(31));
      float32x4_t r = vdupq_n_f32(table[vgetq_lane_u32(k, 0)]);
      r = vld1q_lane_f32(table + vgetq_lane_u32(k, 1), r, 1);
      r = vld1q_lane_f32(table + vgetq_lane_u32(k, 2), r, 2);
      index.q[i] = vld1q_lane_f32(table + vgetq_lane_u32(k, 3), r, 3);
    }
    return index;
  }
  static HONE_INLINE Vec16 FloorOf32nds(Vec16 t) {
    for (int i = 0; i < 4; ++i) {
      const int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(t.q[i]), vdupq_n_s32(0x48c00000));
      t.q[i] = vreinterpretq_f32_s32(vaddq_s32(vshrq_n_s32(n, 5), vdupq_n_s32(0x4b400000)));
    }
    return t;
  }
  static HONE_INLINE Vec16 NegativeAbs(Vec16 x) {
    for (int i = 0; i < 4; ++i) {
      x.q[i] =
          vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(x.q[i]), vdupq_n_u32(0x80000000U)));
    }
    return x;
  }
  static HONE_INLINE Vec16 IfNegative(Vec16 x, Vec16 negative, Vec16 other) {
    for (int i = 0; i < 4; ++i) {
      const uint32x4_t mask = vcltzq_s32(vreinterpretq_s32_f32(x.q[i]));
      other.q[i] = vbslq_f32(mask, negative.q[i], other.q[i]);
    }
    return other;
  }
  static HONE_INLINE Vec16 ScaleByPow2(Vec16 p, Vec16 t) {
    const int32x4_t bias = vdupq_n_s32(127);
    for (int i = 0; i < 4; ++i) {
      const int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(t.q[i]), vdupq_n_s32(0x4b400000));
      const int32x4_t half = vshrq_n_s32(n, 1), rest = vsubq_s32(n, half);
      p.q[i] = vmulq_f32(p.q[i], vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23)));
      p.q[i] = vmulq_f32(p.q[i], vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23)));
    }
    return p;
  }
  // Lanes that are NaN become any code, as on the other targets.
  HONE_INLINE void StoreRounded(std::int32_t offset, std::int8_t* out) const {
    int16x4_t w[4];
    for (int i = 0; i < 4; ++i) {
      w[i] = vmovn_s32(vaddq_s32(vcvtnq_s32_f32(q[i]), vdupq_n_s32(offset)));
    }
    vst1q_s8(out,
             vcombine_s8(vmovn_s16(vcombine_s16(w[0], w[1])), vmovn_s16(vcombine_s16(w[2], w[3]))));
  }
  static HONE_INLINE float InverseSqrt(float x) { return 1.0f / std::sqrt(x); }
  HONE_INLINE float32x4_t Fold() const {
    return vaddq_f32(vaddq_f32(q[0], q[2]), vaddq_f32(q[1], q[3]));
  }
  HONE_INLINE float ReduceAdd() const {
    const float32x4_t s = Fold();
    const float32x2_t t = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(t, 0) + vget_lane_f32(t, 1);
  }
  // Lanes 0 + 2 and 1 + 3 of both.
  static HONE_INLINE float32x4_t FoldHalves(float32x4_t a, float32x4_t b) {
    return vcombine_f32(vadd_f32(vget_low_f32(a), vget_high_f32(a)),
                        vadd_f32(vget_low_f32(b), vget_high_f32(b)));
  }
  static HONE_INLINE void ReduceAdd4(Vec16 a, Vec16 b, Vec16 c, Vec16 d, float* out) {
    vst1q_f32(out, vpaddq_f32(FoldHalves(a.Fold(), b.Fold()), FoldHalves(c.Fold(), d.Fold())));
  }
  // Four rows from column 4 c on, turned.
  static HONE_INLINE void Transpose4(const Vec16* rows, int c, float* out,
                                     std::int64_t out_stride) {
    const float32x4_t a = vtrn1q_f32(rows[0].q[c], rows[1].q[c]);
    const float32x4_t b = vtrn2q_f32(rows[0].q[c], rows[1].q[c]);
    const float32x4_t d = vtrn1q_f32(rows[2].q[c], rows[3].q[c]);
    const float32x4_t e = vtrn2q_f32(rows[2].q[c], rows[3].q[c]);
    vst1q_f32(out, vcombine_f32(vget_low_f32(a), vget_low_f32(d)));
    vst1q_f32(out + out_stride, vcombine_f32(vget_low_f32(b), vget_low_f32(e)));
    vst1q_f32(out + 2 * out_stride, vcombine_f32(vget_high_f32(a), vget_high_f32(d)));
    vst1q_f32(out + 3 * out_stride, vcombine_f32(vget_high_f32(b), vget_high_f32(e)));
  }
  static HONE_INLINE void Transpose(const Vec16* rows, float* out, std::int64_t out_stride) {
    for (int r = 0; r < 16; r += 4) {
      for (int c = 0; c < 4; ++c) {
        Transpose4(rows + r, c, out + 4 * c * out_stride + r, out_stride);
      }
    }
  }
  // A lane that is NaN is skipped.
  HONE_INLINE float ReduceMax() const {
    return vmaxnmvq_f32(vmaxnmq_f32(vmaxnmq_f32(q[0], q[1]), vmaxnmq_f32(q[2], q[3])));
  }
};

}  // namespace
}  // namespace hone::kernels
