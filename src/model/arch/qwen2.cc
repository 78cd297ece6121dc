// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Qwen 2 and 2.5: Llama with biases of q, k and v that no key announces, and windows in the upper
// layers if use_sliding_window is true.
#include "model/arch/config_reader.h"
#include "model/arch/family.h"
#include "model/arch/tensor_names.h"

namespace hone::model {
namespace {

Result<HfFacts> ReadConfig(const Json& config) {
  ConfigReader reader(config);
  HfFacts facts;
  DecoderSpec& spec = facts.spec;
  reader.Common(&spec);
  spec.activation = reader.HiddenActivation("hidden_act");
  facts.biases = {Role::kQBias, Role::kKBias, Role::kVBias};
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  reader.UpperWindows(&spec);
  reader.Rope(&spec);
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

constexpr GgufRules kGguf = {.architecture = "qwen2"};

}  // namespace

const Family kQwen2 = {.name = "qwen2",
                       .hf_class = "Qwen2ForCausalLM",
                       .model_type = "qwen2",
                       .tensors = kLlamaNames,
                       .read_config = ReadConfig,
                       .gguf = &kGguf};

}  // namespace hone::model
