// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/tflite/tflite.h"

namespace hone::formats::tflite {

// PlanModel without its checks, so that tests can make unsound models.
WritePlan PlanUnchecked(const Model& model, bool external);

}  // namespace hone::formats::tflite
