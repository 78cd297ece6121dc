// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Opens a checkpoint (a Hugging Face folder or a GGUF file) as a model and its text facts.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "formats/hf_config/text_facts.h"
#include "model/decoder_spec.h"

namespace hone::model {

struct Checkpoint {
  DecoderModel model;
  formats::TextFacts text;
  std::string source;                 // the path
  std::vector<std::string> warnings;  // tensors that would be ignored, and the like
};

// Weights stay mapped. Checks every tensor that the architecture needs (name, shape, type) and
// names those that nothing uses. Does not read the weights: see CheckFinite. A path without
// weights that Hone can read (pickle only, a LoRA adapter, an encoder, a web page saved as a file)
// is refused in one sentence that says what it is.
Result<Checkpoint> OpenCheckpoint(const std::string& path);

// kDataLoss naming tensor, count and first index if a weight holds NaN or infinity. Reads all of
// it.
Status CheckFinite(const Weight& weight);

}  // namespace hone::model
