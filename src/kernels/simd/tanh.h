// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// tanh and gelu of sixteen floats. Include after a Vec16, inside the same target region.
#pragma once

namespace hone::kernels {
namespace {

// x P(x^2) / Q(x^2): kNumerator and kDenominator hold the coefficients of P and Q, the highest
// power first. Constants and steps are those of XNNPACK's TANH and GELU, so that the results of a
// bundle agree with its.
template <Vec16 (*kFused)(Vec16, Vec16, Vec16), int kCount>
HONE_INLINE Vec16 OddQuotient(Vec16 x, const float (&numerator)[kCount],
                              const float (&denominator)[kCount]) {
  const Vec16 square = Vec16::Mul(x, x);
  Vec16 p = Vec16::Set1(numerator[0]), q = Vec16::Set1(denominator[0]);
  for (int i = 1; i < kCount; ++i) {
    p = kFused(square, p, Vec16::Set1(numerator[i]));
    q = kFused(square, q, Vec16::Set1(denominator[i]));
  }
  return Vec16::Div(Vec16::Mul(x, p), q);
}

// x moved into [-limit, limit], where the quotient reaches 1; NaN stays NaN.
HONE_INLINE Vec16 Clamp(Vec16 x, float limit) {
  return Vec16::Max(Vec16::Set1(-limit), Vec16::Min(Vec16::Set1(limit), x));
}

template <Vec16 (*kFused)(Vec16, Vec16, Vec16)>
HONE_INLINE Vec16 TanhWith(Vec16 x) {
  constexpr float kNumerator[] = {1.4248920266e-08f, 2.1235626264e-05f, 3.5330520477e-03f,
                                  1.3412411511e-01f, 1.0f};
  constexpr float kDenominator[] = {8.1365948290e-07f, 3.3472978976e-04f, 2.6018999517e-02f,
                                    4.6745735407e-01f, 1.0f};
  return OddQuotient<kFused>(Clamp(x, 7.9807181358e+00f), kNumerator, kDenominator);
}

// The same bits on every target, at most a few ulp off.
HONE_INLINE Vec16 Tanh(Vec16 x) { return TanhWith<&Vec16::Fused>(x); }
// The same where MulAdd is fused, else an ulp or two from it, and faster.
HONE_INLINE Vec16 FastTanh(Vec16 x) { return TanhWith<&Vec16::MulAdd>(x); }

// x / 2 (1 + the quotient), which stands for tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
HONE_INLINE Vec16 GeluTanh(Vec16 x) {
  constexpr float kNumerator[] = {4.9544411240e-08f, 1.4302649106e-05f, 2.6887017884e-04f,
                                  7.2898347862e-03f, 6.0803253204e-02f, 7.9788458347e-01f};
  constexpr float kDenominator[] = {1.3433452750e-06f, 7.6477612311e-05f, 1.3060354395e-03f,
                                    2.4381054565e-02f, 2.4369759858e-01f, 1.0f};
  const Vec16 t = OddQuotient<&Vec16::Fused>(Clamp(x, 4.84974098e+00f), kNumerator, kDenominator);
  return Vec16::Mul(Vec16::Mul(x, Vec16::Set1(0.5f)), Vec16::Add(t, Vec16::Set1(1.0f)));
}

// The same for erf(x / sqrt(2)).
HONE_INLINE Vec16 GeluErf(Vec16 x) {
  constexpr float kNumerator[] = {4.5835321316e-08f, 1.2609783880e-05f, 3.2973114867e-04f,
                                  9.3065137044e-03f, 6.6972173750e-02f, 7.9788452387e-01f};
  constexpr float kDenominator[] = {1.1988805682e-06f, 7.2267655923e-05f, 1.8622842617e-03f,
                                    2.8431978077e-02f, 2.5060352683e-01f, 1.0f};
  const Vec16 t = OddQuotient<&Vec16::Fused>(Clamp(x, 5.1638283730e+00f), kNumerator, kDenominator);
  return Vec16::Mul(Vec16::Mul(x, Vec16::Set1(0.5f)), Vec16::Add(t, Vec16::Set1(1.0f)));
}

}  // namespace
}  // namespace hone::kernels
