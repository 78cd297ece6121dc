// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone.json: how a bundle was made. Its fields: docs/formats/graph.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exporter/bundle_writer.h"
#include "exporter/llm_metadata_builder.h"
#include "formats/hf_config/text_facts.h"
#include "model/decoder_spec.h"
#include "quant/recipe.h"

namespace hone::exporter {

inline constexpr int kHoneJsonFormat = 1;

// The text of hone.json. sections are those before it. The same arguments give the same text; no
// path, date or machine goes in.
std::string BuildHoneJson(const model::DecoderSpec& spec, const quant::Recipe& recipe,
                          const quant::Resolved& schemes, std::int64_t context,
                          const std::vector<std::int64_t>& prefill, const formats::TextFacts& text,
                          const BundleText& bundle_text,
                          const std::vector<SectionDigest>& sections);

}  // namespace hone::exporter
