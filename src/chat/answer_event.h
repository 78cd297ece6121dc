// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What one answer consists of, while it is generated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hone::chat {

// A token that could have been chosen.
struct TokenCandidate {
  std::int32_t id = 0;
  std::string bytes = {};  // maybe a part of a character
  double logprob = 0;      // natural logarithm; minus infinity is allowed
};
// A token of an answer or of a prompt.
struct TokenScore {
  std::int32_t id = 0;
  std::string bytes = {};
  std::optional<double> logprob = {};    // absent for the first token of a prompt
  std::vector<TokenCandidate> top = {};  // the likeliest first, with or without the token itself
};

// Text of the answer: whole UTF-8 characters, after stop strings were found and cut off.
struct ContentDelta {
  std::string text = {};
  // If log-probabilities were asked for: the tokens that became certain with this text, in order.
  // All deltas of an answer together have each token of the content once; text may be empty while a
  // character or a possible stop string is open.
  std::vector<TokenScore> tokens = {};
};
// Text of the thinking channel, without its marks.
struct ThinkingDelta {
  std::string text = {};
};
// A call of a tool: Begin, pieces of the arguments as JSON text, End. One call after the other.
struct ToolCallBegin {
  std::string name = {};
};
struct ToolCallArguments {
  std::string text = {};
};
struct ToolCallEnd {};

enum class AnswerEndReason : std::uint8_t {
  kStop,       // stop token, stop string, or the calls of tools are complete
  kLength,     // max_tokens, or the context is full
  kCancelled,  // by the host
  kError,      // Answer::error has it
};
// The last event.
struct AnswerEnd {
  AnswerEndReason reason = AnswerEndReason::kStop;
};

using AnswerEvent = std::variant<ContentDelta, ThinkingDelta, ToolCallBegin, ToolCallArguments,
                                 ToolCallEnd, AnswerEnd>;

}  // namespace hone::chat
