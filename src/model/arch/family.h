// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A model family as data. A new family is one file beside this one and one line in families.cc; see
// docs/guides/add_a_model.md.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/decoder_spec.h"

namespace hone::model {

// The names of a role's tensor. "*" stands for the number of the layer. Roles with the same name
// share one tensor, which holds their rows one after the other in the order of the table.
struct TensorName {
  Role role = Role::kEmbedding;
  const char* hf = nullptr;
  const char* gguf = nullptr;
};

// What a config.json says, before the tensors are looked at.
struct HfFacts {
  DecoderSpec spec;              // complete except tied_head
  std::vector<Role> biases;      // the biases that the configuration turns on
  std::optional<bool> tie_head;  // tie_word_embeddings; nothing if the key is absent
  std::vector<std::string> warnings;
};

class GgufKeys;

// How llama.cpp's files hold the family.
struct GgufRules {
  const char* architecture;  // general.architecture
  bool interleaved = false;  // rows of q and k: Weight::interleaved_head_dim
  bool partial_rotary = false;
  bool longrope = false;         // lists of rope factors as tensors
  bool longrope_by_max = false;  // RopeFacts::by_max_positions
  // Reads the family's own keys. spec holds what all families have, with one rope.
  Status (*read)(GgufKeys& keys, DecoderSpec* spec) = nullptr;
};

struct Family {
  const char* name;        // DecoderSpec::architecture
  const char* hf_class;    // an entry of config.json's architectures
  const char* model_type;  // config.json's model_type
  std::span<const TensorName> tensors;
  Result<HfFacts> (*read_config)(const Json& config);
  bool tied_by_default = false;     // what an absent tie_word_embeddings means
  bool norms_less_one = false;      // safetensors hold the norms' weights minus 1 (Gemma)
  const GgufRules* gguf = nullptr;  // nothing: no GGUF file has this family
};

// Every family that Hone knows.
std::span<const Family* const> Families();

extern const Family kGemma2;
extern const Family kGemma3Text;
extern const Family kGranite;
extern const Family kLlama;
extern const Family kMiniCpm;
extern const Family kMinistral;
extern const Family kMinistral3;
extern const Family kMistral;
extern const Family kOlmo2;
extern const Family kPhi3;
extern const Family kQwen2;
extern const Family kQwen3;
extern const Family kSmolLm3;

}  // namespace hone::model
