// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/recipe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "quant/google_recipe.h"
#include "quant/recipe_json.h"

namespace hone::quant {
namespace {

using codec::Coding;
using model::Role;

constexpr std::array kRoles = {Role::kEmbedding, Role::kHead, Role::kQ,  Role::kK,   Role::kV,
                               Role::kO,         Role::kGate, Role::kUp, Role::kDown};
constexpr std::uint64_t kMaxRecipeBytes = 1 << 20;

bool IsInLayer(Role role) { return role != Role::kEmbedding && role != Role::kHead; }

constexpr Scheme kInt8{{Coding::kInt8, 0}, Algorithm::kMinMax};
constexpr Scheme Octav4(int block) { return {{Coding::kInt4, block}, Algorithm::kOctav}; }

Rule AllRoles(Scheme scheme) {
  Rule rule;
  rule.scheme = scheme;
  rule.text = "rule 1 (all roles)";
  return rule;
}

Rule SomeRoles(std::vector<Role> roles, Scheme scheme, std::string text) {
  Rule rule;
  rule.roles = std::move(roles);
  rule.scheme = scheme;
  rule.text = std::move(text);
  return rule;
}

struct Preset {
  const char* name;
  std::vector<Rule> (*rules)();
};

const Preset kPresets[] = {
    {"none", [] { return std::vector<Rule>{}; }},
    {"int8", [] { return std::vector<Rule>{AllRoles(kInt8)}; }},
    {"int4",
     [] {
       return std::vector<Rule>{
           AllRoles(Octav4(32)),
           SomeRoles({Role::kEmbedding, Role::kHead}, kInt8, "rule 2 (roles [embedding, head])")};
     }},
    {"boctav4",
     [] {
       return std::vector<Rule>{AllRoles(Octav4(32)),
                                SomeRoles({Role::kEmbedding}, kInt8, "rule 2 (roles [embedding])")};
     }},
    {"boctav4_128",
     [] {
       return std::vector<Rule>{AllRoles(Octav4(128)),
                                SomeRoles({Role::kEmbedding}, kInt8, "rule 2 (roles [embedding])")};
     }},
    {"mixed4_8",
     [] {
       return std::vector<Rule>{AllRoles(Octav4(64)),
                                SomeRoles({Role::kEmbedding, Role::kHead, Role::kGate}, kInt8,
                                          "rule 2 (roles [embedding, head, gate])")};
     }},
};

Result<Role> ParseRole(const Json& json) {
  std::vector<std::string> names;
  for (Role role : kRoles) {
    if (json.IsString() && json.AsString() == model::RoleName(role)) return role;
    names.emplace_back(model::RoleName(role));
  }
  return Invalid(StrCat("roles: found ", json.Dump(), ", expected one of ", Join(names, ", ")));
}

// "*" or a list of role names; empty means all.
Result<std::vector<Role>> ParseRoles(const Json& rule) {
  const Json* roles = rule.Find("roles");
  if (roles == nullptr) return Invalid("roles is missing: expected \"*\" or a list of role names");
  if (roles->IsString() && roles->AsString() == "*") return std::vector<Role>{};
  if (!roles->IsArray() || roles->AsArray().empty()) {
    return Invalid(StrCat("roles: found ", roles->Dump(),
                          ", expected \"*\" or a list with at least one role name"));
  }
  std::vector<Role> out;
  for (const Json& item : roles->AsArray()) {
    HONE_ASSIGN(const Role role, ParseRole(item));
    if (std::find(out.begin(), out.end(), role) != out.end()) {
      return Invalid(StrCat("roles: ", item.Dump(), " appears twice"));
    }
    out.push_back(role);
  }
  return out;
}

struct Layers {
  std::int64_t first = 0;
  std::int64_t last = -1;
};

// "3" or "0-3".
std::optional<Layers> ParseLayerText(std::string_view text) {
  Layers out;
  const char* const end = text.data() + text.size();
  const auto [after_first, error] = std::from_chars(text.data(), end, out.first);
  if (error != std::errc() || out.first < 0) return std::nullopt;
  out.last = out.first;
  if (after_first == end) return out;
  if (*after_first != '-') return std::nullopt;
  const auto [after_last, last_error] = std::from_chars(after_first + 1, end, out.last);
  if (last_error != std::errc() || after_last != end || out.last < 0) return std::nullopt;
  return out;
}

Result<Layers> ParseLayers(const Json& json) {
  constexpr std::int64_t kLimit = 1 << 20;
  std::optional<Layers> layers;
  if (json.IsString()) {
    layers = ParseLayerText(json.AsString());
  } else if (json.IsArray() && json.AsArray().size() == 2 && json.AsArray()[0].IsInt() &&
             json.AsArray()[1].IsInt()) {
    layers = Layers{json.AsArray()[0].AsInt(), json.AsArray()[1].AsInt()};
  }
  const auto in_range = [](std::int64_t v) { return v >= -kLimit && v <= kLimit; };
  if (!layers || !in_range(layers->first) || !in_range(layers->last)) {
    return Invalid(StrCat("layers: found ", json.Dump(),
                          ", expected a text such as \"0-3\" or a list [first, last]; a negative "
                          "number in a list counts from the end"));
  }
  return *layers;
}

Result<Algorithm> ParseAlgorithm(const Json& rule, Algorithm fallback) {
  const Json* json = rule.Find("algorithm");
  if (json == nullptr) return fallback;
  if (json->IsString() && json->AsString() == "min-max") return Algorithm::kMinMax;
  if (json->IsString() && json->AsString() == "octav") return Algorithm::kOctav;
  return Invalid(StrCat("algorithm: found ", json->Dump(), ", expected \"min-max\" or \"octav\""));
}

Result<int> ParseBlock(const Json& rule) {
  const Json* json = rule.Find("block");
  if (json == nullptr) return Invalid("block is missing: int4 needs 32, 64 or 128");
  for (int block : {32, 64, 128}) {
    if (json->IsInt() && json->AsInt() == block) return block;
  }
  return Invalid(StrCat("block: found ", json->Dump(), ", expected 32, 64 or 128"));
}

Result<Scheme> ParseScheme(const Json& rule) {
  const Json* weights = rule.Find("weights");
  const std::string_view name =
      weights != nullptr && weights->IsString() ? std::string_view(weights->AsString()) : "";
  if (name == "int4") {
    HONE_ASSIGN(const int block, ParseBlock(rule));
    HONE_ASSIGN(const Algorithm algorithm, ParseAlgorithm(rule, Algorithm::kOctav));
    return Scheme{{Coding::kInt4, block}, algorithm};
  }
  if (name != "int8" && name != "float32") {
    return Invalid(StrCat("weights: found ", weights == nullptr ? "nothing" : weights->Dump(),
                          ", expected \"int4\", \"int8\" or \"float32\""));
  }
  if (rule.Find("block") != nullptr) {
    return Invalid(StrCat("block: ", name, " has no blocks; only int4 has"));
  }
  if (name == "int8") {
    HONE_ASSIGN(const Algorithm algorithm, ParseAlgorithm(rule, Algorithm::kMinMax));
    return Scheme{{Coding::kInt8, 0}, algorithm};
  }
  if (rule.Find("algorithm") != nullptr) return Invalid("algorithm: float32 has none");
  return Scheme{};
}

// "rule 2 (roles [gate, up], layers 0 to 3)".
std::string RuleText(std::size_t number, const Rule& rule) {
  std::vector<std::string> names;
  for (Role role : rule.roles) names.emplace_back(model::RoleName(role));
  std::string text = StrCat("rule ", number, " (");
  text += names.empty() ? "all roles" : StrCat("roles [", Join(names, ", "), "]");
  if (rule.has_layers) text += StrCat(", layers ", rule.first_layer, " to ", rule.last_layer);
  return text + ")";
}

Result<Rule> ParseRule(const Json& json, std::size_t number) {
  static constexpr std::string_view kKnown[] = {"roles", "layers", "weights", "block", "algorithm"};
  if (!json.IsObject()) return Invalid(StrCat("found ", json.TypeName(), ", expected an object"));
  HONE_TRY(RefuseUnknownKeys(json, kKnown));
  Rule rule;
  HONE_ASSIGN(rule.roles, ParseRoles(json));
  if (const Json* layers = json.Find("layers"); layers != nullptr) {
    HONE_ASSIGN(const Layers range, ParseLayers(*layers));
    rule.has_layers = true;
    rule.first_layer = range.first;
    rule.last_layer = range.last;
  }
  HONE_ASSIGN(rule.scheme, ParseScheme(json));
  rule.text = RuleText(number, rule);
  return rule;
}

// The rule with its layers counted from the start and inside the model.
Result<Layers> ResolveLayers(const Rule& rule, std::int64_t num_layers) {
  if (!rule.has_layers) return Layers{0, num_layers - 1};
  const auto from_start = [&](std::int64_t v) { return v < 0 ? v + num_layers : v; };
  const Layers out{from_start(rule.first_layer), from_start(rule.last_layer)};
  if (out.first < 0 || out.last >= num_layers || out.first > out.last) {
    return Invalid(StrCat(rule.text, ": layers ", rule.first_layer, " to ", rule.last_layer,
                          " are not a range of the model's layers 0 to ", num_layers - 1));
  }
  return out;
}

bool Matches(const Rule& rule, const Layers& layers, Role role, std::int64_t layer) {
  if (!rule.roles.empty() &&
      std::find(rule.roles.begin(), rule.roles.end(), role) == rule.roles.end()) {
    return false;
  }
  if (!IsInLayer(role)) return !rule.has_layers;
  return layer >= layers.first && layer <= layers.last;
}

std::string NoteText(Role role, const Scheme& scheme, std::int64_t cols, std::int64_t tensors) {
  std::string text = model::RoleName(role);
  if (IsInLayer(role)) text += StrCat(" in ", tensors, tensors == 1 ? " layer" : " layers");
  return text + StrCat(": int8 per channel instead of ", codec::TypeName(scheme.type), ", since ",
                       scheme.type.block, " does not divide the ", cols, " columns");
}

// The schemes of one role in every layer; adds a note for each scheme that its columns refuse.
class RoleResolver {
 public:
  RoleResolver(Role role, std::int64_t cols, bool strict)
      : role_(role), cols_(cols), strict_(strict) {}

