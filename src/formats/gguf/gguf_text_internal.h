// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Pre-tokenizers by their GGUF name. Private to gguf/.
#pragma once

#include <optional>
#include <string_view>

#include "base/json.h"

namespace hone::formats::internal {

// The parts of a tokenizer.json that tokenizer.ggml.pre stands for.
struct PreTokenizer {
  Json pre_tokenizer;
  Json normalizer;             // null if there is none
  bool ignore_merges = false;  // a word that is a piece is taken whole
  bool add_bos = false;        // what the family does if the file does not say
};
// Nothing if the name is not known.
std::optional<PreTokenizer> FindPreTokenizer(std::string_view name);

}  // namespace hone::formats::internal
