// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Small random models of awkward shapes, in memory or as a checkpoint folder.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/decoder_spec.h"
#include "model/rope.h"

namespace hone::testing {

enum class Biases : std::uint8_t { kNone, kQkv, kAll };

struct ModelShape {
  std::string name;
  std::int64_t layers = 1, hidden = 32, heads = 2, kv_heads = 2, head_dim = 16, ffn = 32;
  std::int64_t vocab = 133, max_positions = 160;
  Biases biases = Biases::kNone;
  bool tied = false;
  model::RopeFacts rope;

  // What not every family has; the words are those of model::DecoderSpec.
  std::vector<model::RopeFacts> more_ropes;     // ropes 1 and up of layer_specs
  std::vector<model::LayerSpec> layer_specs{};  // repeated until every layer has one
  model::Activation activation = model::Activation::kSilu;
  model::QkNorm qk_norm = model::QkNorm::kNone;
  bool pre_norm = true, post_norm = false;
  float attention_scale = 0;  // 0: head_dim^-0.5
  float embedding_multiplier = 1, residual_multiplier = 1, logits_multiplier = 1;
  float attention_softcap = 0, logits_softcap = 0;
};

// What GoogleTest shows of a shape.
inline void PrintTo(const ModelShape& shape, std::ostream* out) { *out << shape.name; }

// Every awkward thing at least once: hidden that 64 or 32 does not divide, head_dim that is no
// multiple of 8, one to eight query heads a key head, odd vocabularies, all ropes.
const std::vector<ModelShape>& Shapes();

// Models with what families add to Llama, in the combinations that families have and in some that
// none has: windows, layers without rope, two ropes, partial rope, norms of queries and keys, norms
// after, no norms before, multipliers, soft caps, gelu.
const std::vector<ModelShape>& FeatureShapes();

// Float32 weights. The same shape and seed give the same model on every machine.
model::DecoderModel MakeModel(const ModelShape& shape, std::uint64_t seed);

// The same model with its linears and head (and so a tied embedding) as int8 rows.
model::DecoderModel MakeInt8Model(const ModelShape& shape, std::uint64_t seed);

// The model with a small tokenizer, as a source opens it.
model::Checkpoint MakeCheckpoint(const ModelShape& shape, std::uint64_t seed);

// One token for each id: <s>, </s>, the letters a to z, then names. vocab is at least 28.
std::string MakeTokenizerJson(std::int64_t vocab);

// Token ids below vocab.
std::vector<std::int32_t> MakeIds(std::int64_t count, std::int64_t vocab, std::uint64_t seed);

// Writes a Hugging Face folder whose weights are all zero and take no room on the disk: for tests
// that need a conversion to last.
void WriteZeroCheckpoint(const ModelShape& shape, const std::string& folder);

}  // namespace hone::testing
