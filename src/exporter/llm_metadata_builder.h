// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a bundle says about text: stop tokens, template, BOS, sampler, channels. The rules are in
// docs/formats/graph.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bridge/chat_template.h"
#include "bridge/tokenizer.h"
#include "formats/hf_config/text_facts.h"
#include "formats/litertlm/llm_metadata.h"
#include "model/decoder_spec.h"

namespace hone::exporter {

// The sampler's k when the source samples: as Transformers where generation_config has no top_k,
// and what stands for "no limit" (top_k 0), since LiteRT-LM needs a positive k.
inline constexpr std::int32_t kDefaultTopK = 50;
inline constexpr std::int32_t kUnlimitedTopK = 1024;

// The text side of a bundle, checked.
struct BundleText {
  formats::litertlm::LlmMetadata metadata;
  bool has_template = false;
  bool wrapped_template = false;      // the template is the one of WrapTemplate
  std::vector<std::string> notes;     // facts
  std::vector<std::string> warnings;  // risks
};

// kDataLoss if the tokenizer has more ids than the embedding has rows, or the template's syntax is
// wrong (the message has chat_template and the line); kUnsupported if there is no stop token.
Result<BundleText> BuildBundleText(const model::DecoderSpec& spec, const formats::TextFacts& text,
                                   std::int64_t context, bool template_compat);

// State buffers of the caches, as litert-torch writes them.
formats::litertlm::ExecutorMetadata BuildExecutorMetadata(std::int64_t num_layers,
                                                          std::int64_t context);

}  // namespace hone::exporter
