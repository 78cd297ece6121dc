// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Qwen 3: Llama with a norm of each query and key head, and windows as Qwen 2.
#include "model/arch/config_reader.h"
#include "model/arch/family.h"
#include "model/arch/gguf_keys.h"
#include "model/arch/tensor_names.h"

namespace hone::model {
namespace {

constexpr auto kTensors = Join(kLlamaNames, kQkNormNames);

Result<HfFacts> ReadConfig(const Json& config) {
  ConfigReader reader(config);
  HfFacts facts;
  DecoderSpec& spec = facts.spec;
  reader.Common(&spec);
  spec.activation = reader.HiddenActivation("hidden_act");
  spec.qk_norm = QkNorm::kPerHead;
  facts.biases = reader.Biases();
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  reader.UpperWindows(&spec);
  reader.Rope(&spec);
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

Status ReadGguf(GgufKeys& keys, DecoderSpec* spec) {
  (void)keys;
  spec->qk_norm = QkNorm::kPerHead;
  return Status();
}

constexpr GgufRules kGguf = {.architecture = "qwen3", .read = ReadGguf};

}  // namespace

const Family kQwen3 = {.name = "qwen3",
                       .hf_class = "Qwen3ForCausalLM",
                       .model_type = "qwen3",
                       .tensors = kTensors,
                       .read_config = ReadConfig,
                       .gguf = &kGguf};

}  // namespace hone::model
