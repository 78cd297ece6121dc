// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// model.toml: what a bundle is packed from, as litert-lm-builder reads and writes it. See
// docs/formats/model_toml.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bundle/pack_proto.h"
#include "formats/litertlm/litertlm.h"

namespace hone::bundle {

// One [[section]].
struct TomlSection {
  formats::litertlm::SectionType type = formats::litertlm::SectionType::kNone;
  std::vector<formats::litertlm::KeyValue> items;  // in the order of the header
  std::string data_path;
  LlmOverrides overrides;  // LlmMetadata only
};

struct ModelToml {
  std::vector<formats::litertlm::KeyValue> system;
  std::vector<TomlSection> sections;
};

// kInvalidArgument says where and what: syntax with line and column, a section by its number.
Result<ModelToml> ParseModelToml(std::string_view text);

// Layout and key order as litert-lm-builder writes them; overrides are not written.
std::string WriteModelToml(const ModelToml& toml);

// The word for a section type in model.toml, "TFLiteModel", "HF_Tokenizer". Types that
// litert-lm-builder does not pack have the name of SectionTypeName, with _ for spaces.
std::string TomlSectionType(formats::litertlm::SectionType type);
bool BuilderPacks(formats::litertlm::SectionType type);

}  // namespace hone::bundle
