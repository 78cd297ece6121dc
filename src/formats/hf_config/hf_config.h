// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// config.json, generation_config.json, tokenizer.json and tokenizer_config.json of a folder.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"
#include "formats/hf_config/text_facts.h"

namespace hone::formats {

struct HfFolder {
  std::string path;
  Json config;  // config.json, an object
  TextFacts text;
};

// kNotFound if config.json or tokenizer.json is missing. Damaged JSON is kDataLoss and names the
// file.
Result<HfFolder> ReadHfFolder(const std::string& folder);

// Checks a tokenizer.json as far as Hone relies on it: model type (BPE or Unigram; others are
// refused by name), merges that name known pieces (the message gives the rank), ids that are unique
// and below 2^31. Returns the largest id + 1.
Result<std::int64_t> CheckTokenizerJson(const Json& tokenizer);

}  // namespace hone::formats
