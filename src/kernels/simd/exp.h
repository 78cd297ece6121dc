// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// exp and sigmoid of sixteen floats. Include after a Vec16, inside the same target region.
#pragma once

namespace hone::kernels {
namespace {

// Relative error at most 2 ulp where the result is a normal number; the same bits on every target.
// Infinite above 88.73, zero below -103.98, NaN stays NaN.
// Method: x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts), then a minimax polynomial of
// degree 5 of exp(r). Steps and constants are those of XNNPACK's softmax, so that the results
// of a bundle agree with its (docs/perf/parity.md).
template <Vec16 (*kFused)(Vec16, Vec16, Vec16)>
HONE_INLINE Vec16 ExpWith(Vec16 x) {
  x = Vec16::Min(Vec16::Set1(89.0f), x);
  x = Vec16::Max(Vec16::Set1(-104.0f), x);
  const Vec16 magic = Vec16::Set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec16 t = kFused(x, Vec16::Set1(0x1.715476p+0f), magic);
  const Vec16 n = Vec16::Sub(t, magic);
  Vec16 r = kFused(n, Vec16::Set1(-0x1.62e4p-1f), x);
  r = kFused(n, Vec16::Set1(-0x1.7f7d1cp-20f), r);
  Vec16 p = kFused(Vec16::Set1(0x1.0f9f9cp-7f), r, Vec16::Set1(0x1.573a1ap-5f));
  p = kFused(p, r, Vec16::Set1(0x1.555a80p-3f));
  p = kFused(p, r, Vec16::Set1(0x1.fffdc6p-2f));
  p = kFused(p, r, Vec16::Set1(0x1.fffff6p-1f));
  p = kFused(p, r, Vec16::Set1(1.0f));
  return Vec16::ScaleByPow2(p, t);
}

HONE_INLINE Vec16 Exp(Vec16 x) { return ExpWith<&Vec16::Fused>(x); }
// The same where MulAdd is fused, else an ulp or two from it, and faster.
HONE_INLINE Vec16 FastExp(Vec16 x) { return ExpWith<&Vec16::MulAdd>(x); }

// 1 / (1 + exp(-x)), the same bits on every target. exp(-|x|) = 2^(i / 32) 2^n exp(r), the first
// factor from a table, the last a polynomial of degree 2. Steps and constants are those of
// XNNPACK's sigmoid for AVX-512.
HONE_INLINE Vec16 Sigmoid(Vec16 x) {
  alignas(64) static constexpr float kPowers[32] = {
      0x1.000000p+0f, 0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f,
      0x1.1d4874p+0f, 0x1.2387a6p+0f, 0x1.29e9e0p+0f, 0x1.306fe0p+0f, 0x1.371a74p+0f,
      0x1.3dea64p+0f, 0x1.44e086p+0f, 0x1.4bfdaep+0f, 0x1.5342b6p+0f, 0x1.5ab07ep+0f,
      0x1.6247ecp+0f, 0x1.6a09e6p+0f, 0x1.71f75ep+0f, 0x1.7a1148p+0f, 0x1.82589ap+0f,
      0x1.8ace54p+0f, 0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f, 0x1.ae89fap+0f,
      0x1.b7f770p+0f, 0x1.c199bep+0f, 0x1.cb720ep+0f, 0x1.d5818ep+0f, 0x1.dfc974p+0f,
      0x1.ea4afap+0f, 0x1.f50766p+0f};
  const Vec16 one = Vec16::Set1(1.0f);
  const Vec16 z = Vec16::Max(Vec16::Set1(-104.0f), Vec16::NegativeAbs(x));
  const Vec16 magic = Vec16::Set1(0x1.8p18f);  // adding it rounds to a 32nd
  const Vec16 t = Vec16::Fused(z, Vec16::Set1(0x1.715476p+0f), magic);
  const Vec16 power = Vec16::Lookup32(kPowers, t);
  const Vec16 n = Vec16::Sub(t, magic);
  Vec16 r = Vec16::Fused(n, Vec16::Set1(-0x1.62e430p-1f), z);
  r = Vec16::Fused(n, Vec16::Set1(0x1.05c61p-29f), r);
  const Vec16 p = Vec16::Fused(r, Vec16::Set1(0.5f), Vec16::Set1(0x1.0000f6p+0f));
  const Vec16 e =
      Vec16::ScaleByPow2(Vec16::Fused(Vec16::Mul(r, power), p, power), Vec16::FloorOf32nds(t));
  const Vec16 f = Vec16::Div(e, Vec16::Add(e, one));
  return Vec16::IfNegative(x, f, Vec16::Sub(one, f));
}

}  // namespace
}  // namespace hone::kernels
