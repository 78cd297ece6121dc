// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Functions of one number, as values at fixed points. The operators that make them are smooth, so
// two that agree at every point are the same activation.
#pragma once

#include <optional>
#include <vector>

#include "model/decoder_spec.h"

namespace hone::model {

// x itself at every point.
std::vector<double> CurvePoints();
double GeluTanh(double x);
double GeluErf(double x);
// The activation with these values, if there is one.
std::optional<Activation> FindActivation(const std::vector<double>& curve);

}  // namespace hone::model
