// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// exp of sixteen floats. Include after a Vec16, inside the same target region.
#pragma once

namespace hone::kernels {
namespace {

// Relative error at most 2 ulp where the result is a normal number; the same bits on every target,
// because it uses no fused operation. Infinite above 88.73, zero below -103.98, NaN stays NaN.
// Method: x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts, the first with 9 trailing zero
// bits so that n times it is exact), then the Taylor polynomial of degree 7 of exp(r).
HONE_INLINE Vec16 Exp(Vec16 x) {
  x = Vec16::Min(Vec16::Set1(89.0f), x);
  x = Vec16::Max(Vec16::Set1(-104.0f), x);
  const Vec16 magic = Vec16::Set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec16 t = Vec16::Add(Vec16::Mul(x, Vec16::Set1(0x1.715476p+0f)), magic);
  const Vec16 n = Vec16::Sub(t, magic);
  Vec16 r = Vec16::Sub(x, Vec16::Mul(n, Vec16::Set1(0x1.62e4p-1f)));
  r = Vec16::Sub(r, Vec16::Mul(n, Vec16::Set1(0x1.7f7d1cp-20f)));
  Vec16 p = Vec16::Set1(1.0f / 5040);
  p = Vec16::Add(Vec16::Mul(p, r), Vec16::Set1(1.0f / 720));
  p = Vec16::Add(Vec16::Mul(p, r), Vec16::Set1(1.0f / 120));
  p = Vec16::Add(Vec16::Mul(p, r), Vec16::Set1(1.0f / 24));
  p = Vec16::Add(Vec16::Mul(p, r), Vec16::Set1(1.0f / 6));
  p = Vec16::Add(Vec16::Mul(p, r), Vec16::Set1(0.5f));
  p = Vec16::Add(Vec16::Mul(Vec16::Mul(p, r), r), r);
  p = Vec16::Add(p, Vec16::Set1(1.0f));
  return Vec16::ScaleByPow2(p, t);
}

}  // namespace
}  // namespace hone::kernels
