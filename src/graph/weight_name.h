// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What weights are called in a graph: as the checkpoints of the family call them.
#pragma once

#include <cstdint>
#include <string>

#include "model/decoder_spec.h"

namespace hone::graph {

// "model.layers.3.mlp.up_proj.weight". The norm before the feed-forward part has another name where
// there is one after attention. layer is ignored for embedding, head and final norm.
std::string WeightName(const model::DecoderSpec& spec, model::Role role, std::int64_t layer);

// The bias of one of the seven linears.
model::Role BiasOf(model::Role role);

}  // namespace hone::graph
