// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The mathematics of the decoder in float32 with plain loops: the oracle for everything faster.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "model/decoder_spec.h"

namespace hone::model {

// Logits of every position of ids, [ids.size(), vocab] float32, no suppression. Weights are decoded
// to float32; activations stay float32. Slow. kInvalidArgument if an id is outside the vocabulary,
// ids is empty or longer than spec.max_positions.
Result<std::vector<float>> ReferenceLogits(const DecoderModel& model,
                                           std::span<const std::int32_t> ids);

}  // namespace hone::model
