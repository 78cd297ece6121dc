// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lift_curve.h"

#include <cmath>

namespace hone::model {
namespace {

constexpr int kHalfPoints = 96;
constexpr double kStep = 1.0 / 9;  // not a fraction that floats hold exactly
// Constants of a graph are float32: 0.7978845608 is off by 3e-8 of itself.
constexpr double kTolerance = 2e-6;

double Silu(double x) { return x / (1 + std::exp(-x)); }

}  // namespace

std::vector<double> CurvePoints() {
  std::vector<double> out;
  for (int i = -kHalfPoints; i <= kHalfPoints; ++i) out.push_back(i * kStep);
  return out;
}

double GeluTanh(double x) {
  const double root = std::sqrt(2 / std::acos(-1.0));
  return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
}

double GeluErf(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

std::optional<Activation> FindActivation(const std::vector<double>& curve) {
  const std::vector<double> points = CurvePoints();
  const auto equals = [&](double (*function)(double)) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!(std::abs(curve[i] - function(points[i])) <= kTolerance)) return false;
    }
    return true;
  };
  if (curve.size() != points.size()) return std::nullopt;
  if (equals(Silu)) return Activation::kSilu;
  if (equals(GeluTanh)) return Activation::kGeluTanh;
  if (equals(GeluErf)) return Activation::kGelu;
  return std::nullopt;
}

}  // namespace hone::model
