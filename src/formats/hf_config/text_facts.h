// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a source says about text: tokenizer, chat template, special tokens, sampling. The same
// struct comes from a Hugging Face folder (hf_config) and from a GGUF file (gguf.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hone::formats {

struct SamplingFacts {
  bool do_sample = false;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

struct TextFacts {
  std::string tokenizer_json;  // a complete tokenizer.json; from GGUF it is generated
  std::int64_t num_ids = 0;    // of the tokenizer: its largest id and 1
  // The template of the source, byte for byte; empty if there is none. chat_template.jinja wins
  // over tokenizer_config.json; of a list, the one named "default".
  std::string chat_template;
  std::string chat_template_name;  // for messages: the file, or the key of a GGUF file
  std::vector<std::pair<std::string, std::string>> named_templates;  // the other entries of a list
  // Text of the special tokens; empty if the source has none.
  std::string bos_token, eos_token, pad_token, unk_token;
  std::optional<bool> add_bos_token;
  // End-of-sequence ids as config.json, generation_config.json or GGUF list them, united, in order.
  std::vector<std::int64_t> eos_ids;
  std::vector<std::string> eos_strings;  // the same key written as text
  SamplingFacts sampling;
  std::vector<std::string> warnings;  // for the user: two different templates, and the like
};

}  // namespace hone::formats
