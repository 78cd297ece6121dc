// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Protobuf messages as a list of fields. Those that nobody asked for are kept as they are.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace hone::formats::litertlm {

struct Field {
  std::uint32_t number = 0;
  protozero::pbf_wire_type wire = protozero::pbf_wire_type::unknown;
  std::uint64_t varint = 0;  // if the wire type is varint
  float fixed32 = 0;         // if it is fixed32
  std::string_view bytes;    // if it is length_delimited
  std::string_view raw;      // tag and value

  bool IsVarint(std::uint32_t n) const {
    return number == n && wire == protozero::pbf_wire_type::varint;
  }
  bool IsFloat(std::uint32_t n) const {
    return number == n && wire == protozero::pbf_wire_type::fixed32;
  }
  bool IsBytes(std::uint32_t n) const {
    return number == n && wire == protozero::pbf_wire_type::length_delimited;
  }
  std::int32_t Int32() const { return static_cast<std::int32_t>(varint); }
};

// Calls use(field, &used), which returns a Status, for each field; what it does not use is appended
// to unknown. A field of another wire type than expected is therefore kept, as protobuf does.
template <typename Use>
Status ReadFields(std::string_view message, std::string& unknown, const Use& use) {
  try {
    protozero::pbf_reader reader(message.data(), message.size());
    while (true) {
      const char* begin = reader.data().data();
      if (!reader.next()) return {};
      Field field;
      field.number = reader.tag();
      field.wire = reader.wire_type();
      switch (field.wire) {
        case protozero::pbf_wire_type::varint:
          field.varint = reader.get_uint64();
          break;
        case protozero::pbf_wire_type::fixed32:
          field.fixed32 = reader.get_float();
          break;
        case protozero::pbf_wire_type::length_delimited: {
          const protozero::data_view view = reader.get_view();
          field.bytes = {view.data(), view.size()};
          break;
        }
        default:
          reader.skip();
      }
      field.raw = {begin, static_cast<std::size_t>(reader.data().data() - begin)};
      bool used = false;
      HONE_TRY(use(field, &used));
      if (!used) unknown.append(field.raw);
    }
  } catch (const protozero::exception& e) {
    return Status(Code::kDataLoss, StrCat("the message is damaged: ", e.what()));
  }
}

// Appends the numbers of a repeated int32 field, packed or not.
Status ReadInt32s(const Field& field, std::vector<std::int32_t>& out);

// Collects encoded fields and joins them in ascending order, as protobuf writes them.
class FieldList {
 public:
  void AddBytes(std::uint32_t number, std::string_view value);
  void AddInt32(std::uint32_t number, std::int32_t value);
  void AddBool(std::uint32_t number, bool value);
  void AddFloat(std::uint32_t number, float value);
  void AddPackedInt32s(std::uint32_t number, const std::vector<std::int32_t>& values);
  // Encoded fields, each sorted in by its number.
  void AddEncoded(std::string_view fields);
  std::string Join();

 private:
  std::vector<std::pair<std::uint32_t, std::string>> fields_;
};

}  // namespace hone::formats::litertlm
