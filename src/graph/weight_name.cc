// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/weight_name.h"

#include <map>

namespace hone::graph {

using model::Role;

std::string WeightName(const model::DecoderSpec& spec, Role role, std::int64_t layer) {
  static const std::map<Role, const char*> kNames = {
      {Role::kInputNorm, "input_layernorm.weight"},
      {Role::kQ, "self_attn.q_proj.weight"},
      {Role::kK, "self_attn.k_proj.weight"},
      {Role::kV, "self_attn.v_proj.weight"},
      {Role::kO, "self_attn.o_proj.weight"},
      {Role::kFfnNorm, "post_attention_layernorm.weight"},
      {Role::kGate, "mlp.gate_proj.weight"},
      {Role::kUp, "mlp.up_proj.weight"},
      {Role::kDown, "mlp.down_proj.weight"},
      {Role::kQBias, "self_attn.q_proj.bias"},
      {Role::kKBias, "self_attn.k_proj.bias"},
      {Role::kVBias, "self_attn.v_proj.bias"},
      {Role::kOBias, "self_attn.o_proj.bias"},
      {Role::kGateBias, "mlp.gate_proj.bias"},
      {Role::kUpBias, "mlp.up_proj.bias"},
      {Role::kDownBias, "mlp.down_proj.bias"},
      {Role::kQNorm, "self_attn.q_norm.weight"},
      {Role::kKNorm, "self_attn.k_norm.weight"},
      {Role::kPostAttentionNorm, "post_attention_layernorm.weight"},
      {Role::kPostFfnNorm, "post_feedforward_layernorm.weight"},
  };
  if (role == Role::kEmbedding) return "model.embed_tokens.weight";
  if (role == Role::kHead) return "lm_head.weight";
  if (role == Role::kFinalNorm) return "model.norm.weight";
  const bool before_ffn = role == Role::kFfnNorm && spec.post_norm;
  const char* name = before_ffn ? "pre_feedforward_layernorm.weight" : kNames.at(role);
  return "model.layers." + std::to_string(layer) + "." + name;
}

Role BiasOf(Role role) {
  switch (role) {
    case Role::kQ:
      return Role::kQBias;
    case Role::kK:
      return Role::kKBias;
    case Role::kV:
      return Role::kVBias;
    case Role::kO:
      return Role::kOBias;
    case Role::kGate:
      return Role::kGateBias;
    case Role::kUp:
      return Role::kUpBias;
    default:
      return Role::kDownBias;
  }
}

}  // namespace hone::graph
