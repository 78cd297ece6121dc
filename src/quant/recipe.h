// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Which scheme each tensor gets, by role and layer. See docs/formats/recipe.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/decoder_spec.h"
#include "quant/quantize.h"

namespace hone::quant {

struct Rule {
  std::vector<model::Role> roles;  // empty: every quantizable role
  std::int64_t first_layer = 0;  // layers [first_layer, last_layer]; ignored for embedding and head
  std::int64_t last_layer = -1;  // negative: counted from the end, -1 is the last layer
  bool has_layers = false;       // a rule with layers does not match embedding and head
  Scheme scheme;
  std::string text;  // for messages: "rule 2 (roles [gate, up])"
};

struct Recipe {
  std::string name;
  std::vector<Rule> rules;  // the last one that matches wins; none: float32
};

std::vector<std::string> PresetNames();
// none, int8, int4 (default), boctav4, boctav4_128, mixed4_8.
Result<Recipe> GetPreset(std::string_view name);
// A preset's name, or the path of a recipe file, whose file name is the default of the recipe's.
Result<Recipe> LoadRecipe(const std::string& preset_or_path);
// name: of a recipe that has none. kInvalidArgument names the rule and the key.
Result<Recipe> ParseRecipe(const Json& json, std::string_view name);

struct Assignment {
  model::Role role;
  std::int64_t layer;  // -1 for embedding and head
  Scheme scheme;
};
struct Resolved {
  std::vector<Assignment> assignments;  // every quantizable tensor of the model
  std::vector<std::string> notes;       // a tensor that became int8 since its columns do not divide
  const Scheme& Get(model::Role role, std::int64_t layer) const;
};
// A rule that matches nothing is kInvalidArgument and named. Columns that a block does not divide:
// that tensor becomes int8 and a note says so; with strict it is kUnsupported.
Result<Resolved> Resolve(const Recipe& recipe, const model::DecoderSpec& spec, bool strict);

}  // namespace hone::quant
