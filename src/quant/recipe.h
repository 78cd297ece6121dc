// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Which scheme each tensor gets, by role and layer. See docs/formats/recipe.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "bridge/regex.h"
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

// A rule of Google's recipes: it is about operators whose output has a matching name.
enum class ScopePart : std::uint8_t { kAll, kDecoder, kEmbedder };
struct ScopeRule {
  ScopePart part = ScopePart::kAll;
  std::string pattern;
  bridge::Regex regex;
  std::string operation;  // "*", "FULLY_CONNECTED", "EMBEDDING_LOOKUP"; others match nothing
  std::int64_t min_elements = 0;  // smaller weights are left to earlier rules
  Scheme scheme;
  std::string text;  // for messages
};

// Either rules or scope_rules is empty. The last one that matches wins; none: float32.
struct Recipe {
  std::string name;
  std::vector<Rule> rules;
  std::vector<ScopeRule> scope_rules;
};

std::vector<std::string> PresetNames();
// none, int8, int4 (default), boctav4, boctav4_128, mixed4_8.
Result<Recipe> GetPreset(std::string_view name);
// A preset's name, or the path of a recipe file (Hone's or Google's), whose file name is the
// default of the recipe's name.
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
// A rule of Hone's that matches nothing is kInvalidArgument and named; Google's recipes are written
// for many models, so there only a recipe whose rules all match nothing is. Columns that a block
// does not divide: that tensor becomes int8 and a note says so; with strict it is kUnsupported.
Result<Resolved> Resolve(const Recipe& recipe, const model::DecoderSpec& spec, bool strict);

}  // namespace hone::quant
