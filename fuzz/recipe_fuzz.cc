// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "quant/google_recipe.h"
#include "quant/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto json = hone::ParseJson({reinterpret_cast<const char*>(data), size});
  if (!json.ok()) return 0;
  auto recipe = hone::quant::IsGoogleRecipe(*json)
                    ? hone::quant::ParseGoogleRecipe(*json, "fuzz", nullptr)
                    : hone::quant::ParseRecipe(*json, "fuzz");
  if (!recipe.ok()) return 0;
  hone::model::DecoderSpec spec;
  spec.num_layers = 5;
  spec.hidden = 128;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 32;
  spec.ffn = 224;
  spec.vocab = 100;
  for (const bool strict : {false, true}) {
    auto resolved = hone::quant::Resolve(*recipe, spec, strict);
    if (!resolved.ok()) continue;
    // Every tensor has a scheme that its columns allow.
    HONE_CHECK(resolved->assignments.size() == 2 + 5 * 7);
    for (const auto& a : resolved->assignments) {
      const auto shape = hone::model::RoleShape(spec, a.role);
      HONE_CHECK(hone::codec::CheckShape(a.scheme.type, shape.rows, shape.cols).ok());
      HONE_CHECK(resolved->Get(a.role, a.layer) == a.scheme);
    }
  }
  return 0;
}
