// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Lifts the TFLite graphs of a bundle back to a DecoderSpec and quantized weights by pattern rules.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/status.h"
#include "formats/litertlm/litertlm.h"
#include "formats/tflite/tflite.h"
#include "model/decoder_spec.h"

namespace hone::model {

// The model of a bundle that Hone or litert-torch wrote. Weights stay mapped (views point into the
// bundle, kept alive by the result). spec.max_positions is the bundle's context. What the rules do
// not cover is kUnsupported and named: section, signature, operator index, operator, what was
// expected.
Result<DecoderModel> LiftBundle(std::shared_ptr<const formats::litertlm::Bundle> bundle);

// A parsed TFLite model and what to call it in messages.
struct LiftSource {
  const formats::tflite::Model* model = nullptr;
  std::string label;
};

// The same from parsed models. embedder.model is null if decoder looks the token ids up itself. The
// constants that the models view must outlive the result; the models need not. local_window: how
// many positions the runtime's local_mask shows; 0: not known, so a graph with one is refused.
// auxiliary: the graphs of a split cache, if there are any.
Result<DecoderModel> LiftModels(const LiftSource& decoder, const LiftSource& embedder,
                                std::int64_t local_window = 0, const LiftSource& auxiliary = {});

}  // namespace hone::model
