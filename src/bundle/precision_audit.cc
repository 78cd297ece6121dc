// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/precision_audit.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace hone::bundle {
namespace {

using model::Role;

constexpr std::array kLayerRoles = {Role::kQ,    Role::kK,  Role::kV,   Role::kO,
                                    Role::kGate, Role::kUp, Role::kDown};

void AddRole(const model::DecoderModel& model, Role role, std::int64_t layer,
             std::vector<RolePrecision>& out) {
  const model::Weight& weight = model::GetWeight(model, role, layer);
  if (!weight.present()) return;
  RolePrecision entry;
  entry.role = role;
  entry.layer = layer;
  entry.type = weight.view.type;
  entry.values =
      static_cast<std::uint64_t>(weight.view.rows) * static_cast<std::uint64_t>(weight.view.cols);
  entry.bytes = weight.view.codes.size() + weight.view.scales.size();
  out.push_back(entry);
}

// The scheme that hone.json gives to a role and layer: "int4_block32 octav", or "".
std::string SchemeOf(const Json& schemes, Role role, std::int64_t layer) {
  const Json* entry = schemes.Find(model::RoleName(role));
  if (entry == nullptr) return "";
  if (entry->IsString()) return entry->AsString();
  if (!entry->IsArray()) return "";
  for (const Json& run : entry->AsArray()) {
    const Json* first = run.Find("first");
    const Json* last = run.Find("last");
    const Json* scheme = run.Find("scheme");
    if (!first || !first->IsInt() || !last || !last->IsInt() || !scheme || !scheme->IsString()) {
      continue;
    }
    if (layer >= first->AsInt() && layer <= last->AsInt()) return scheme->AsString();
  }
  return "";
}

}  // namespace

std::vector<RolePrecision> AuditRoles(const model::DecoderModel& model) {
  std::vector<RolePrecision> out;
  AddRole(model, Role::kEmbedding, -1, out);
  for (std::int64_t layer = 0; layer < model.spec.num_layers; ++layer) {
    for (const Role role : kLayerRoles) AddRole(model, role, layer, out);
  }
  AddRole(model, Role::kHead, -1, out);
  return out;
}

Json RolesJson(const std::vector<RolePrecision>& roles) {
  struct Sum {
    Role role;
    std::string precision;
    std::uint64_t tensors = 0, values = 0, bytes = 0;
  };
  std::vector<Sum> sums;
  for (const RolePrecision& entry : roles) {
    const std::string precision = codec::TypeName(entry.type);
    auto sum = std::find_if(sums.begin(), sums.end(), [&](const Sum& s) {
      return s.role == entry.role && s.precision == precision;
    });
    if (sum == sums.end()) sum = sums.insert(sums.end(), Sum{entry.role, precision});
    ++sum->tensors;
    sum->values += entry.values;
    sum->bytes += entry.bytes;
  }
  Json::Array out;
  for (const Sum& sum : sums) {
    out.push_back(Json(
        Json::Object{{"role", model::RoleName(sum.role)},
                     {"precision", sum.precision},
                     {"tensors", sum.tensors},
                     {"values", sum.values},
                     {"bytes", sum.bytes},
                     {"bits_per_weight", sum.values == 0 ? 0.0
                                                         : 8.0 * static_cast<double>(sum.bytes) /
                                                               static_cast<double>(sum.values)}}));
  }
  return Json(std::move(out));
}

std::vector<std::string> CompareWithRecipe(const std::vector<RolePrecision>& roles,
                                           const Json& hone) {
  const Json* recipe = hone.Find("recipe");
  const Json* schemes = recipe ? recipe->Find("schemes") : nullptr;
  std::vector<std::string> out;
  if (schemes == nullptr) return out;
  struct Difference {
    Role role;
    std::string wanted, stored;
    std::int64_t layer;
    int tensors;
  };
  std::vector<Difference> differences;
  for (const RolePrecision& entry : roles) {
    const std::string scheme = SchemeOf(*schemes, entry.role, entry.layer);
    const std::string wanted = scheme.substr(0, scheme.find(' '));
    const std::string stored = codec::TypeName(entry.type);
    if (wanted.empty() || wanted == stored) continue;
    const auto same = std::find_if(differences.begin(), differences.end(), [&](const auto& d) {
      return d.role == entry.role && d.wanted == wanted && d.stored == stored;
    });
    if (same == differences.end()) {
      differences.push_back({entry.role, wanted, stored, entry.layer, 1});
    } else {
      ++same->tensors;
    }
  }
  for (const Difference& d : differences) {
    std::string where = model::RoleName(d.role);
    if (d.layer >= 0) where += StrCat(" (", d.tensors, " layers, the first: ", d.layer, ")");
    out.push_back(
        StrCat(where, " is stored as ", d.stored, ", the recipe in hone.json says ", d.wanted));
  }
  return out;
}

}  // namespace hone::bundle
