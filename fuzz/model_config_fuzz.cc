// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The input is a config.json: every family reads it.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "model/arch/family.h"
#include "model/rope.h"

namespace {

void CheckFacts(const hone::model::HfFacts& facts) {
  const hone::model::DecoderSpec& spec = facts.spec;
  HONE_CHECK(spec.num_layers >= 1 && spec.num_layers <= 4096 && spec.max_positions >= 1);
  HONE_CHECK(spec.num_heads >= 1 && spec.num_heads % spec.num_kv_heads == 0);
  HONE_CHECK(!spec.ropes.empty() && std::isfinite(spec.attention_scale));
  HONE_CHECK(spec.layer_specs.empty() ||
             spec.layer_specs.size() == static_cast<std::size_t>(spec.num_layers));
  for (const hone::model::LayerSpec& layer : spec.layer_specs) {
    HONE_CHECK(layer.window >= 0 && layer.rope >= hone::model::kNoRope &&
               layer.rope < static_cast<std::int32_t>(spec.ropes.size()));
  }
  for (const hone::model::RopeTable& rope : spec.ropes) {
    HONE_CHECK(!rope.inv_freq.empty() &&
               2 * static_cast<std::int64_t>(rope.inv_freq.size()) <= spec.head_dim);
    const auto longest = hone::model::RopeForLength(rope, spec.max_positions);
    HONE_CHECK(longest.inv_freq.size() == rope.inv_freq.size() && !longest.by_length);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = hone::ParseJson({reinterpret_cast<const char*>(data), size});
  if (!json.ok() || !json->IsObject()) return 0;
  for (const hone::model::Family* family : hone::model::Families()) {
    // Of a nested configuration, the inner one.
    const hone::Json* text = json->FindNonNull("text_config");
    const bool nested = text != nullptr && text->IsObject();
    const auto facts = family->read_config(nested ? *text : *json);
    if (facts.ok()) {
      CheckFacts(*facts);
    } else {
      HONE_CHECK(!facts.message().empty() && facts.code() != hone::Code::kInternal);
    }
  }
  return 0;
}
