// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Lifts the TFLite graphs of a bundle back to a DecoderSpec and quantized weights by pattern rules.
#pragma once

#include <memory>

#include "base/file.h"
#include "base/status.h"
#include "formats/litertlm/litertlm.h"
#include "model/decoder_spec.h"

namespace hone::model {

// The model of a bundle that Hone or litert-torch wrote. Weights stay mapped (views point into the
// bundle, kept alive by the result). spec.max_positions is the bundle's context. What the rules do
// not cover is kUnsupported and named: section, signature, operator index, operator, what was
// expected.
Result<DecoderModel> LiftBundle(std::shared_ptr<const formats::litertlm::Bundle> bundle);

}  // namespace hone::model
