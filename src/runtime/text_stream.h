// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Generated ids become text: whole UTF-8, special tokens hidden, stop strings found and left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bridge/tokenizer.h"

namespace hone::runtime {

// One thread at a time. The tokenizer must outlive it.
class TextStream {
 public:
  using Sink = std::function<void(std::string_view text)>;

  // tokenizer may be null: nothing becomes text then. sink receives text as soon as it is certain;
  // it may be empty. shown: special tokens that are not hidden although skip_special is true.
  TextStream(const bridge::Tokenizer* tokenizer, bool skip_special,
             std::vector<std::string> stop_strings, Sink sink,
             const std::set<std::int32_t>& shown = {});

  // The next token. True if a stop string is complete: its text, and what follows, is left out.
  Result<bool> Push(std::int32_t id);
  // No more tokens: what was held back is text after all (nothing is after a stop string), then
  // extra.
  Status Finish(std::string_view extra = "");
  // Everything the sink has received.
  const std::string& text() const { return text_; }

 private:
  // Where the earliest stop string begins, or (not found) where one may begin that is not complete.
  struct Match {
    bool found;
    std::size_t begin;
  };
  Match MatchStops(std::string_view text) const;
  // Adds text that a reader sees, or that only stop strings see. True if a stop string is complete.
  bool Append(std::string_view part, bool visible);
  void Release(std::size_t bytes);

  const bridge::Tokenizer* tokenizer_;
  std::vector<std::string> stop_strings_;
  Sink sink_;
  std::optional<bridge::StreamDecoder> decoder_;
  std::set<std::int32_t> hidden_ids_;
  // Held back because it may begin a stop string; visible_ says which bytes are for the reader.
  std::string held_;
  std::vector<bool> visible_;
  std::string text_;
  bool stopped_ = false;  // a stop string was complete
};

}  // namespace hone::runtime
