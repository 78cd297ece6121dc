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

// The names of a role's tensor. "*" stands for the number of the layer.
struct TensorName {
  Role role;
  const char* hf;
  const char* gguf;
};

// What a config.json says, before the tensors are looked at.
struct HfFacts {
  DecoderSpec spec;              // complete except tied_head
  std::vector<Role> biases;      // the biases that the configuration turns on
  std::optional<bool> tie_head;  // tie_word_embeddings; nothing if the key is absent
  std::vector<std::string> warnings;
};

struct Family {
  const char* name;        // DecoderSpec::architecture, and general.architecture of a GGUF file
  const char* hf_class;    // an entry of config.json's architectures
  const char* model_type;  // config.json's model_type
  std::span<const TensorName> tensors;
  Result<HfFacts> (*read_config)(const Json& config);
};

// Every family that Hone knows.
std::span<const Family* const> Families();

extern const Family kLlama;

}  // namespace hone::model