  Result<Scheme> Fit(const Scheme& scheme) {
    const int block = scheme.type.block;
    if (block == 0 || cols_ % block == 0) return scheme;
    if (strict_) {
      return Status(Code::kUnsupported,
                    StrCat(model::RoleName(role_), ": ", codec::TypeName(scheme.type),
                           " needs columns that ", block, " divides, but there are ", cols_,
                           "; choose another block or leave out --strict to store int8"));
    }
    for (auto& [refused, tensors] : refused_) {
      if (refused == scheme) {
        ++tensors;
        return kInt8;
      }
    }
    refused_.emplace_back(scheme, 1);
    return kInt8;
  }

  void AppendNotes(std::vector<std::string>* notes) const {
    for (const auto& [scheme, tensors] : refused_) {
      notes->push_back(NoteText(role_, scheme, cols_, tensors));
    }
  }

 private:
  Role role_;
  std::int64_t cols_;
  bool strict_;
  std::vector<std::pair<Scheme, std::int64_t>> refused_;
};

bool Matches(const ScopeRule& rule, Role role, std::string_view scope, std::int64_t elements) {
  const bool embedder = role == Role::kEmbedding;
  if (rule.part == (embedder ? ScopePart::kDecoder : ScopePart::kEmbedder)) return false;
  if (rule.operation != "*" &&
      rule.operation != (embedder ? "EMBEDDING_LOOKUP" : "FULLY_CONNECTED")) {
    return false;
  }
  return elements >= rule.min_elements && rule.regex.Search(scope);
}

Result<Resolved> ResolveScopes(const Recipe& recipe, const model::DecoderSpec& spec, bool strict) {
  Resolved out;
  std::vector<bool> used(recipe.scope_rules.size(), false);
  for (Role role : kRoles) {
    const model::Shape shape = model::RoleShape(spec, role);
    RoleResolver resolver(role, shape.cols, strict);
    const std::int64_t count = IsInLayer(role) ? spec.num_layers : 1;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t layer = IsInLayer(role) ? i : -1;
      const std::string scope = GoogleScopeName(spec, role, layer);
      Scheme scheme;
      for (std::size_t r = 0; r < recipe.scope_rules.size(); ++r) {
        const ScopeRule& rule = recipe.scope_rules[r];
        if (!Matches(rule, role, scope, shape.rows * shape.cols)) continue;
        used[r] = true;
        scheme = rule.scheme;
      }
      HONE_ASSIGN(const Scheme fitting, resolver.Fit(scheme));
      out.assignments.push_back({role, layer, fitting});
    }
    resolver.AppendNotes(&out.notes);
  }
  for (std::size_t r = 0; r < used.size(); ++r) {
    if (used[r]) continue;
    out.notes.push_back(StrCat(recipe.scope_rules[r].text, " matches no operator of this model"));
  }
  if (std::find(used.begin(), used.end(), true) != used.end()) return out;
  return Invalid(StrCat("none of the ", recipe.scope_rules.size(),
                        " rules matches an operator of this model; names look like ",
                        GoogleScopeName(spec, Role::kQ, 0)));
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

Result<Recipe> GetPreset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return Recipe{preset.name, preset.rules(), {}};
  }
  return Invalid(StrCat("no preset \"", name, "\"; there are ", Join(PresetNames(), ", ")));
}

