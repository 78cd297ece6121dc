// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/hone_json.h"

#include <utility>

#include "base/json.h"
#include "bridge/sha256.h"

namespace hone::exporter {
namespace {

// {"embedding": "int8 minmax", "gate": "int4_block64 octav", ...}; a role whose layers differ has
// an array with one entry for each run of equal layers.
Json SchemesJson(const quant::Resolved& schemes) {
  struct Run {
    std::int64_t first, last;
    std::string scheme;
  };
  std::vector<std::pair<model::Role, std::vector<Run>>> roles;
  for (const quant::Assignment& assignment : schemes.assignments) {
    auto role = roles.begin();
    while (role != roles.end() && role->first != assignment.role) ++role;
    if (role == roles.end()) role = roles.insert(roles.end(), {assignment.role, {}});
    const std::string name = quant::SchemeName(assignment.scheme);
    std::vector<Run>& runs = role->second;
    if (!runs.empty() && runs.back().scheme == name && runs.back().last + 1 == assignment.layer) {
      runs.back().last = assignment.layer;
    } else {
      runs.push_back({assignment.layer, assignment.layer, name});
    }
  }
  Json out(Json::Object{});
  for (const auto& [role, runs] : roles) {
    if (runs.size() == 1) {
      out.Set(model::RoleName(role), runs[0].scheme);
      continue;
    }
    Json::Array list;
    for (const Run& run : runs) {
      list.emplace_back(
          Json(Json::Object{{"first", run.first}, {"last", run.last}, {"scheme", run.scheme}}));
    }
    out.Set(model::RoleName(role), Json(std::move(list)));
  }
  return out;
}

}  // namespace

Json RecipeJson(const quant::Recipe& recipe, const quant::Resolved& schemes) {
  return Json(Json::Object{{"name", recipe.name}, {"schemes", SchemesJson(schemes)}});
}

std::string BuildHoneJson(const HoneJsonFacts& facts) {
  const BundleText& bundle_text = facts.bundle_text;
  const ExportOptions& options = facts.options;
  Json::Array ladder;
  for (const std::int64_t length : facts.build.prefill) ladder.emplace_back(length);
  Json out(Json::Object{});
  out.Set("format", kHoneJsonFormat);
  out.Set("hone", HONE_VERSION);
  if (!options.source.repository.empty()) {
    Json source(Json::Object{{"repository", options.source.repository}});
    if (!options.source.revision.empty()) source.Set("revision", options.source.revision);
    out.Set("source", std::move(source));
  }
  out.Set("architecture", facts.spec.architecture);
  out.Set("recipe", RecipeJson(facts.recipe, facts.schemes));
  out.Set("context", facts.build.context);
  out.Set("prefill", Json(std::move(ladder)));
  if (facts.build.half_cache) out.Set("kv", "f16");
  if (options.max_buffer != 0) out.Set("max_buffer", options.max_buffer);
  if (!facts.ropes.empty()) {
    Json::Array ropes;
    for (const std::string& rope : facts.ropes) ropes.emplace_back(rope);
    out.Set("rope", Json(std::move(ropes)));
  }
  if (bundle_text.has_template) {
    out.Set("chat_template",
            Json(Json::Object{
                {"sha256", bridge::Sha256Hex(AsBytes(*bundle_text.metadata.jinja_prompt_template))},
                {"source_sha256", bridge::Sha256Hex(AsBytes(facts.text.chat_template))},
                {"wrapped", bundle_text.wrapped_template}}));
  }
  if (!options.tool_family.empty()) out.Set("tool_family", options.tool_family);
  out.Set("tokens", Json(Json::Object{{"bos", facts.text.bos_token},
                                      {"eos", facts.text.eos_token},
                                      {"pad", facts.text.pad_token},
                                      {"unk", facts.text.unk_token}}));
  Json::Array list;
  for (const SectionDigest& section : facts.sections) {
    list.push_back(Json(Json::Object{
        {"name", section.name}, {"bytes", section.bytes}, {"sha256", section.sha256}}));
  }
  out.Set("sections", Json(std::move(list)));
  return out.Dump(1) + "\n";
}

}  // namespace hone::exporter
