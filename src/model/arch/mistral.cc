// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Mistral, Ministral and Ministral 3: Llama with a window in every layer, in some, or in none.
#include "model/arch/config_reader.h"
#include "model/arch/family.h"
#include "model/arch/tensor_names.h"

namespace hone::model {
namespace {

struct Rules {
  bool window_required = false;   // transformers reads an absent window as 4096: it must be said
  bool uses_layer_types = false;  // else every layer has the window
  RopeRules rope = {};
};

Result<HfFacts> Read(const Json& config, const Rules& rules) {
  ConfigReader reader(config);
  HfFacts facts;
  DecoderSpec& spec = facts.spec;
  reader.Common(&spec);
  spec.activation = reader.HiddenActivation("hidden_act");
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  const std::int64_t window = reader.Window(rules.window_required);
  reader.Windows(&spec, window, [](std::int64_t) { return true; });
  if (window > 0 && window < spec.max_positions && !rules.uses_layer_types) {
    for (std::int64_t i = 0; i < spec.num_layers; ++i) {
      if (GetLayerSpec(spec, i).window > 0) continue;
      reader.Fail(Code::kUnsupported, StrCat("key layer_types says full_attention for layer ", i,
                                             ", but this architecture gives every layer the window "
                                             "(MinistralForCausalLM does not)"));
    }
  }
  reader.Rope(&spec, rules.rope);
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

Result<HfFacts> ReadMistral(const Json& config) { return Read(config, {.window_required = true}); }

Result<HfFacts> ReadMinistral(const Json& config) {
  return Read(config, {.window_required = true, .uses_layer_types = true});
}

Result<HfFacts> ReadMinistral3(const Json& config) {
  return Read(config, {.rope = {.llama4_scaling = true}});
}

}  // namespace

// llama.cpp's files say "llama" for Mistral.
const Family kMistral = {.name = "mistral",
                         .hf_class = "MistralForCausalLM",
                         .model_type = "mistral",
                         .tensors = kLlamaNames,
                         .read_config = ReadMistral};
const Family kMinistral = {.name = "ministral",
                           .hf_class = "MinistralForCausalLM",
                           .model_type = "ministral",
                           .tensors = kLlamaNames,
                           .read_config = ReadMinistral};
const Family kMinistral3 = {.name = "ministral3",
                            .hf_class = "Ministral3ForCausalLM",
                            .model_type = "ministral3",
                            .tensors = kLlamaNames,
                            .read_config = ReadMinistral3};

}  // namespace hone::model
