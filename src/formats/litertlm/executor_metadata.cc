// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/litertlm/llm_metadata.h"
#include "formats/litertlm/proto_fields.h"

namespace hone::formats::litertlm {
namespace {

Status ReadStateBuffer(std::string_view bytes, StateBuffer& state) {
  return ReadFields(bytes, state.unknown, [&state](const Field& field, bool* used) -> Status {
    *used = true;
    std::string* const texts[] = {&state.prefill_input, &state.prefill_output, &state.decode_input,
                                  &state.decode_output};
    if (field.number >= 1 && field.number <= 4 && field.IsBytes(field.number)) {
      *texts[field.number - 1] = field.bytes;
    } else if (field.IsVarint(5)) {
      state.policy = field.Int32();
    } else if (field.IsVarint(6)) {
      state.type = static_cast<StateType>(field.Int32());
    } else if (field.IsVarint(7)) {
      state.sequence_axis = field.Int32();
    } else if (field.IsVarint(8)) {
      state.minimum_sequence_length = field.Int32();
    } else if (field.IsVarint(9)) {
      state.maximum_sequence_length = field.Int32();
    } else {
      *used = false;
    }
    return {};
  });
}

std::string WriteStateBuffer(const StateBuffer& state) {
  FieldList fields;
  const auto text = [&fields](std::uint32_t number, const std::string& value) {
    if (!value.empty()) fields.AddBytes(number, value);
  };
  const auto number = [&fields](std::uint32_t field, std::int32_t value) {
    if (value != 0) fields.AddInt32(field, value);
  };
  text(1, state.prefill_input);
  text(2, state.prefill_output);
  text(3, state.decode_input);
  text(4, state.decode_output);
  number(5, state.policy);
  number(6, static_cast<std::int32_t>(state.type));
  number(7, state.sequence_axis);
  number(8, state.minimum_sequence_length);
  number(9, state.maximum_sequence_length);
  fields.AddEncoded(state.unknown);
  return fields.Join();
}

Status ReadLlm(std::string_view bytes, ExecutorMetadata& metadata) {
  return ReadFields(bytes, metadata.unknown_llm,
                    [&metadata](const Field& field, bool* used) -> Status {
                      if (field.IsVarint(1)) {
                        *used = true;
                        metadata.max_history_size = field.Int32();
                      } else if (field.IsBytes(2)) {
                        *used = true;
                        return ReadStateBuffer(field.bytes, metadata.state_buffers.emplace_back());
                      }
                      return {};
                    });
}

}  // namespace

Result<ExecutorMetadata> ParseExecutorMetadata(ByteSpan bytes) {
  ExecutorMetadata metadata;
  HONE_TRY(ReadFields(AsText(bytes), metadata.unknown,
                      [&metadata](const Field& field, bool* used) -> Status {
                        *used = field.IsBytes(1) && !field.bytes.empty();
                        return *used ? ReadLlm(field.bytes, metadata) : Status();
                      })
               .Context("ExecutorMetadata"));
  return metadata;
}

Result<std::vector<AttentionMaskSettings>> ReadAttentionMasks(const ExecutorMetadata& metadata) {
  std::vector<AttentionMaskSettings> masks;
  std::string rest;
  const auto read_mask = [&](const Field& field, bool*) -> Status {
    AttentionMaskSettings& mask = masks.back();
    if (field.IsVarint(1)) mask.type = field.Int32();
    if (field.IsVarint(2)) mask.local = field.varint != 0;
    if (field.IsVarint(3)) mask.sliding_window = field.Int32();
    return {};
  };
  HONE_TRY(ReadFields(metadata.unknown_llm, rest, [&](const Field& field, bool*) -> Status {
             if (!field.IsBytes(3)) return {};
             masks.emplace_back();
             return ReadFields(field.bytes, rest, read_mask);
           }).Context("ExecutorMetadata"));
  return masks;
}

std::string EncodeExecutorMetadata(const ExecutorMetadata& metadata) {
  FieldList llm;
  if (metadata.max_history_size != 0) llm.AddInt32(1, metadata.max_history_size);
  for (const StateBuffer& state : metadata.state_buffers) {
    llm.AddBytes(2, WriteStateBuffer(state));
  }
  llm.AddEncoded(metadata.unknown_llm);
  const std::string body = llm.Join();
  FieldList fields;
  if (!body.empty()) fields.AddBytes(1, body);
  fields.AddEncoded(metadata.unknown);
  return fields.Join();
}

}  // namespace hone::formats::litertlm
