// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/litertlm/header_value.h"

#include <array>
#include <charconv>

namespace hone::formats::litertlm {
namespace {

constexpr flatbuffers::voffset_t kFirstField = 4;

// Calls visit with a zero of the C++ type of a VData number; false if it is not a number.
template <typename Visit>
bool VisitType(std::uint8_t value_type, const Visit& visit) {
  switch (value_type) {
    case 1:
      visit(std::uint8_t{});
      return true;
    case 2:
      visit(std::int8_t{});
      return true;
    case 3:
      visit(std::uint16_t{});
      return true;
    case 4:
      visit(std::int16_t{});
      return true;
    case 5:
      visit(std::uint32_t{});
      return true;
    case 6:
      visit(std::int32_t{});
      return true;
    case 7:
      visit(float{});
      return true;
    case 8:
      visit(bool{});
      return true;
    case 10:
      visit(std::uint64_t{});
      return true;
    case 11:
      visit(std::int64_t{});
      return true;
    case 12:
      visit(double{});
      return true;
    default:
      return false;
  }
}

// Where the one field of a table lies; nothing if this place does not look like such a table.
// elided is set if the table leaves the field out, because it is zero.
std::optional<std::uint64_t> FieldOfTable(ByteSpan tables, std::uint64_t at, std::size_t width,
                                          bool* elided) {
  const auto back = ReadLe<std::int32_t>(tables, at);
  if (!back) return std::nullopt;
  const std::int64_t vtable = static_cast<std::int64_t>(at) - *back;
  if (vtable < 0 || vtable % 2 != 0) return std::nullopt;
  const auto place = static_cast<std::uint64_t>(vtable);
  const auto vtable_bytes = ReadLe<std::uint16_t>(tables, place);
  const auto table_bytes = ReadLe<std::uint16_t>(tables, place + 2);
  if (!vtable_bytes || !table_bytes) return std::nullopt;
  *elided = *vtable_bytes == 4 && *table_bytes == 4;
  if (*elided) return at;
  const auto field = ReadLe<std::uint16_t>(tables, place + 4);
  if (*vtable_bytes != 6 || !field || *field < 4 || *field + width > *table_bytes ||
      *table_bytes > 16) {
    return std::nullopt;
  }
  return at + *field;
}

template <typename N>
std::string NumberText(N value) {
  if constexpr (std::is_same_v<N, bool>) {
    return value ? "true" : "false";
  } else {
    std::array<char, 40> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
  }
}

}  // namespace

std::string ReadNumberValue(ByteSpan tables, std::uint64_t at, std::uint8_t value_type) {
  std::string out;
  VisitType(value_type, [&]<typename N>(N zero) {
    bool elided = false;
    const auto field = FieldOfTable(tables, at, sizeof(N), &elided);
    if (elided) {
      out = NumberText(zero);
    } else if constexpr (std::is_same_v<N, bool>) {
      // Not read as a bool, which may only hold 0 or 1.
      const auto value = ReadLe<std::uint8_t>(tables, field.value_or(at));
      if (value) out = NumberText(*value != 0);
    } else {
      const auto value = ReadLe<N>(tables, field.value_or(at));
      if (value) out = NumberText(*value);
    }
  });
  return out;
}

Result<flatbuffers::Offset<void>> WriteNumberValue(flatbuffers::FlatBufferBuilder& fbb,
                                                   const KeyValue& item) {
  flatbuffers::Offset<void> out = 0;
  bool parsed = false;
  const bool is_number = VisitType(item.value_type, [&]<typename N>(N value) {
    if constexpr (std::is_same_v<N, bool>) {
      parsed = item.value == "true" || item.value == "false";
      value = item.value == "true";
    } else {
      const char* end = item.value.data() + item.value.size();
      const auto result = std::from_chars(item.value.data(), end, value);
      parsed = result.ec == std::errc() && result.ptr == end;
    }
    const auto start = fbb.StartTable();
    // A bool is stored as a byte.
    using Stored = std::conditional_t<std::is_same_v<N, bool>, std::uint8_t, N>;
    fbb.AddElement<Stored>(kFirstField, static_cast<Stored>(value), Stored{});
    out = flatbuffers::Offset<void>(fbb.EndTable(start));
  });
  if (!is_number || !parsed) {
    return Status(Code::kInvalidArgument,
                  StrCat("metadata '", item.key, "': '", item.value, "' is not a value of type ",
                         static_cast<int>(item.value_type)));
  }
  return out;
}

}  // namespace hone::formats::litertlm
