// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// MiniCPM 1 to 4: Llama with three multipliers, and LongRoPE whose list does not depend on the
// length of the sequence.
#include <cmath>

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
  spec.embedding_multiplier = static_cast<float>(reader.Positive("scale_emb"));
  spec.residual_multiplier = static_cast<float>(reader.Positive("scale_depth") /
                                                std::sqrt(static_cast<double>(spec.num_layers)));
  spec.logits_multiplier =
      static_cast<float>(reader.Positive("dim_model_base") / static_cast<double>(spec.hidden));
  facts.biases = reader.Biases();
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  reader.Rope(&spec, {.longrope_by_max = true});
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

Status ReadGguf(GgufKeys& keys, DecoderSpec* spec) {
  HONE_ASSIGN(const double embedding, keys.Positive("embedding_scale"));
  HONE_ASSIGN(const double residual, keys.Positive("residual_scale"));
  HONE_ASSIGN(const double logits, keys.Positive("logit_scale"));
  spec->embedding_multiplier = static_cast<float>(embedding);
  spec->residual_multiplier = static_cast<float>(residual);
  spec->logits_multiplier = static_cast<float>(1 / logits);
  return Status();
}

constexpr GgufRules kGguf = {.architecture = "minicpm",
                             .interleaved = true,
                             .longrope = true,
                             .longrope_by_max = true,
                             .read = ReadGguf};

}  // namespace

const Family kMiniCpm = {.name = "minicpm",
                         .hf_class = "MiniCPMForCausalLM",
                         .model_type = "minicpm",
                         .tensors = kLlamaNames,
                         .read_config = ReadConfig,
                         .tied_by_default = true,
                         .gguf = &kGguf};

}  // namespace hone::model
