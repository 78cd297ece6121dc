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
};

// What GoogleTest shows of a shape.
inline void PrintTo(const ModelShape& shape, std::ostream* out) { *out << shape.name; }

// Every awkward thing at least once: hidden that 64 or 32 does not divide, head_dim that is no
// multiple of 8, one to eight query heads a key head, odd vocabularies, all ropes.
const std::vector<ModelShape>& Shapes();

// Float32 weights. The same shape and seed give the same model on every machine.
model::DecoderModel MakeModel(const ModelShape& shape, std::uint64_t seed);

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
