// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Granite: Llama with multipliers of the embedding, the scores, the residual and the logits.
#include "model/arch/config_reader.h"
#include "model/arch/family.h"
#include "model/arch/gguf_keys.h"
#include "model/arch/tensor_names.h"

namespace hone::model {
namespace {

Result<HfFacts> ReadConfig(const Json& config) {
  ConfigReader reader(config);
  HfFacts facts;
  DecoderSpec& spec = facts.spec;
  reader.Common(&spec);
  spec.activation = reader.HiddenActivation("hidden_act");
  spec.embedding_multiplier = static_cast<float>(reader.Positive("embedding_multiplier"));
  spec.attention_scale = static_cast<float>(reader.Positive("attention_multiplier"));
  spec.residual_multiplier = static_cast<float>(reader.Positive("residual_multiplier"));
  spec.logits_multiplier = static_cast<float>(1 / reader.Positive("logits_scaling"));
  facts.biases = reader.Biases();
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  reader.Rope(&spec);
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

Status ReadGguf(GgufKeys& keys, DecoderSpec* spec) {
  HONE_ASSIGN(const double embedding, keys.PositiveOr("embedding_scale", 1));
  HONE_ASSIGN(const double residual, keys.PositiveOr("residual_scale", 1));
  HONE_ASSIGN(const double logits, keys.Positive("logit_scale"));
  spec->embedding_multiplier = static_cast<float>(embedding);
  spec->residual_multiplier = static_cast<float>(residual);
  spec->logits_multiplier = static_cast<float>(1 / logits);
  return Status();
}

constexpr GgufRules kGguf = {.architecture = "granite", .interleaved = true, .read = ReadGguf};

}  // namespace

const Family kGranite = {.name = "granite",
                         .hf_class = "GraniteForCausalLM",
                         .model_type = "granite",
                         .tensors = kLlamaNames,
                         .read_config = ReadConfig,
                         .gguf = &kGguf};

}  // namespace hone::model
