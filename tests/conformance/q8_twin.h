// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A decoder whose linears read 8-bit activations, as plainly as it can be written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/decoder_spec.h"

namespace hone::testing {

// Logits of every position, [ids, vocab]. Each linear rounds its input row to 8 bits (one scale and
// zero point a row) and multiplies it with the dequantized weights in double; everything else is
// the reference's mathematics.
std::vector<float> Q8TwinLogits(const model::DecoderModel& model,
                                std::span<const std::int32_t> ids);

}  // namespace hone::testing
