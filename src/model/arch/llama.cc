// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Llama: RMS norm before each half of a layer, rotary positions, grouped queries, SiLU gate.
#include "model/arch/config_reader.h"
#include "model/arch/family.h"

namespace hone::model {
namespace {

constexpr TensorName kTensors[] = {
    {Role::kEmbedding, "model.embed_tokens.weight", "token_embd.weight"},
    {Role::kHead, "lm_head.weight", "output.weight"},
    {Role::kFinalNorm, "model.norm.weight", "output_norm.weight"},
    {Role::kInputNorm, "model.layers.*.input_layernorm.weight", "blk.*.attn_norm.weight"},
    {Role::kQ, "model.layers.*.self_attn.q_proj.weight", "blk.*.attn_q.weight"},
    {Role::kK, "model.layers.*.self_attn.k_proj.weight", "blk.*.attn_k.weight"},
    {Role::kV, "model.layers.*.self_attn.v_proj.weight", "blk.*.attn_v.weight"},
    {Role::kO, "model.layers.*.self_attn.o_proj.weight", "blk.*.attn_output.weight"},
    {Role::kFfnNorm, "model.layers.*.post_attention_layernorm.weight", "blk.*.ffn_norm.weight"},
    {Role::kGate, "model.layers.*.mlp.gate_proj.weight", "blk.*.ffn_gate.weight"},
    {Role::kUp, "model.layers.*.mlp.up_proj.weight", "blk.*.ffn_up.weight"},
    {Role::kDown, "model.layers.*.mlp.down_proj.weight", "blk.*.ffn_down.weight"},
    {Role::kQBias, "model.layers.*.self_attn.q_proj.bias", "blk.*.attn_q.bias"},
    {Role::kKBias, "model.layers.*.self_attn.k_proj.bias", "blk.*.attn_k.bias"},
    {Role::kVBias, "model.layers.*.self_attn.v_proj.bias", "blk.*.attn_v.bias"},
    {Role::kOBias, "model.layers.*.self_attn.o_proj.bias", "blk.*.attn_output.bias"},
    {Role::kGateBias, "model.layers.*.mlp.gate_proj.bias", "blk.*.ffn_gate.bias"},
    {Role::kUpBias, "model.layers.*.mlp.up_proj.bias", "blk.*.ffn_up.bias"},
    {Role::kDownBias, "model.layers.*.mlp.down_proj.bias", "blk.*.ffn_down.bias"},
};

Result<HfFacts> ReadConfig(const Json& config) {
  ConfigReader reader(config);
  HfFacts facts;
  DecoderSpec& spec = facts.spec;
  spec.num_layers = reader.Dimension("num_hidden_layers");
  spec.hidden = reader.Dimension("hidden_size");
  spec.ffn = reader.Dimension("intermediate_size");
  spec.vocab = reader.Dimension("vocab_size");
  spec.max_positions = reader.Dimension("max_position_embeddings");
  reader.Heads(&spec);
  spec.norm_epsilon = reader.Epsilon("rms_norm_eps");
  spec.activation = reader.HiddenActivation("hidden_act");
  if (reader.Flag("attention_bias")) {
    facts.biases = {Role::kQBias, Role::kKBias, Role::kVBias, Role::kOBias};
  }
  if (reader.Flag("mlp_bias")) {
    facts.biases.insert(facts.biases.end(), {Role::kGateBias, Role::kUpBias, Role::kDownBias});
  }
  facts.tie_head = reader.OptionalFlag("tie_word_embeddings");
  reader.Rope(&spec);
  reader.RefuseOtherKeys();
  HONE_TRY(reader.Finish(&facts.warnings));
  return facts;
}

}  // namespace

const Family kLlama = {"llama", "LlamaForCausalLM", "llama", kTensors, ReadConfig};

}  // namespace hone::model
