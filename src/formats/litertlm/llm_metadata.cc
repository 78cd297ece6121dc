// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/litertlm/llm_metadata.h"

#include "base/check.h"
#include "formats/litertlm/proto_fields.h"

namespace hone::formats::litertlm {
namespace {

// Field numbers of LlmMetadata.
enum : std::uint32_t {
  kStartToken = 1,
  kStopTokens = 2,
  kPromptTemplates = 3,
  kSamplerParams = 4,
  kMaxNumTokens = 5,
  kLlmModelType = 6,
  kJinjaPromptTemplate = 7,
  kChannels = 8,
  kSuppressTokens = 9,
  kSupportsThinking = 11,
  kSupportsFunctionCalling = 12,
  kPadToken = 13,
  kMinRuntimeVersion = 14,
};

struct ModelType {
  std::uint32_t number;
  const char* name;
};
constexpr ModelType kModelTypes[] = {
    {1, "generic_model"}, {2, "gemma3n"},   {3, "function_gemma"}, {4, "gemma3"},
    {5, "qwen3"},         {6, "qwen2p5"},   {7, "gemma4"},         {8, "fast_vlm"},
    {11, "lfm2"},         {12, "minicpm5"}, {13, "minicpmv4"},
};
constexpr std::string_view kUnknownModelType = "field ";

Status ReadTokenUnion(std::string_view bytes, TokenUnion& token) {
  return ReadFields(bytes, token.unknown, [&token](const Field& field, bool* used) -> Status {
    if (field.IsBytes(1)) {
      *used = true;
      std::string other;
      token.is_text = false;
      token.ids.clear();
      token.text.clear();
      return ReadFields(field.bytes, other, [&token](const Field& id, bool* id_used) -> Status {
        *id_used = id.IsVarint(1) || id.IsBytes(1);
        return *id_used ? ReadInt32s(id, token.ids) : Status();
      });
    }
    if (field.IsBytes(2)) {
      *used = true;
      token.is_text = true;
      token.ids.clear();
      token.text = field.bytes;
    }
    return {};
  });
}

std::string WriteTokenIds(const std::vector<std::int32_t>& ids) {
  FieldList fields;
  if (!ids.empty()) fields.AddPackedInt32s(1, ids);
  return fields.Join();
}

std::string WriteTokenUnion(const TokenUnion& token) {
  FieldList fields;
  if (token.is_text) {
    fields.AddBytes(2, token.text);
  } else if (!token.ids.empty()) {
    fields.AddBytes(1, WriteTokenIds(token.ids));
  }
  fields.AddEncoded(token.unknown);
  return fields.Join();
}

Status ReadSampler(std::string_view bytes, SamplerParameters& sampler) {
  return ReadFields(bytes, sampler.unknown, [&sampler](const Field& field, bool* used) -> Status {
    *used = true;
    if (field.IsVarint(1)) {
      sampler.type = static_cast<SamplerType>(field.Int32());
    } else if (field.IsVarint(2)) {
      sampler.k = field.Int32();
    } else if (field.IsFloat(3)) {
      sampler.p = field.fixed32;
    } else if (field.IsFloat(4)) {
      sampler.temperature = field.fixed32;
    } else if (field.IsVarint(5)) {
      sampler.seed = field.Int32();
    } else {
      *used = false;
    }
    return {};
  });
}

std::string WriteSampler(const SamplerParameters& sampler) {
  FieldList fields;
  const auto type = static_cast<std::int32_t>(sampler.type);
  if (type != 0) fields.AddInt32(1, type);
  if (sampler.k != 0) fields.AddInt32(2, sampler.k);
  if (sampler.p != 0) fields.AddFloat(3, sampler.p);
  if (sampler.temperature != 0) fields.AddFloat(4, sampler.temperature);
  if (sampler.seed) fields.AddInt32(5, *sampler.seed);
  fields.AddEncoded(sampler.unknown);
  return fields.Join();
}

Status ReadChannel(std::string_view bytes, Channel& channel) {
  return ReadFields(bytes, channel.unknown, [&channel](const Field& field, bool* used) -> Status {
    *used = true;
    if (field.IsBytes(1)) {
      channel.name = field.bytes;
    } else if (field.IsBytes(2)) {
      channel.start = field.bytes;
    } else if (field.IsBytes(3)) {
      channel.end = field.bytes;
    } else if (field.IsVarint(4)) {
      channel.is_reasoning = field.varint != 0;
    } else {
      *used = false;
    }
    return {};
  });
}

std::string WriteChannel(const Channel& channel) {
  FieldList fields;
  if (!channel.name.empty()) fields.AddBytes(1, channel.name);
  if (!channel.start.empty()) fields.AddBytes(2, channel.start);
  if (!channel.end.empty()) fields.AddBytes(3, channel.end);
  if (channel.is_reasoning) fields.AddBool(4, *channel.is_reasoning);
  fields.AddEncoded(channel.unknown);
  return fields.Join();
}

// LlmModelType is one of several messages; only which one, and its bytes, are kept.
Status ReadModelType(std::string_view bytes, LlmMetadata& metadata) {
  std::string other;
  return ReadFields(bytes, other, [&metadata](const Field& field, bool* used) -> Status {
    if (!field.IsBytes(field.number)) return {};
    *used = true;
    metadata.model_type = StrCat(kUnknownModelType, field.number);
    for (const ModelType& type : kModelTypes) {
      if (type.number == field.number) metadata.model_type = type.name;
    }
    metadata.model_type_body = field.bytes;
    return {};
  });
}

std::string WriteModelType(const LlmMetadata& metadata) {
  std::uint32_t number = 0;
  for (const ModelType& type : kModelTypes) {
    if (metadata.model_type == type.name) number = type.number;
  }
  if (metadata.model_type.starts_with(kUnknownModelType)) {
    for (const char c : metadata.model_type.substr(kUnknownModelType.size())) {
      number = number * 10 + static_cast<std::uint32_t>(c - '0');
    }
  }
  HONE_CHECK(number != 0);  // Readers give only names of the table and "field N".
  FieldList fields;
  fields.AddBytes(number, metadata.model_type_body);
  return fields.Join();
}

Status ReadSuppressTokens(const Field& field, LlmMetadata& metadata, bool* used) {
  std::string other;
  std::vector<std::int32_t> ids;
  HONE_TRY(ReadFields(field.bytes, other, [&ids](const Field& id, bool* id_used) -> Status {
    *id_used = id.IsVarint(1) || id.IsBytes(1);
    return *id_used ? ReadInt32s(id, ids) : Status();
  }));
  *used = !ids.empty();
  if (*used) metadata.suppress_tokens = std::move(ids);
  return {};
}

// Messages and lists that are present but empty are left to the unknown fields, which keep them.
Status UseField(const Field& field, LlmMetadata& m, bool* used) {
  *used = true;
  if (field.IsBytes(kStartToken)) return ReadTokenUnion(field.bytes, m.start_token.emplace());
  if (field.IsBytes(kStopTokens)) return ReadTokenUnion(field.bytes, m.stop_tokens.emplace_back());
  if (field.IsBytes(kSamplerParams)) return ReadSampler(field.bytes, m.sampler.emplace());
  if (field.IsBytes(kChannels)) return ReadChannel(field.bytes, m.channels.emplace_back());
  if (field.IsBytes(kPadToken)) return ReadTokenUnion(field.bytes, m.pad_token.emplace());
  if (field.IsBytes(kSuppressTokens)) return ReadSuppressTokens(field, m, used);
  if (field.IsBytes(kPromptTemplates)) {
    m.prompt_templates = field.bytes;
    *used = !field.bytes.empty();
  } else if (field.IsBytes(kLlmModelType)) {
    HONE_TRY(ReadModelType(field.bytes, m));
    *used = !m.model_type.empty();
  } else if (field.IsVarint(kMaxNumTokens)) {
    m.max_num_tokens = field.Int32();
  } else if (field.IsBytes(kJinjaPromptTemplate)) {
    m.jinja_prompt_template = field.bytes;
  } else if (field.IsVarint(kSupportsThinking)) {
    m.supports_thinking = field.varint != 0;
  } else if (field.IsVarint(kSupportsFunctionCalling)) {
    m.supports_function_calling = field.varint != 0;
  } else if (field.IsBytes(kMinRuntimeVersion)) {
    m.min_runtime_version = field.bytes;
  } else {
    *used = false;
  }
  return {};
}

}  // namespace

Result<LlmMetadata> ParseLlmMetadata(ByteSpan bytes) {
  LlmMetadata metadata;
  HONE_TRY(
      ReadFields(AsText(bytes), metadata.unknown,
                 [&metadata](const Field& field, bool* used) -> Status {
                   return UseField(field, metadata, used).Context(StrCat("field ", field.number));
                 })
          .Context("LlmMetadata"));
  return metadata;
}

std::string EncodeLlmMetadata(const LlmMetadata& m) {
  FieldList fields;
  if (m.start_token) fields.AddBytes(kStartToken, WriteTokenUnion(*m.start_token));
  for (const TokenUnion& token : m.stop_tokens) {
    fields.AddBytes(kStopTokens, WriteTokenUnion(token));
  }
  if (!m.prompt_templates.empty()) fields.AddBytes(kPromptTemplates, m.prompt_templates);
  if (m.sampler) fields.AddBytes(kSamplerParams, WriteSampler(*m.sampler));
  if (m.max_num_tokens != 0) fields.AddInt32(kMaxNumTokens, m.max_num_tokens);
  if (!m.model_type.empty()) fields.AddBytes(kLlmModelType, WriteModelType(m));
  if (m.jinja_prompt_template) fields.AddBytes(kJinjaPromptTemplate, *m.jinja_prompt_template);
  for (const Channel& channel : m.channels) fields.AddBytes(kChannels, WriteChannel(channel));
  if (!m.suppress_tokens.empty()) {
    fields.AddBytes(kSuppressTokens, WriteTokenIds(m.suppress_tokens));
  }
  if (m.supports_thinking) fields.AddBool(kSupportsThinking, *m.supports_thinking);
  if (m.supports_function_calling) {
    fields.AddBool(kSupportsFunctionCalling, *m.supports_function_calling);
  }
  if (m.pad_token) fields.AddBytes(kPadToken, WriteTokenUnion(*m.pad_token));
  if (m.min_runtime_version) fields.AddBytes(kMinRuntimeVersion, *m.min_runtime_version);
  fields.AddEncoded(m.unknown);
  return fields.Join();
}

}  // namespace hone::formats::litertlm