Result<Recipe> LoadRecipe(const std::string& preset_or_path) {
  auto preset = GetPreset(preset_or_path);
  if (preset.ok()) return preset;
  if (!FileExists(preset_or_path)) {
    return Invalid(StrCat("\"", preset_or_path, "\" is neither a recipe file nor a preset (",
                          Join(PresetNames(), ", "), ")"));
  }
  HONE_ASSIGN(const std::string text, ReadFile(preset_or_path, kMaxRecipeBytes));
  auto json = ParseJson(text);
  if (!json.ok()) return std::move(json).status().Context(preset_or_path);
  // The name goes into bundles: where the file lies must not.
  const std::string_view path = preset_or_path;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::string folder(path.substr(0, path.size() - name.size()));
  // A bundle's recipe may name files beside it, and only there.
  const auto read_beside = [&](const std::string& file) -> Result<Json> {
    if (file.empty() || file.find('/') != std::string::npos) {
      return Invalid(StrCat("\"", file, "\": expected the name of a file beside the recipe"));
    }
    HONE_ASSIGN(const std::string beside, ReadFile(folder + file, kMaxRecipeBytes));
    auto parsed = ParseJson(beside);
    if (!parsed.ok()) return std::move(parsed).status().Context(file);
    return parsed;
  };
  auto recipe = IsGoogleRecipe(*json) ? ParseGoogleRecipe(*json, name, read_beside)
                                      : ParseRecipe(*json, name);
  if (!recipe.ok()) return std::move(recipe).status().Context(preset_or_path);
  return recipe;
}

