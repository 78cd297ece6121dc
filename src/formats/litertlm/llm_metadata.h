// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// LlmMetadata and ExecutorMetadata protos as plain structs. Unknown fields survive a rewrite.
// Field numbers: docs/formats/litertlm.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"

namespace hone::formats::litertlm {

// Either ids or text.
struct TokenUnion {
  std::vector<std::int32_t> ids;
  std::string text;
  bool is_text = false;
  std::string unknown;  // other fields, encoded
};

enum class SamplerType : std::int32_t { kUnspecified = 0, kTopK = 1, kTopP = 2, kGreedy = 3 };
struct SamplerParameters {
  SamplerType type = SamplerType::kUnspecified;
  std::int32_t k = 0;
  float p = 0;
  float temperature = 0;
  std::optional<std::int32_t> seed;
  std::string unknown;  // other fields, encoded
};

struct Channel {
  std::string name, start, end;
  std::optional<bool> is_reasoning;
  std::string unknown;
};

struct LlmMetadata {
  std::optional<TokenUnion> start_token;
  std::vector<TokenUnion> stop_tokens;
  std::optional<SamplerParameters> sampler;
  std::int32_t max_num_tokens = 0;
  std::string model_type;  // "generic_model", "qwen3", ...; "" if absent, "field 99" if unknown
  std::string model_type_body;  // the encoded message of that type
  std::optional<std::string> jinja_prompt_template;
  std::vector<Channel> channels;
  std::vector<std::int32_t> suppress_tokens;
  std::optional<bool> supports_thinking, supports_function_calling;
  std::optional<TokenUnion> pad_token;
  std::optional<std::string> min_runtime_version;
  std::string prompt_templates;  // encoded PromptTemplates message, "" if absent
  std::string unknown;           // all other fields, encoded, in order
};

Result<LlmMetadata> ParseLlmMetadata(ByteSpan bytes);
std::string EncodeLlmMetadata(const LlmMetadata& metadata);  // fields in ascending order

enum class StateType : std::int32_t {
  kUnspecified = 0,
  kGlobalKey = 1,
  kGlobalValue = 2,
  kLocalKey = 3,
  kLocalValue = 4,
  kLinearAttention = 5,
};
struct StateBuffer {
  std::string prefill_input, prefill_output, decode_input, decode_output;
  std::int32_t policy = 0;
  StateType type = StateType::kUnspecified;
  std::int32_t sequence_axis = 0;
  std::int32_t minimum_sequence_length = 0;
  std::int32_t maximum_sequence_length = 0;
  std::string unknown;
};
struct ExecutorMetadata {
  std::int32_t max_history_size = 0;  // as litert-torch writes it: the context
  std::vector<StateBuffer> state_buffers;
  std::string unknown_llm;  // other fields of LlmExecutorMetadata, encoded
  std::string unknown;
};
Result<ExecutorMetadata> ParseExecutorMetadata(ByteSpan bytes);
// How the runtime fills a mask input: AttentionMaskSettings, which stay in unknown_llm.
struct AttentionMaskSettings {
  std::int32_t type = 0;  // 1: causal, others see forward too
  bool local = false;     // of the local mask
  std::int32_t sliding_window = 0;
};
Result<std::vector<AttentionMaskSettings>> ReadAttentionMasks(const ExecutorMetadata& metadata);
std::string EncodeExecutorMetadata(const ExecutorMetadata& metadata);

}  // namespace hone::formats::litertlm
