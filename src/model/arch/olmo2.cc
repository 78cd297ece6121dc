// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// OLMo 2: norms only after attention and feed-forward, and one norm over all queries and one over
// all keys.
#include "model/arch/config_reader.h"
#include "model/arch/family.h"
#include "model/arch/gguf_keys.h"
#include "model/arch/tensor_names.h"

namespace hone::model {
namespace {

constexpr auto kTensors =
    Join(kOuterNames, kPostNormNames, kQkNormNames, kAttentionNames, kFfnNames);

void SetNorms(DecoderSpec* spec) {
  spec->pre_norm = false;
  spec->post_norm = true;
  spec->qk_norm = QkNorm::kWholeRow;
}

Result<HfFacts> ReadConfig(const Json& config) {
  ConfigReader reader(config);
  HfFacts facts;
  DecoderSpec& spec = facts.spec;
  reader.Common(&spec);
  spec.activation = reader.HiddenActivation("hidden_act");
  SetNorms(&spec);
  facts.biases = reader.Biases();
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  reader.Rope(&spec);
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

Status ReadGguf(GgufKeys& keys, DecoderSpec* spec) {
  (void)keys;
  SetNorms(spec);
  return Status();
}

constexpr GgufRules kGguf = {.architecture = "olmo2", .read = ReadGguf};

}  // namespace

const Family kOlmo2 = {.name = "olmo2",
                       .hf_class = "Olmo2ForCausalLM",
                       .model_type = "olmo2",
                       .tensors = kTensors,
                       .read_config = ReadConfig,
                       .gguf = &kGguf};

}  // namespace hone::model
