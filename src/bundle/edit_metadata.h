// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Edits of the LlmMetadata message of a bundle, field by field: what is not edited keeps its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bridge/chat_template.h"
#include "bridge/tokenizer.h"
#include "bundle/edit.h"
#include "formats/hf_config/text_facts.h"
#include "formats/litertlm/llm_metadata.h"

namespace hone::bundle {

// What edits are checked against.
struct EditFacts {
  std::optional<bridge::Tokenizer> tokenizer;
  std::optional<std::int64_t> vocab, context;  // of the graph
  formats::TextFacts text;                     // only the texts of bos, eos, pad and unk
};

// The first line of a template whose thinking default was set here: {% set enable_thinking = ... %}
// where the caller passes nothing. It prints nothing.
std::string ThinkingPrologue(bool on);
// The template behind a prologue, and what the prologue sets.
struct SplitTemplate {
  std::string_view source;
  std::optional<bool> thinking;
};
SplitTemplate SplitThinkingPrologue(std::string_view chat_template);

// Changes the encoded message and appends to the plan's changes, notes and warnings.
Status EditMetadata(const EditRequest& request, const EditFacts& facts, std::string& message,
                    EditPlan& plan);

}  // namespace hone::bundle
