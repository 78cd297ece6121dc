// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Llama: RMS norm before each half of a layer, rotary positions, grouped queries, SiLU gate. Also
// Falcon 3 and others that are published as Llama.
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
  facts.biases = reader.Biases();
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  reader.Rope(&spec);
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

constexpr GgufRules kGguf = {.architecture = "llama", .interleaved = true};

}  // namespace

const Family kLlama = {.name = "llama",
                       .hf_class = "LlamaForCausalLM",
                       .model_type = "llama",
                       .tensors = kLlamaNames,
                       .read_config = ReadConfig,
                       .gguf = &kGguf};

}  // namespace hone::model
