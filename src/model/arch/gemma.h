// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What Gemma 2 and Gemma 3 share.
#pragma once

#include <array>
#include <cmath>

#include "model/arch/config_reader.h"
#include "model/arch/family.h"
#include "model/arch/gguf_keys.h"

namespace hone::model {

inline constexpr std::array kGemmaNormNames = {
    TensorName{Role::kInputNorm, "model.layers.*.input_layernorm.weight", "blk.*.attn_norm.weight"},
    TensorName{Role::kPostAttentionNorm, "model.layers.*.post_attention_layernorm.weight",
               "blk.*.post_attention_norm.weight"},
    TensorName{Role::kFfnNorm, "model.layers.*.pre_feedforward_layernorm.weight",
               "blk.*.ffn_norm.weight"},
    TensorName{Role::kPostFfnNorm, "model.layers.*.post_feedforward_layernorm.weight",
               "blk.*.post_ffw_norm.weight"},
};

// Comes after Common: head_dim is not hidden / heads, and the scale of the scores has its own key.
inline void ReadGemma(ConfigReader& reader, DecoderSpec* spec) {
  reader.Dimension("head_dim");
  spec->activation = reader.HiddenActivation("hidden_activation");
  reader.MarkRead("hidden_act");  // an older key that the code does not use
  spec->attention_scale =
      static_cast<float>(std::pow(reader.Positive("query_pre_attn_scalar"), -0.5));
  spec->post_norm = true;
  spec->embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec->hidden)));
  spec->attention_softcap = static_cast<float>(reader.PositiveOrOff("attn_logit_softcapping"));
  spec->logits_softcap = static_cast<float>(reader.PositiveOrOff("final_logit_softcapping"));
}

// The layers with a window are those whose number + 1 pattern does not divide. No key holds the
// scale of the scores: in the 27B model it is that of hidden / heads, in the others that of
// head_dim.
inline Status ReadGemmaGguf(GgufKeys& keys, std::int64_t layers_of_27b, std::int64_t pattern,
                            DecoderSpec* spec) {
  spec->activation = Activation::kGeluTanh;
  spec->post_norm = true;
  spec->embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec->hidden)));
  if (spec->num_layers == layers_of_27b) {
    spec->attention_scale =
        static_cast<float>(std::pow(static_cast<double>(spec->hidden / spec->num_heads), -0.5));
  }
  HONE_ASSIGN(const std::int64_t window, keys.Dimension("attention.sliding_window"));
  spec->layer_specs.resize(static_cast<std::size_t>(spec->num_layers));
  for (std::size_t i = 0; i < spec->layer_specs.size(); ++i) {
    const bool sliding = static_cast<std::int64_t>(i + 1) % pattern != 0;
    if (sliding && window < spec->max_positions) spec->layer_specs[i].window = window;
  }
  return Status();
}

}  // namespace hone::model
