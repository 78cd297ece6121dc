// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/litertlm/proto_fields.h"

#include <algorithm>
#include <protozero/varint.hpp>

namespace hone::formats::litertlm {

Status ReadInt32s(const Field& field, std::vector<std::int32_t>& out) {
  if (field.wire == protozero::pbf_wire_type::varint) {
    out.push_back(field.Int32());
    return {};
  }
  try {
    const char* at = field.bytes.data();
    const char* end = at + field.bytes.size();
    while (at != end) {
      out.push_back(static_cast<std::int32_t>(protozero::decode_varint(&at, end)));
    }
    return {};
  } catch (const protozero::exception& e) {
    return Status(Code::kDataLoss,
                  StrCat("the list of numbers in field ", field.number, " is damaged: ", e.what()));
  }
}

void FieldList::AddBytes(std::uint32_t number, std::string_view value) {
  std::string out;
  protozero::pbf_writer(out).add_bytes(number, value.data(), value.size());
  fields_.emplace_back(number, std::move(out));
}

void FieldList::AddInt32(std::uint32_t number, std::int32_t value) {
  std::string out;
  protozero::pbf_writer(out).add_int32(number, value);
  fields_.emplace_back(number, std::move(out));
}

void FieldList::AddBool(std::uint32_t number, bool value) {
  std::string out;
  protozero::pbf_writer(out).add_bool(number, value);
  fields_.emplace_back(number, std::move(out));
}

void FieldList::AddFloat(std::uint32_t number, float value) {
  std::string out;
  protozero::pbf_writer(out).add_float(number, value);
  fields_.emplace_back(number, std::move(out));
}

void FieldList::AddPackedInt32s(std::uint32_t number, const std::vector<std::int32_t>& values) {
  std::string out;
  protozero::pbf_writer(out).add_packed_int32(number, values.begin(), values.end());
  fields_.emplace_back(number, std::move(out));
}

void FieldList::AddEncoded(std::string_view fields) {
  std::string rest;
  const Status status = ReadFields(fields, rest, [this](const Field& field, bool* used) {
    *used = true;
    fields_.emplace_back(field.number, field.raw);
    return Status();
  });
  // Only fields that were read before come here, so this cannot fail.
  static_cast<void>(status);
}

std::string FieldList::Join() {
  std::stable_sort(fields_.begin(), fields_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string out;
  for (const auto& [number, bytes] : fields_) out += bytes;
  return out;
}

}  // namespace hone::formats::litertlm
