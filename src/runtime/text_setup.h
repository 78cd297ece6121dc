// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Works out a TextSetup from what a source says.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "formats/hf_config/text_facts.h"
#include "formats/litertlm/litertlm.h"
#include "formats/litertlm/llm_metadata.h"
#include "runtime/engine.h"

namespace hone::runtime {

// A damaged tokenizer or metadata is an error. A tokenizer of a kind that Hone does not have, or a
// template that does not compile, is recorded in tokenizer_error or template_error: the model can
// still run on ids.
Result<TextSetup> MakeCheckpointText(const formats::TextFacts& facts,
                                     std::vector<std::string>& warnings);
Result<TextSetup> MakeBundleText(const formats::litertlm::Bundle& bundle,
                                 std::vector<std::string>& warnings);

// The part of MakeBundleText after the sections are read. tokenizer_json is empty if the bundle has
// no tokenizer that Hone can read; text.tokenizer_error says why then.
Result<TextSetup> MakeMetadataText(const formats::litertlm::LlmMetadata& metadata,
                                   const std::string& tokenizer_json, TextSetup text,
                                   std::vector<std::string>& warnings);

// Adds to suppress_ids every id below vocab that the tokenizer does not have: rows that only pad
// the vocabulary. Does nothing without a tokenizer.
void SuppressUnusedIds(std::int64_t vocab, TextSetup& text);

}  // namespace hone::runtime
