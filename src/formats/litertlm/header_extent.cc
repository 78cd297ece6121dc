// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/litertlm/header_extent.h"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "formats/litertlm/litertlm.h"
#include "litertlm_header_generated.h"

namespace hone::formats::litertlm {
namespace {

constexpr std::uint64_t kTablesBegin = 32;

class LowestAddress {
 public:
  void Add(const void* p) {
    if (p != nullptr) lowest_ = std::min(lowest_, static_cast<const std::uint8_t*>(p));
  }
  void AddTable(const flatbuffers::Table* table) {
    if (table == nullptr) return;
    Add(table);
    Add(table->GetVTable());
  }
  void AddItems(const flatbuffers::Vector<flatbuffers::Offset<fb::KeyValuePair>>* items) {
    Add(items);
    if (items == nullptr) return;
    for (const fb::KeyValuePair* item : *items) {
      AddTable(reinterpret_cast<const flatbuffers::Table*>(item));
      Add(item->key());
      const fb::StringValue* text = item->value_as_StringValue();
      if (text == nullptr) {
        // A number may be a bare struct or a table with a vtable anywhere.
        if (item->value() != nullptr) unknown_ = true;
        continue;
      }
      AddTable(reinterpret_cast<const flatbuffers::Table*>(text));
      Add(text->value());
    }
  }
  std::uint64_t Offset(const std::uint8_t* base) const {
    return unknown_ ? 0 : static_cast<std::uint64_t>(lowest_ - base);
  }

 private:
  const std::uint8_t* lowest_ = reinterpret_cast<const std::uint8_t*>(UINTPTR_MAX);
  bool unknown_ = false;
};

}  // namespace

Result<HeaderExtent> FindHeaderExtent(ByteSpan file_bytes) {
  HONE_ASSIGN(const Header header, ParseHeader(file_bytes, nullptr));
  static_cast<void>(header);  // Parsed for its checks: the tables are sound.
  HeaderExtent extent;
  extent.end = *ReadLe<std::uint64_t>(file_bytes, 24);
  const std::size_t size = extent.end - kTablesBegin;
  std::vector<std::uint64_t> words((size + 7) / 8);  // aligned
  std::memcpy(words.data(), file_bytes.data() + kTablesBegin, size);
  const auto* base = reinterpret_cast<const std::uint8_t*>(words.data());
  const fb::LiteRTLMMetaData* root = fb::GetLiteRTLMMetaData(base);
  LowestAddress lowest;
  lowest.AddTable(reinterpret_cast<const flatbuffers::Table*>(root));
  lowest.AddTable(reinterpret_cast<const flatbuffers::Table*>(root->system_metadata()));
  if (root->system_metadata() != nullptr) lowest.AddItems(root->system_metadata()->entries());
  lowest.AddTable(reinterpret_cast<const flatbuffers::Table*>(root->section_metadata()));
  if (root->section_metadata() != nullptr) {
    lowest.Add(root->section_metadata()->objects());
    for (const fb::SectionObject* object : *root->section_metadata()->objects()) {
      lowest.AddTable(reinterpret_cast<const flatbuffers::Table*>(object));
      lowest.AddItems(object->items());
    }
  }
  extent.live_begin = kTablesBegin + lowest.Offset(base);
  return extent;
}

}  // namespace hone::formats::litertlm
