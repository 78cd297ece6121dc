// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Phi-3 and Phi-4-mini: one tensor for q, k and v and one for gate and up, rope on a part of each
// head, LongRoPE by the length of the sequence, a window.
#include <array>

#include "model/arch/config_reader.h"
#include "model/arch/family.h"
#include "model/arch/gguf_keys.h"
#include "model/arch/tensor_names.h"

namespace hone::model {
namespace {

constexpr std::array kFusedNames = {
    TensorName{Role::kQ, "model.layers.*.self_attn.qkv_proj.weight", "blk.*.attn_qkv.weight"},
    TensorName{Role::kK, "model.layers.*.self_attn.qkv_proj.weight", "blk.*.attn_qkv.weight"},
    TensorName{Role::kV, "model.layers.*.self_attn.qkv_proj.weight", "blk.*.attn_qkv.weight"},
    TensorName{Role::kO, "model.layers.*.self_attn.o_proj.weight", "blk.*.attn_output.weight"},
    TensorName{Role::kGate, "model.layers.*.mlp.gate_up_proj.weight", "blk.*.ffn_up.weight"},
    TensorName{Role::kUp, "model.layers.*.mlp.gate_up_proj.weight", "blk.*.ffn_up.weight"},
    TensorName{Role::kDown, "model.layers.*.mlp.down_proj.weight", "blk.*.ffn_down.weight"},
};
constexpr auto kTensors = Join(kOuterNames, kPreNormNames, kFusedNames);

Result<HfFacts> ReadConfig(const Json& config) {
  ConfigReader reader(config);
  HfFacts facts;
  DecoderSpec& spec = facts.spec;
  reader.Common(&spec);
  spec.activation = reader.HiddenActivation("hidden_act");
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  reader.Windows(&spec, reader.Window(false), [](std::int64_t) { return true; });
  reader.Rope(&spec, {.partial_rotary = true});
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

Status ReadGguf(GgufKeys& keys, DecoderSpec* spec) {
  // 0 means that there is none.
  constexpr const char* kKey = "attention.sliding_window";
  if (!keys.Has(kKey)) return Status();
  HONE_ASSIGN(const std::int64_t window, keys.file().GetInt(keys.Full(kKey)));
  if (window < 0) return Status(Code::kDataLoss, StrCat("key ", keys.Full(kKey), " is ", window));
  if (window == 0 || window >= spec->max_positions) return Status();
  spec->layer_specs.assign(static_cast<std::size_t>(spec->num_layers), {.window = window});
  return Status();
}

constexpr GgufRules kGguf = {
    .architecture = "phi3", .partial_rotary = true, .longrope = true, .read = ReadGguf};

}  // namespace

const Family kPhi3 = {.name = "phi3",
                      .hf_class = "Phi3ForCausalLM",
                      .model_type = "phi3",
                      .tensors = kTensors,
                      .read_config = ReadConfig,
                      .gguf = &kGguf};

}  // namespace hone::model