Result<Recipe> ParseRecipe(const Json& json, std::string_view name) {
  static constexpr std::string_view kKnown[] = {"name", "rules"};
  if (!json.IsObject()) {
    return Invalid(StrCat("a recipe is an object, found ", json.TypeName()));
  }
  HONE_TRY(RefuseUnknownKeys(json, kKnown));
  Recipe recipe;
  HONE_ASSIGN(recipe.name, GetStringOr(json, "name", name));
  const Json* rules = json.Find("rules");
  if (rules == nullptr || !rules->IsArray()) {
    return Invalid(StrCat("rules: found ", rules == nullptr ? "nothing" : rules->TypeName(),
                          ", expected an array of rules"));
  }
  for (const Json& item : rules->AsArray()) {
    const std::size_t number = recipe.rules.size() + 1;
    auto rule = ParseRule(item, number);
    if (!rule.ok()) return std::move(rule).status().Context(StrCat("rule ", number));
    recipe.rules.push_back(*std::move(rule));
  }
  return recipe;
}

const Scheme& Resolved::Get(Role role, std::int64_t layer) const {
  const std::int64_t wanted = IsInLayer(role) ? layer : -1;
  const auto it = std::find_if(assignments.begin(), assignments.end(), [&](const Assignment& a) {
    return a.role == role && a.layer == wanted;
  });
  HONE_CHECK(it != assignments.end());
  return it->scheme;
}

Result<Resolved> Resolve(const Recipe& recipe, const model::DecoderSpec& spec, bool strict) {
  if (!recipe.scope_rules.empty()) return ResolveScopes(recipe, spec, strict);
  std::vector<Layers> ranges;
  for (const Rule& rule : recipe.rules) {
    HONE_ASSIGN(const Layers range, ResolveLayers(rule, spec.num_layers));
    ranges.push_back(range);
  }
  Resolved out;
  std::vector<bool> used(recipe.rules.size(), false);
  for (Role role : kRoles) {
    RoleResolver resolver(role, model::RoleShape(spec, role).cols, strict);
    const std::int64_t count = IsInLayer(role) ? spec.num_layers : 1;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t layer = IsInLayer(role) ? i : -1;
      Scheme scheme;
      for (std::size_t r = 0; r < recipe.rules.size(); ++r) {
        if (!Matches(recipe.rules[r], ranges[r], role, layer)) continue;
        used[r] = true;
        scheme = recipe.rules[r].scheme;
      }
      HONE_ASSIGN(const Scheme fitting, resolver.Fit(scheme));
      out.assignments.push_back({role, layer, fitting});
    }
    resolver.AppendNotes(&out.notes);
  }
  for (std::size_t r = 0; r < recipe.rules.size(); ++r) {
    if (!used[r]) return Invalid(StrCat(recipe.rules[r].text, " matches no tensor of this model"));
  }
  return out;
}

}  // namespace hone::quant
