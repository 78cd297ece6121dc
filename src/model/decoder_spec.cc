// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/decoder_spec.h"

#include <array>

#include "base/check.h"

namespace hone::model {
namespace {

// One row for each role: where its weight is. Order as in Role.
struct RoleFacts {
  Role role;
  const char* name;
  Weight LayerWeights::* in_layer;  // null for the three roles outside the layers
  Weight DecoderModel::* in_model;
  bool quantizable;
};

constexpr std::array kRoles = {
    RoleFacts{Role::kEmbedding, "embedding", nullptr, &DecoderModel::embedding, true},
    RoleFacts{Role::kHead, "head", nullptr, &DecoderModel::head, true},
    RoleFacts{Role::kFinalNorm, "final_norm", nullptr, &DecoderModel::final_norm, false},
    RoleFacts{Role::kInputNorm, "input_norm", &LayerWeights::input_norm, nullptr, false},
    RoleFacts{Role::kQ, "q", &LayerWeights::q, nullptr, true},
    RoleFacts{Role::kK, "k", &LayerWeights::k, nullptr, true},
    RoleFacts{Role::kV, "v", &LayerWeights::v, nullptr, true},
    RoleFacts{Role::kO, "o", &LayerWeights::o, nullptr, true},
    RoleFacts{Role::kFfnNorm, "ffn_norm", &LayerWeights::ffn_norm, nullptr, false},
    RoleFacts{Role::kGate, "gate", &LayerWeights::gate, nullptr, true},
    RoleFacts{Role::kUp, "up", &LayerWeights::up, nullptr, true},
    RoleFacts{Role::kDown, "down", &LayerWeights::down, nullptr, true},
    RoleFacts{Role::kQBias, "q_bias", &LayerWeights::q_bias, nullptr, false},
    RoleFacts{Role::kKBias, "k_bias", &LayerWeights::k_bias, nullptr, false},
    RoleFacts{Role::kVBias, "v_bias", &LayerWeights::v_bias, nullptr, false},
    RoleFacts{Role::kOBias, "o_bias", &LayerWeights::o_bias, nullptr, false},
    RoleFacts{Role::kGateBias, "gate_bias", &LayerWeights::gate_bias, nullptr, false},
    RoleFacts{Role::kUpBias, "up_bias", &LayerWeights::up_bias, nullptr, false},
    RoleFacts{Role::kDownBias, "down_bias", &LayerWeights::down_bias, nullptr, false},
    RoleFacts{Role::kQNorm, "q_norm", &LayerWeights::q_norm, nullptr, false},
    RoleFacts{Role::kKNorm, "k_norm", &LayerWeights::k_norm, nullptr, false},
    RoleFacts{Role::kPostAttentionNorm, "post_attention_norm", &LayerWeights::post_attention_norm,
              nullptr, false},
    RoleFacts{Role::kPostFfnNorm, "post_ffn_norm", &LayerWeights::post_ffn_norm, nullptr, false},
};

const RoleFacts& FactsOf(Role role) {
  const auto i = static_cast<std::size_t>(role);
  HONE_CHECK(i < kRoles.size() && kRoles[i].role == role);
  return kRoles[i];
}

}  // namespace

const char* RoleName(Role role) { return FactsOf(role).name; }

bool IsQuantizable(Role role) { return FactsOf(role).quantizable; }

const Weight& GetWeight(const DecoderModel& model, Role role, std::int64_t layer) {
  const RoleFacts& facts = FactsOf(role);
  if (facts.in_model != nullptr) return model.*facts.in_model;
  HONE_CHECK(layer >= 0 && layer < static_cast<std::int64_t>(model.layers.size()));
  return model.layers[static_cast<std::size_t>(layer)].*facts.in_layer;
}

Weight& GetWeight(DecoderModel& model, Role role, std::int64_t layer) {
  return const_cast<Weight&>(GetWeight(static_cast<const DecoderModel&>(model), role, layer));
}

LayerSpec GetLayerSpec(const DecoderSpec& spec, std::int64_t layer) {
  if (spec.layer_specs.empty()) return LayerSpec();
  HONE_CHECK(layer >= 0 && layer < static_cast<std::int64_t>(spec.layer_specs.size()));
  return spec.layer_specs[static_cast<std::size_t>(layer)];
}

Shape RoleShape(const DecoderSpec& spec, Role role) {
  const std::int64_t q_rows = spec.num_heads * spec.head_dim;
  const std::int64_t kv_rows = spec.num_kv_heads * spec.head_dim;
  switch (role) {
    case Role::kEmbedding:
    case Role::kHead:
      return {spec.vocab, spec.hidden};
    case Role::kFinalNorm:
    case Role::kInputNorm:
    case Role::kFfnNorm:
    case Role::kPostAttentionNorm:
    case Role::kPostFfnNorm:
    case Role::kOBias:
    case Role::kDownBias:
      return {1, spec.hidden};
    case Role::kQ:
      return {q_rows, spec.hidden};
    case Role::kK:
    case Role::kV:
      return {kv_rows, spec.hidden};
    case Role::kO:
      return {spec.hidden, q_rows};
    case Role::kGate:
    case Role::kUp:
      return {spec.ffn, spec.hidden};
    case Role::kDown:
      return {spec.hidden, spec.ffn};
    case Role::kQBias:
      return {1, q_rows};
    case Role::kKBias:
    case Role::kVBias:
      return {1, kv_rows};
    case Role::kGateBias:
    case Role::kUpBias:
      return {1, spec.ffn};
    case Role::kQNorm:
      return {1, spec.qk_norm == QkNorm::kWholeRow ? q_rows : spec.head_dim};
    case Role::kKNorm:
      return {1, spec.qk_norm == QkNorm::kWholeRow ? kv_rows : spec.head_dim};
  }
  HONE_CHECK(false);
}

void ReadRows(const Weight& weight, std::int64_t row_begin, std::int64_t num_rows, float* out) {
  HONE_CHECK(row_begin >= 0 && num_rows >= 0 && row_begin <= weight.view.rows - num_rows);
  if (weight.interleaved_head_dim == 0) {
    codec::DecodeRows(weight.view, row_begin, num_rows, out);
    return;
  }
  const std::int64_t head_dim = weight.interleaved_head_dim;
  const std::int64_t half = head_dim / 2;
  for (std::int64_t row = row_begin; row < row_begin + num_rows; ++row) {
    const std::int64_t in_head = row % head_dim;
    const std::int64_t stored = row - in_head + 2 * (in_head % half) + in_head / half;
    codec::DecodeRows(weight.view, stored, 1, out);
    out += weight.view.cols;
  }
}

std::vector<float> ReadAll(const Weight& weight) {
  std::vector<float> out(static_cast<std::size_t>(weight.view.rows * weight.view.cols));
  ReadRows(weight, 0, weight.view.rows, out.data());
  return out;
}

}  // namespace hone::model
