// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/google_recipe.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "quant/recipe_json.h"

namespace hone::quant {
namespace {

using codec::Coding;
using model::Role;

constexpr std::size_t kMaxRules = 1000;
constexpr const char* kExportable =
    "litert_torch.generative.export_hf.core.external_emb.exportable_module."
    "LiteRTExportableModuleFor";

Status Unsupported(std::string message) { return Status(Code::kUnsupported, std::move(message)); }

// The value of a key that must be a text.
Result<std::string> GetText(const Json& object, std::string_view key) {
  const Json* json = object.FindNonNull(key);
  if (json == nullptr || !json->IsString()) {
    return Invalid(
        StrCat(key, ": found ", json == nullptr ? "nothing" : json->Dump(), ", expected a text"));
  }
  return json->AsString();
}

// "CHANNELWISE" is 0, "BLOCKWISE_32" is 32.
Result<int> ParseGranularity(const Json& weights) {
  const Json* json = weights.FindNonNull("granularity");
  const std::string text = json != nullptr && json->IsString() ? json->AsString() : "";
  if (text == "CHANNELWISE") return 0;
  for (const int block : {32, 64, 128, 256}) {
    if (text == StrCat("BLOCKWISE_", block)) return block;
  }
  if (text == "TENSORWISE") {
    return Unsupported("granularity TENSORWISE is not supported; use CHANNELWISE or BLOCKWISE_32");
  }
  return Invalid(StrCat("granularity: found ", json == nullptr ? "nothing" : json->Dump(),
                        ", expected CHANNELWISE or BLOCKWISE_32, _64, _128 or _256"));
}

Result<codec::WeightType> ParseWeightConfig(const Json& weights) {
  static constexpr std::string_view kKnown[] = {"num_bits", "symmetric",  "granularity",
                                                "dtype",    "block_size", "algorithm_key"};
  if (!weights.IsObject()) {
    return Invalid(
        StrCat("weight_tensor_config: found ", weights.TypeName(), ", expected an object"));
  }
  HONE_TRY(RefuseUnknownKeys(weights, kKnown).Context("weight_tensor_config"));
  const Json* symmetric = weights.FindNonNull("symmetric");
  if (symmetric != nullptr && symmetric->IsBool() && !symmetric->AsBool()) {
    return Unsupported(
        "weight_tensor_config: symmetric is false, but Hone's weights are symmetric");
  }
  const Json* dtype = weights.FindNonNull("dtype");
  if (dtype != nullptr && !(dtype->IsString() && dtype->AsString() == "INT")) {
    return Unsupported(
        StrCat("weight_tensor_config: dtype is ", dtype->Dump(), ", expected \"INT\""));
  }
  HONE_ASSIGN(const int block, ParseGranularity(weights));
  const Json* bits = weights.FindNonNull("num_bits");
  const std::int64_t count = bits != nullptr && bits->IsInt() ? bits->AsInt() : 0;
  if (count == 8) {
    if (block == 0) return codec::WeightType{Coding::kInt8, 0};
    return Unsupported("int8 in blocks is not supported; int8 is CHANNELWISE");
  }
  if (count == 4) return codec::WeightType{Coding::kInt4, block};
  return Unsupported(StrCat("weight_tensor_config: num_bits is ",
                            bits == nullptr ? "missing" : bits->Dump(), ", expected 4 or 8"));
}

Result<std::optional<Algorithm>> ParseAlgorithmKey(const std::string& key) {
  if (key == "no_quantize") return std::optional<Algorithm>();
  if (key == "min_max_uniform_quantize") return std::optional<Algorithm>(Algorithm::kMinMax);
  if (key == "OCTAV") return std::optional<Algorithm>(Algorithm::kOctav);
  return Unsupported(StrCat("algorithm_key \"", key,
                            "\" is not supported; known are min_max_uniform_quantize, OCTAV and "
                            "no_quantize"));
}

// What the rule does to weights; nothing for rules of operators without weights.
Status ParseOpConfig(const Json& rule, Algorithm algorithm, ScopeRule* out) {
  const Json* config = rule.FindNonNull("op_config");
  if (config == nullptr || !config->IsObject()) {
    return Invalid(StrCat("op_config: found ", config == nullptr ? "nothing" : config->TypeName(),
                          ", expected an object"));
  }
  static constexpr std::string_view kKnown[] = {"weight_tensor_config", "activation_tensor_config",
                                                "compute_precision",    "explicit_dequantize",
                                                "skip_checks",          "min_weight_elements"};
  HONE_TRY(RefuseUnknownKeys(*config, kKnown).Context("op_config"));
  if (config->FindNonNull("activation_tensor_config") != nullptr) {
    return Unsupported(
        "op_config: activation_tensor_config asks for static activations, which Hone does not "
        "export; leave it out for dynamic 8-bit activations");
  }
  const Json* precision = config->FindNonNull("compute_precision");
  if (precision != nullptr && !(precision->IsString() && precision->AsString() == "INTEGER")) {
    return Unsupported(StrCat("op_config: compute_precision is ", precision->Dump(),
                              "; only \"INTEGER\" (dynamic 8-bit activations) is supported"));
  }
  const Json* dequantize = config->FindNonNull("explicit_dequantize");
  if (dequantize != nullptr && !(dequantize->IsBool() && !dequantize->AsBool())) {
    return Unsupported("op_config: explicit_dequantize is not supported");
  }
  if (const Json* least = config->FindNonNull("min_weight_elements"); least != nullptr) {
    if (!least->IsInt() || least->AsInt() < 0) {
      return Invalid(
          StrCat("op_config: min_weight_elements is ", least->Dump(), ", expected a count"));
    }
    out->min_elements = least->AsInt();
  }
  const Json* weights = config->FindNonNull("weight_tensor_config");
  if (weights == nullptr) return Invalid("op_config: weight_tensor_config is missing");
  auto type = ParseWeightConfig(*weights);
  if (!type.ok()) return std::move(type).status().Context("op_config");
  out->scheme = {*type, algorithm};
  return {};
}

Result<ScopeRule> ParseRule(const Json& json, std::size_t number, ScopePart part) {
  static constexpr std::string_view kKnown[] = {"regex", "operation", "algorithm_key", "op_config"};
  if (!json.IsObject()) return Invalid(StrCat("found ", json.TypeName(), ", expected an object"));
  HONE_TRY(RefuseUnknownKeys(json, kKnown));
  ScopeRule rule;
  rule.part = part;
  HONE_ASSIGN(rule.pattern, GetText(json, "regex"));
  HONE_ASSIGN(rule.regex, bridge::Regex::Compile(rule.pattern));
  HONE_ASSIGN(rule.operation, GetText(json, "operation"));
  HONE_ASSIGN(const std::string key, GetText(json, "algorithm_key"));
  HONE_ASSIGN(const std::optional<Algorithm> algorithm, ParseAlgorithmKey(key));
  if (algorithm) HONE_TRY(ParseOpConfig(json, *algorithm, &rule));
  rule.text = StrCat("rule ", number, " (regex \"", rule.pattern, "\", ", rule.operation, ")");
  return rule;
}

// Appends the rules of one list. A rule for every operation replaces earlier ones of its regex.
Status AppendRules(const Json& list, ScopePart part, std::vector<ScopeRule>* out) {
  if (!list.IsArray()) {
    return Invalid(StrCat("found ", list.TypeName(), ", expected a list of rules"));
  }
  std::size_t number = 0;
  for (const Json& item : list.AsArray()) {
    auto rule = ParseRule(item, ++number, part);
    if (!rule.ok()) return std::move(rule).status().Context(StrCat("rule ", number));
    if (rule->operation == "*") {
      std::erase_if(*out, [&](const ScopeRule& earlier) {
        return earlier.part == part && earlier.pattern == rule->pattern;
      });
    }
    out->push_back(*std::move(rule));
    if (out->size() > kMaxRules) return Invalid(StrCat("more than ", kMaxRules, " rules"));
  }
  return {};
}

std::string_view WithoutPrefix(std::string_view model_type) {
  constexpr std::string_view kPrefix = "tf_lite_";
  if (model_type.starts_with(kPrefix)) model_type.remove_prefix(kPrefix.size());
  return model_type;
}

// One entry of a bundle's recipe: a list, or the name of a file that holds one.
Status AppendEntry(const Json& value, ScopePart part, const RecipeFileReader& read_file,
                   std::vector<ScopeRule>* out) {
  if (!value.IsString()) return AppendRules(value, part, out);
  if (!read_file)
    return Invalid(StrCat("\"", value.AsString(), "\": file names are not read here"));
  HONE_ASSIGN(const Json list, read_file(value.AsString()));
  return AppendRules(list, part, out).Context(value.AsString());
}

// "llama" -> "Llama", "qwen3" -> "Qwen3": how transformers begins the names of its classes.
std::string ClassPrefix(const std::string& architecture) {
  static constexpr std::pair<std::string_view, const char*> kSpecial[] = {
      {"minicpm", "MiniCPM"},
      {"smollm3", "SmolLM3"},
      {"gemma3", "Gemma3"},
      {"gemma3_text", "Gemma3"}};
  for (const auto& [name, prefix] : kSpecial) {
    if (name == architecture) return prefix;
  }
  std::string out = architecture;
  if (!out.empty() && out[0] >= 'a' && out[0] <= 'z')
    out[0] = static_cast<char>(out[0] - 'a' + 'A');
  return out;
}

bool IsGoogleKey(std::string_view key) {
  const std::string_view name = WithoutPrefix(key);
  return key == "default" || name == "prefill_decode" || name == "embedder";
}

}  // namespace

bool IsGoogleRecipe(const Json& json) {
  if (json.IsArray()) return true;
  if (!json.IsObject() || json.Find("rules") != nullptr) return false;
  return std::any_of(json.AsObject().begin(), json.AsObject().end(),
                     [](const auto& entry) { return IsGoogleKey(entry.first); });
}

Result<Recipe> ParseGoogleRecipe(const Json& json, std::string_view name,
                                 const RecipeFileReader& read_file) {
  Recipe recipe;
  recipe.name = name;
  if (json.IsArray()) {
    HONE_TRY(AppendRules(json, ScopePart::kAll, &recipe.scope_rules));
  } else {
    for (const auto& entry : json.AsObject()) {
      if (IsGoogleKey(entry.first)) continue;
      return Invalid(StrCat("unknown key ", Json(entry.first).Dump(),
                            "; known are default, prefill_decode and embedder"));
    }
    const Json* fallback = json.FindNonNull("default");
    const auto append = [&](std::string_view model_type, ScopePart part) -> Status {
      const Json* value = fallback;
      for (const auto& [key, entry] : json.AsObject()) {
        if (WithoutPrefix(key) == model_type) value = &entry;
      }
      if (value == nullptr) return {};
      return AppendEntry(*value, part, read_file, &recipe.scope_rules).Context(model_type);
    };
    HONE_TRY(append("prefill_decode", ScopePart::kDecoder));
    HONE_TRY(append("embedder", ScopePart::kEmbedder));
  }
  if (recipe.scope_rules.empty()) return Invalid("the recipe has no rules");
  return recipe;
}

std::string GoogleScopeName(const model::DecoderSpec& spec, Role role, std::int64_t layer) {
  if (role == Role::kEmbedding) {
    return StrCat(kExportable, "Embedder/torch.nn.modules.sparse.Embedding_model;1");
  }
  if (role == Role::kHead) return "decode_logits_output";
  struct Place {
    Role role;
    const char* part;
    const char* linear;
  };
  static constexpr Place kPlaces[] = {
      {Role::kQ, "Attention_self_attn", "q_proj"}, {Role::kK, "Attention_self_attn", "k_proj"},
      {Role::kV, "Attention_self_attn", "v_proj"}, {Role::kO, "Attention_self_attn", "o_proj"},
      {Role::kGate, "MLP_mlp", "gate_proj"},       {Role::kUp, "MLP_mlp", "up_proj"},
      {Role::kDown, "MLP_mlp", "down_proj"}};
  const auto* place = std::find_if(std::begin(kPlaces), std::end(kPlaces),
                                   [&](const Place& p) { return p.role == role; });
  HONE_CHECK(place != std::end(kPlaces));
  const std::string prefix = ClassPrefix(spec.architecture);
  std::string lower = spec.architecture == "gemma3_text" ? "gemma3" : spec.architecture;
  const std::string module =
      StrCat("transformers.models.", lower, ".modeling_", lower, ".", prefix);
  return StrCat(kExportable, "DecoderOnlyLMGenerateExternalEmbedder/", module, "ForCausalLM_model/",
                module, "Model_model/", module, "DecoderLayer_", layer, "/", module, place->part,
                "/torch.nn.modules.linear.Linear_", place->linear, ";1");
}

}  // namespace hone::quant
