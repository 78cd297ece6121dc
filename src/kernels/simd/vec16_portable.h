// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Sixteen floats, for any machine: four vectors of the compiler's own type. Include in one file a
// target; everything has internal linkage. Min and Max return b when a value is NaN. MulAdd may
// fuse and InverseSqrt may estimate; all other operations give the same bits on every target.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/float16.h"
#include "kernels/target.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace hone::kernels {
namespace {

struct Vec16 {
  typedef float Quad __attribute__((vector_size(16)));
  typedef std::int32_t IntQuad __attribute__((vector_size(16)));
  Quad q[4];

  // Rows of x in one register tile of a float matrix product.
  static constexpr int kGemmRows = 3;

  static HONE_INLINE Vec16 Set1(float x) {
    const Quad s = {x, x, x, x};
    return {{s, s, s, s}};
  }
  static HONE_INLINE Vec16 Load(const float* p) {
    Vec16 r;
    std::memcpy(r.q, p, sizeof(r.q));
    return r;
  }
  static HONE_INLINE Vec16 LoadF16(const std::uint16_t* p) {
#if defined(__aarch64__)
    Vec16 r;
    for (int i = 0; i < 4; ++i) {
      const float32x4_t f = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
      std::memcpy(&r.q[i], &f, sizeof(f));
    }
    return r;
#else
    float buffer[16];
    for (int i = 0; i < 16; ++i) buffer[i] = Fp16ToFloat(p[i]);
    return Load(buffer);
#endif
  }
  static HONE_INLINE Vec16 LoadBf16(const std::uint16_t* p) {
    float buffer[16];
    for (int i = 0; i < 16; ++i) buffer[i] = Bf16ToFloat(p[i]);
    return Load(buffer);
  }
  // 16 signed bytes.
  static HONE_INLINE Vec16 LoadI8(const std::int8_t* p) {
    Vec16 r;
    for (int i = 0; i < 16; ++i) r.q[i / 4][i % 4] = static_cast<float>(p[i]);
    return r;
  }
  // Signed byte kByte of each of 16 groups of four.
  template <int kByte>
  static HONE_INLINE Vec16 LoadI8Of4(const std::int8_t* p) {
    Vec16 r;
    for (int i = 0; i < 4; ++i) {
      IntQuad x;
      std::memcpy(&x, p + 16 * i, sizeof(x));
      r.q[i] = __builtin_convertvector((x << (24 - 8 * kByte)) >> 24, Quad);
    }
    return r;
  }
  HONE_INLINE void Store(float* p) const { std::memcpy(p, q, sizeof(q)); }
  HONE_INLINE void StoreF16(std::uint16_t* p) const {
    float buffer[16];
    Store(buffer);
    for (int i = 0; i < 16; ++i) p[i] = FloatToFp16(buffer[i]);
  }

