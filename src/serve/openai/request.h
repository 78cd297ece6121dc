// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Requests after reading: checked, and without the traces of a wire format.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"

namespace hone::serve::openai {

// An absent value means what the model recommends, or none.
struct SamplingFields {
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k;  // 0: off
  std::optional<double> presence_penalty, frequency_penalty, repetition_penalty;
  std::optional<std::int64_t> seed;  // absent: another one each time
  // Added to the logits. The ids are not negative; the reader of the model checks the vocabulary.
  std::map<std::int32_t, double> logit_bias;
};

enum class ThinkMode : std::uint8_t { kDefault, kOff, kOn };
struct Thinking {
  ThinkMode mode = ThinkMode::kDefault;
  std::optional<std::int64_t> budget_tokens;  // at least 1; then the channel is closed
  std::string field = {};  // that set the mode first: the one to name where it cannot be honoured
};

struct Tool {
  std::string name;
  std::string description;
  Json parameters;  // a JSON schema, an object; {"type": "object", "properties": {}} if absent
  bool strict = false;
};
enum class ToolMode : std::uint8_t { kNone, kAuto, kRequired, kNamed };

enum class FormatKind : std::uint8_t { kText, kJsonObject, kJsonSchema, kRegex, kGrammar };
// What the answer must match (the thinking and the calls of tools are free of it).
struct OutputFormat {
  FormatKind kind = FormatKind::kText;
  Json schema;       // kJsonSchema, and kJsonObject with a schema; an object
  std::string text;  // kRegex: the pattern. kGrammar: Lark
};

struct ChatInput {
  // As templates want them: roles system, user, assistant and tool; content absent, a string or a
  // list of {"type": "text", "text"}; arguments of calls as objects; reasoning_content of earlier
  // answers kept.
  Json::Array messages;
  // {"type": "function", "function": {...}} as given, for the template; empty: no tools.
  Json::Array tools_json;
  std::vector<Tool> tools;
  ToolMode tool_mode = ToolMode::kNone;  // kNone, also with tools: the model must not call
  std::string tool_name;                 // of kNamed; it is one of the tools
  bool parallel_tool_calls = true;
  OutputFormat format;
  Thinking thinking;
  // More variables for the template, without enable_thinking and without what the runtime sets.
  Json::Object template_kwargs;
  bool add_generation_prompt = true;
  std::string prediction;  // text that the answer probably repeats: a draft
};

// A prompt of a completion: text, or token ids (not empty, not negative).
using Prompt = std::variant<std::string, std::vector<std::int32_t>>;

// What a Backend generates.
struct GenerateRequest {
  std::string model;
  // A chat, or else one or more prompts.
  std::optional<ChatInput> chat;
  std::vector<Prompt> prompts;
  bool echo = false;   // of prompts
  std::int64_t n = 1;  // choices for each prompt
  // Absent: as many as the context holds. 0 is a real limit: nothing is generated, and the choice
  // ends with kLength.
  std::optional<std::int64_t> max_tokens;
  std::vector<std::string> stop;  // none is empty
  SamplingFields sampling;
  bool logprobs = false;
  std::int64_t top_logprobs = 0;  // candidates for each token

  std::int64_t NumPrompts() const { return chat ? 1 : static_cast<std::int64_t>(prompts.size()); }
  std::int64_t NumChoices() const { return NumPrompts() * n; }
};

// How the client wants to read the answer.
struct ReplyOptions {
  bool stream = false;
  bool include_usage = false;         // of a stream
  bool inline_thinking = false;       // thinking inside the content, between <think> and </think>
  std::vector<std::string> ignored;   // fields that a lenient server left out
  std::vector<std::string> warnings;  // fields that are honoured, but should be written otherwise
};

struct GenerateCall {
  GenerateRequest generate;
  ReplyOptions reply;
  // Of /v1/responses: members of the response object that repeat the request.
  Json::Object echo_members;
};

struct TokenizeRequest {
  std::string model;
  std::string text;
  bool add_special = false;   // BOS and what else the tokenizer adds
  bool parse_special = true;  // names of special tokens become these tokens
  bool with_pieces = false;
  std::vector<std::string> ignored = {};
};
struct DetokenizeRequest {
  std::string model;
  std::vector<std::int32_t> tokens;  // not negative
  std::vector<std::string> ignored = {};
};
struct RenderRequest {
  std::string model;
  ChatInput chat;
  std::vector<std::string> ignored, warnings;
};

}  // namespace hone::serve::openai
