// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Which tokens end an answer. One rule for the exporter and the runtime.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bridge/chat_template.h"
#include "bridge/tokenizer.h"

namespace hone::bridge {

struct StopToken {
  std::int32_t id = 0;
  std::string text;    // its piece; "" if the tokenizer has none
  std::string kept;    // what stands before the stop text in a fused token: "." of ".<|im_end|>\n"
  std::string reason;  // "eos id of the configuration", "written after an answer by the template"
};

struct StopTokens {
  std::vector<StopToken> tokens;   // each id once, in the order of the sources below
  std::vector<std::string> notes;  // an id that cannot be one, a template that could not be probed
};

// What a source says about the end of text; see formats::TextFacts.
struct StopSources {
  std::span<const std::int64_t> eos_ids = {};
  std::span<const std::string> eos_strings = {};
  std::string_view bos_token = {}, eos_token = {}, pad_token = {}, unk_token = {};  // "": absent
};

// The eos ids, the eos strings and the tokenizer's eos token, united; then the special token that
// the template writes after an assistant's content (found by rendering a probe), and every added
// token, special or not, whose text contains that token's text. chat_template may be null.
StopTokens FindStopTokens(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                          const StopSources& sources);

// The text in front of the earliest stop text inside token_text: "." of ".<|im_end|>\n" for the
// stop text "<|im_end|>". Empty if none is inside, or one begins it.
std::string TextBeforeStop(std::string_view token_text, std::span<const std::string> stop_texts);

}  // namespace hone::bridge
