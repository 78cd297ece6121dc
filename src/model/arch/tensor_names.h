// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The tensor names that families share, in groups. Join puts groups together.
#pragma once

#include <array>
#include <cstddef>

#include "model/arch/family.h"

namespace hone::model {

inline constexpr std::array kOuterNames = {
    TensorName{Role::kEmbedding, "model.embed_tokens.weight", "token_embd.weight"},
    TensorName{Role::kHead, "lm_head.weight", "output.weight"},
    TensorName{Role::kFinalNorm, "model.norm.weight", "output_norm.weight"},
};
// Norms before the two halves of a layer, as Llama names them.
inline constexpr std::array kPreNormNames = {
    TensorName{Role::kInputNorm, "model.layers.*.input_layernorm.weight", "blk.*.attn_norm.weight"},
    TensorName{Role::kFfnNorm, "model.layers.*.post_attention_layernorm.weight",
               "blk.*.ffn_norm.weight"},
};
// Norms after the two halves, as OLMo 2 and Gemma name them.
inline constexpr std::array kPostNormNames = {
    TensorName{Role::kPostAttentionNorm, "model.layers.*.post_attention_layernorm.weight",
               "blk.*.post_attention_norm.weight"},
    TensorName{Role::kPostFfnNorm, "model.layers.*.post_feedforward_layernorm.weight",
               "blk.*.post_ffw_norm.weight"},
};
inline constexpr std::array kQkNormNames = {
    TensorName{Role::kQNorm, "model.layers.*.self_attn.q_norm.weight", "blk.*.attn_q_norm.weight"},
    TensorName{Role::kKNorm, "model.layers.*.self_attn.k_norm.weight", "blk.*.attn_k_norm.weight"},
};
inline constexpr std::array kAttentionNames = {
    TensorName{Role::kQ, "model.layers.*.self_attn.q_proj.weight", "blk.*.attn_q.weight"},
    TensorName{Role::kK, "model.layers.*.self_attn.k_proj.weight", "blk.*.attn_k.weight"},
    TensorName{Role::kV, "model.layers.*.self_attn.v_proj.weight", "blk.*.attn_v.weight"},
    TensorName{Role::kO, "model.layers.*.self_attn.o_proj.weight", "blk.*.attn_output.weight"},
    TensorName{Role::kQBias, "model.layers.*.self_attn.q_proj.bias", "blk.*.attn_q.bias"},
    TensorName{Role::kKBias, "model.layers.*.self_attn.k_proj.bias", "blk.*.attn_k.bias"},
    TensorName{Role::kVBias, "model.layers.*.self_attn.v_proj.bias", "blk.*.attn_v.bias"},
    TensorName{Role::kOBias, "model.layers.*.self_attn.o_proj.bias", "blk.*.attn_output.bias"},
};
inline constexpr std::array kFfnNames = {
    TensorName{Role::kGate, "model.layers.*.mlp.gate_proj.weight", "blk.*.ffn_gate.weight"},
    TensorName{Role::kUp, "model.layers.*.mlp.up_proj.weight", "blk.*.ffn_up.weight"},
    TensorName{Role::kDown, "model.layers.*.mlp.down_proj.weight", "blk.*.ffn_down.weight"},
    TensorName{Role::kGateBias, "model.layers.*.mlp.gate_proj.bias", "blk.*.ffn_gate.bias"},
    TensorName{Role::kUpBias, "model.layers.*.mlp.up_proj.bias", "blk.*.ffn_up.bias"},
    TensorName{Role::kDownBias, "model.layers.*.mlp.down_proj.bias", "blk.*.ffn_down.bias"},
};

template <std::size_t... N>
constexpr auto Join(const std::array<TensorName, N>&... groups) {
  std::array<TensorName, (N + ...)> out{};
  std::size_t at = 0;
  const auto append = [&](const auto& group) {
    for (const TensorName& name : group) out[at++] = name;
  };
  (append(groups), ...);
  return out;
}

inline constexpr auto kLlamaNames = Join(kOuterNames, kPreNormNames, kAttentionNames, kFfnNames);

}  // namespace hone::model
