// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How the weights of a bundle are stored, by role, and whether that is what its recipe says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "codec/weight.h"
#include "model/decoder_spec.h"

namespace hone::bundle {

struct RolePrecision {
  model::Role role = model::Role::kEmbedding;
  std::int64_t layer = -1;  // -1 for embedding, head and final norm
  codec::WeightType type;
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;  // with scales
};

// Every matrix that can be quantized, in the order embedding, layers, head.
std::vector<RolePrecision> AuditRoles(const model::DecoderModel& model);

// One object for each role and precision: "role", "precision", "tensors", "values", "bytes",
// "bits_per_weight"; layers of equal precision are added up.
Json RolesJson(const std::vector<RolePrecision>& roles);

// One sentence for each role whose stored type is not that of the recipe in hone.json.
std::vector<std::string> CompareWithRecipe(const std::vector<RolePrecision>& roles,
                                           const Json& hone);

}  // namespace hone::bundle
