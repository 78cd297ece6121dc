// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Recipes of ai-edge-quantizer: regular expressions over the names of operators' outputs. See
// docs/formats/recipe.md.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "quant/recipe.h"

namespace hone::quant {

// Whether the JSON is one of Google's: a list of rules, or an object of such lists by model type.
bool IsGoogleRecipe(const Json& json);

// Reads the text of a file that the recipe names, relative to the recipe.
using RecipeFileReader = std::function<Result<Json>(const std::string& path)>;

// kInvalidArgument names rule and key; kUnsupported what Hone cannot do (static activations, an
// algorithm, a width). read_file may be empty: then file names are refused.
Result<Recipe> ParseGoogleRecipe(const Json& json, std::string_view name,
                                 const RecipeFileReader& read_file);

// The name of the operator's output that litert-torch gives to this tensor's operator:
// ".../transformers.models.llama.modeling_llama.LlamaDecoderLayer_3/.../Linear_q_proj;1".
std::string GoogleScopeName(const model::DecoderSpec& spec, model::Role role, std::int64_t layer);

}  // namespace hone::quant
