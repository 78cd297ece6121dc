// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// SmolLM3: Llama with some layers that do not rotate, and windows in those if use_sliding_window is
// true.
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
  facts.biases = reader.Biases();
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  reader.MarkRead("pretraining_tp");  // a leftover that the code does not use
  reader.LayersWithoutRope(&spec);
  const bool windows = reader.Flag("use_sliding_window");
  if (!windows) reader.MarkRead("sliding_window");
  reader.Windows(&spec, windows ? reader.Window(false) : 0,
                 [&](std::int64_t layer) { return GetLayerSpec(spec, layer).rope == kNoRope; });
  reader.Rope(&spec);
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

Status ReadGguf(GgufKeys& keys, DecoderSpec* spec) {
  // No key says it: llama.cpp leaves out the rope of every fourth layer.
  (void)keys;
  spec->layer_specs.resize(static_cast<std::size_t>(spec->num_layers));
  for (std::size_t i = 3; i < spec->layer_specs.size(); i += 4) {
    spec->layer_specs[i].rope = kNoRope;
  }
  return Status();
}

constexpr GgufRules kGguf = {.architecture = "smollm3", .interleaved = true, .read = ReadGguf};

}  // namespace

const Family kSmolLm3 = {.name = "smollm3",
                         .hf_class = "SmolLM3ForCausalLM",
                         .model_type = "smollm3",
                         .tensors = kLlamaNames,
                         .read_config = ReadConfig,
                         .tied_by_default = true,
                         .gguf = &kGguf};

}  // namespace hone::model