  static HONE_INLINE Vec16 Add(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] += b.q[i];
    return a;
  }
  static HONE_INLINE Vec16 Sub(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] -= b.q[i];
    return a;
  }
  static HONE_INLINE Vec16 Mul(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] *= b.q[i];
    return a;
  }
  static HONE_INLINE Vec16 Div(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] /= b.q[i];
    return a;
  }
  static HONE_INLINE Vec16 Min(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] = a.q[i] < b.q[i] ? a.q[i] : b.q[i];
    return a;
  }
  static HONE_INLINE Vec16 Max(Vec16 a, Vec16 b) {
    for (int i = 0; i < 4; ++i) a.q[i] = a.q[i] > b.q[i] ? a.q[i] : b.q[i];
    return a;
  }
  // a * b + c
  static HONE_INLINE Vec16 MulAdd(Vec16 a, Vec16 b, Vec16 c) {
#if defined(__aarch64__)
    for (int i = 0; i < 4; ++i)
      c.q[i] = (Quad)vfmaq_f32((float32x4_t)c.q[i], (float32x4_t)a.q[i], (float32x4_t)b.q[i]);
    return c;
#else
    return Add(Mul(a, b), c);
#endif
  }
  // a * b + c, rounded once: in double the product is exact, and a sum that is not is moved to the
  // odd neighbour of the exact value, so that rounding it again gives what one rounding would.
  static HONE_INLINE Vec16 Fused(Vec16 a, Vec16 b, Vec16 c) {
#if defined(__aarch64__)
    return MulAdd(a, b, c);
#else
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const double p = double{a.q[i][j]} * double{b.q[i][j]}, z = double{c.q[i][j]};
        const double sum = p + z;
        const double back = sum - p;
        const double error = (p - (sum - back)) + (z - back);
        auto bits = std::bit_cast<std::int64_t>(sum);
        // Towards the exact value where that is an odd number; away from zero is one up.
        if ((error < 0 || error > 0) && (bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : -1;
        c.q[i][j] = static_cast<float>(std::bit_cast<double>(bits));
      }
    }
    return c;
#endif
  }
  static HONE_INLINE Vec16 Lookup32(const float* table, Vec16 index) {
    Vec16 r;
    for (int i = 0; i < 4; ++i) {
      const IntQuad k = (IntQuad)index.q[i] & 31;
      for (int j = 0; j < 4; ++j) r.q[i][j] = table[k[j]];
    }
    return r;
  }
  // 1.5 * 2^23 + floor of t - 1.5 * 2^18, for t near 1.5 * 2^18.
  static HONE_INLINE Vec16 FloorOf32nds(Vec16 t) {
    for (int i = 0; i < 4; ++i) {
      t.q[i] = (Quad)((((IntQuad)t.q[i] - 0x48c00000) >> 5) + 0x4b400000);
    }
    return t;
  }
  static HONE_INLINE Vec16 NegativeAbs(Vec16 x) {
    for (int i = 0; i < 4; ++i) x.q[i] = (Quad)((IntQuad)x.q[i] | std::int32_t{INT32_MIN});
    return x;
  }
  // negative where x has its sign bit set, else other.
  static HONE_INLINE Vec16 IfNegative(Vec16 x, Vec16 negative, Vec16 other) {
    for (int i = 0; i < 4; ++i) {
      const IntQuad mask = (IntQuad)x.q[i] >> 31;
      other.q[i] = (Quad)(((IntQuad)negative.q[i] & mask) | ((IntQuad)other.q[i] & ~mask));
    }
    return other;
  }
  // p * 2^n for t = n + 1.5 * 2^23, n an integer in [-252, 254].
  static HONE_INLINE Vec16 ScaleByPow2(Vec16 p, Vec16 t) {
    for (int i = 0; i < 4; ++i) {
      const IntQuad n = (IntQuad)t.q[i] - 0x4b400000;
      const IntQuad half = n >> 1;
      p.q[i] *= (Quad)((half + 127) << 23);
      p.q[i] *= (Quad)((n - half + 127) << 23);
    }
    return p;
  }
  // out[i] = int8(round to even(v) + offset); |v| < 2^22 and the result must fit.
  HONE_INLINE void StoreRounded(std::int32_t offset, std::int8_t* out) const {
    for (int i = 0; i < 4; ++i) {
      const IntQuad n = (IntQuad)(q[i] + 12582912.0f) - 0x4b400000 + offset;
      for (int j = 0; j < 4; ++j) out[4 * i + j] = static_cast<std::int8_t>(n[j]);
    }
  }
  // 1 / sqrt(x)
  static HONE_INLINE float InverseSqrt(float x) { return 1.0f / std::sqrt(x); }
  // Lane i + lane i + 8, then + 4, + 2, + 1.
  HONE_INLINE float ReduceAdd() const {
    const Quad s = (q[0] + q[2]) + (q[1] + q[3]);
    return (s[0] + s[2]) + (s[1] + s[3]);
  }
  static HONE_INLINE void ReduceAdd4(Vec16 a, Vec16 b, Vec16 c, Vec16 d, float* out) {
    out[0] = a.ReduceAdd();
    out[1] = b.ReduceAdd();
    out[2] = c.ReduceAdd();
    out[3] = d.ReduceAdd();
  }
  // out[c * out_stride + r] = row r [c] for 16 rows of 16 values.
  static HONE_INLINE void Transpose(const Vec16* rows, float* out, std::int64_t out_stride) {
    for (int c = 0; c < 16; ++c) {
      for (int r = 0; r < 16; ++r) out[c * out_stride + r] = rows[r].q[c / 4][c % 4];
    }
  }
  // NaN lanes may be skipped.
  HONE_INLINE float ReduceMax() const {
    float m[16];
    Store(m);
    for (int i = 1; i < 16; ++i) m[0] = m[i] > m[0] ? m[i] : m[0];
    return m[0];
  }
};

}  // namespace
}  // namespace hone::kernels
