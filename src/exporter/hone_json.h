// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone.json: how a bundle was made. Its fields: docs/formats/graph.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "exporter/bundle_writer.h"
#include "exporter/export.h"
#include "exporter/llm_metadata_builder.h"
#include "formats/hf_config/text_facts.h"
#include "graph/builder.h"
#include "model/decoder_spec.h"
#include "quant/recipe.h"

namespace hone::exporter {

inline constexpr int kHoneJsonFormat = 1;

struct HoneJsonFacts {
  const model::DecoderSpec& spec;
  const quant::Recipe& recipe;
  const quant::Resolved& schemes;
  const graph::BuildOptions& build;
  const formats::TextFacts& text;
  const BundleText& bundle_text;
  const ExportOptions& options;
  const std::vector<std::string>& ropes;       // facts of ropes that depend on the length
  const std::vector<SectionDigest>& sections;  // those before hone.json
};

// The member "recipe": its name and the scheme of every role.
Json RecipeJson(const quant::Recipe& recipe, const quant::Resolved& schemes);

// The text of hone.json. The same facts give the same text; no path, date or machine goes in.
std::string BuildHoneJson(const HoneJsonFacts& facts);

}  // namespace hone::exporter
