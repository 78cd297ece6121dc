// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/litertlm/litertlm.h"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/text.h"
#include "formats/foreign_file.h"
#include "formats/litertlm/header_value.h"
#include "formats/litertlm/read_header.h"
#include "litertlm_header_generated.h"

namespace hone::formats::litertlm {
namespace {

constexpr std::string_view kMagic = "LITERTLM";
constexpr std::uint64_t kHeaderBegin = 32;
constexpr std::uint64_t kMaxHeaderBytes = 16ULL << 20;
constexpr std::uint32_t kMinorVersion = 7;
constexpr flatbuffers::uoffset_t kMaxDepth = 16;
constexpr flatbuffers::uoffset_t kMaxTables = 100'000;

Status Damaged(std::string text) { return Status(Code::kDataLoss, std::move(text)); }

// What a file without the magic is, in words.
std::string DescribeStranger(ByteSpan bytes) {
  const std::string_view text = AsText(bytes);
  if (text.empty()) return "the file is empty";
  if (text.size() >= 8 && text.substr(4, 4) == "TFL3") {
    return "this is a bare TFLite model, not a bundle";
  }
  if (text.starts_with("PK\x03\x04")) {
    return "this is a zip archive (.task?), not a .litertlm bundle";
  }
  if (kMagic.starts_with(text)) {
    return StrCat("the file is cut off: it has ", bytes.size(), " bytes");
  }
  if (const std::string what = DescribeForeignFile(bytes); !what.empty()) {
    return StrCat("not a .litertlm bundle: ", what);
  }
  std::string found;
  for (const char c : text.substr(0, kMagic.size()))
    found += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return StrCat("not a .litertlm bundle: it begins with '", found, "', '", kMagic, "' is expected");
}

std::string SectionText(std::size_t index, SectionType type) {
  return StrCat("section ", index, " (", SectionTypeName(type), ")");
}

void Warn(std::vector<std::string>* warnings, std::string text) {
  if (warnings) warnings->push_back(std::move(text));
}

// Checks magic, version and header end, and returns the FlatBuffer, copied to aligned memory.
Result<std::vector<std::uint64_t>> ReadTables(ByteSpan file, Header& header,
                                              std::uint64_t* header_end,
                                              std::vector<std::string>* warnings) {
  if (!AsText(file).starts_with(kMagic)) return Damaged(DescribeStranger(file));
  if (file.size() < kHeaderBegin) {
    return Damaged(StrCat("the file is cut off: it has ", file.size(), " bytes, the header alone ",
                          "needs more than ", kHeaderBegin));
  }
  header.major = *ReadLe<std::uint32_t>(file, 8);
  header.minor = *ReadLe<std::uint32_t>(file, 12);
  header.patch = *ReadLe<std::uint32_t>(file, 16);
  if (header.major != 1) {
    return Status(Code::kUnsupported, StrCat("bundle version ", header.major, ".", header.minor,
                                             ".", header.patch, ", version 1 is supported"));
  }
  if (header.minor > kMinorVersion) {
    Warn(warnings, StrCat("bundle version 1.", header.minor, " is newer than 1.", kMinorVersion,
                          "; what is new in it is ignored"));
  }
  *header_end = *ReadLe<std::uint64_t>(file, 24);
  if (*header_end <= kHeaderBegin || *header_end > file.size()) {
    return Damaged(StrCat("the header ends at ", *header_end, ", but it begins at ", kHeaderBegin,
                          " and the file has ", file.size(), " bytes"));
  }
  const std::uint64_t size = *header_end - kHeaderBegin;
  if (size > kMaxHeaderBytes) {
    return Damaged(
        StrCat("the header has ", size, " bytes, at most ", kMaxHeaderBytes, " are accepted"));
  }
  if (*header_end > kSectionAlignment) {
    Warn(warnings, StrCat("the header ends at ", *header_end, ", LiteRT-LM reads only ",
                          kSectionAlignment, " bytes of it"));
  }
  std::vector<std::uint64_t> words((size + 7) / 8);
  std::memcpy(words.data(), file.data() + kHeaderBegin, size);
  return words;
}

std::vector<KeyValue> ReadItems(
    const flatbuffers::Vector<flatbuffers::Offset<fb::KeyValuePair>>* items, ByteSpan tables) {
  std::vector<KeyValue> out;
  if (!items) return out;
  for (const fb::KeyValuePair* item : *items) {
    KeyValue entry;
    entry.key = item->key()->str();
    entry.value_type = static_cast<std::uint8_t>(item->value_type());
    if (const fb::StringValue* text = item->value_as_StringValue()) {
      if (text->value()) entry.value = text->value()->str();
    } else if (item->value()) {
      const auto* place = static_cast<const std::byte*>(item->value());
      entry.value = ReadNumberValue(tables, static_cast<std::uint64_t>(place - tables.data()),
                                    entry.value_type);
    }
    out.push_back(std::move(entry));
  }
  return out;
}

// Tables may share strings, so a small header can unfold to a large one.
Status CheckUnfolded(const fb::LiteRTLMMetaData& root, std::uint64_t limit) {
  std::uint64_t bytes = 0;
  const auto add = [&bytes](const auto* items) {
    if (!items) return;
    for (const fb::KeyValuePair* item : *items) {
      const fb::StringValue* text = item->value_as_StringValue();
      bytes += sizeof(KeyValue) + item->key()->size();
      if (text && text->value()) bytes += text->value()->size();
    }
  };
  if (root.system_metadata()) add(root.system_metadata()->entries());
  if (root.section_metadata()) {
    for (const fb::SectionObject* object : *root.section_metadata()->objects()) {
      bytes += sizeof(Section);
      add(object->items());
      if (bytes > limit) break;
    }
  }
  if (bytes > limit) return Damaged("the header unfolds to far more than its own size");
  return {};
}

Status CheckSections(const Header& header, std::uint64_t header_end, std::uint64_t file_size,
                     std::vector<std::string>* warnings) {
  std::uint64_t previous_end = header_end;
  std::map<std::pair<SectionType, std::string>, std::size_t> first;  // of each type and model type
  for (std::size_t i = 0; i < header.sections.size(); ++i) {
    const Section& section = header.sections[i];
    const std::string text = SectionText(i, section.type);
    if (section.begin > section.end) {
      return Damaged(StrCat(text, ": begins at ", section.begin, " but ends at ", section.end));
    }
    if (section.end > file_size) {
      return Damaged(StrCat(text, ": ends at ", section.end, ", but the file has ", file_size,
                            " bytes; it is cut off, download or copy it again"));
    }
    if (section.begin < previous_end) {
      return Damaged(
          StrCat(text, ": begins at ", section.begin, ", inside what ends at ", previous_end));
    }
    previous_end = section.end;
    if (section.begin % kSectionAlignment != 0) {
      Warn(warnings, StrCat(text, ": begins at ", section.begin, ", not at a multiple of ",
                            kSectionAlignment));
    }
    if (section.begin == section.end) Warn(warnings, StrCat(text, ": is empty"));
    if (SectionTypeName(section.type).starts_with("section type")) {
      Warn(warnings, StrCat(text, ": unknown, it is skipped"));
    }
    if (section.type == SectionType::kGenericBinaryData) continue;
    const auto [same, is_new] =
        first.try_emplace({section.type, LowerCase(section.Item("model_type"))}, i);
    if (!is_new) {
      Warn(warnings,
           StrCat(text, ": there is one already, section ", same->second, "; the first is used"));
    }
  }
  return {};
}

using Items = flatbuffers::Vector<flatbuffers::Offset<fb::KeyValuePair>>;

Result<flatbuffers::Offset<Items>> WriteItems(flatbuffers::FlatBufferBuilder& fbb,
                                              const std::vector<KeyValue>& items) {
  std::vector<flatbuffers::Offset<fb::KeyValuePair>> out;
  for (const KeyValue& item : items) {
    const auto key = fbb.CreateString(item.key);
    flatbuffers::Offset<void> value = 0;
    if (item.value_type == static_cast<std::uint8_t>(fb::VData::StringValue)) {
      value = fb::CreateStringValue(fbb, fbb.CreateString(item.value)).Union();
    } else if (item.value_type != 0) {
      auto number = WriteNumberValue(fbb, item);
      if (!number.ok()) return std::move(number).status();
      value = *number;
    }
    fb::KeyValuePairBuilder pair(fbb);
    pair.add_key(key);
    if (!value.IsNull()) {
      pair.add_value_type(static_cast<fb::VData>(item.value_type));
      pair.add_value(value);
    }
    out.push_back(pair.Finish());
  }
  return fbb.CreateVector(out);
}

}  // namespace

std::string SectionTypeName(SectionType type) {
  static constexpr std::array<const char*, 12> kNames = {"NONE",
                                                         "GenericBinaryData",
                                                         "Deprecated",
                                                         "TFLiteModel",
                                                         "SP_Tokenizer",
                                                         "LlmMetadataProto",
                                                         "HF_Tokenizer_Zlib",
                                                         "TFLiteWeights",
                                                         "EmbeddingMetadataProto",
                                                         "ExecutorMetadataProto",
                                                         "TtsMetadataProto",
                                                         "AsrMetadataProto"};
  const auto number = static_cast<std::size_t>(type);
  if (number < kNames.size()) return kNames[number];
  return StrCat("section type ", number);
}

std::string_view Section::Item(std::string_view key) const {
  for (auto it = items.rbegin(); it != items.rend(); ++it) {
    if (it->key == key) return it->value;
  }
  return "";
}

namespace {

std::vector<std::byte> CopyStart(ByteSpan bytes) {
  const ByteSpan start = bytes.first(std::min<std::size_t>(bytes.size(), kHeaderBegin + 8));
  return {start.begin(), start.end()};
}

// What the header says, with the sections wherever they are.
Result<Header> ReadContents(ByteSpan file_bytes, std::uint64_t* header_end,
                            std::vector<std::string>* warnings) {
  Header header;
  HONE_ASSIGN(const std::vector<std::uint64_t> words,
              ReadTables(file_bytes, header, header_end, warnings));
  const std::size_t size = *header_end - kHeaderBegin;
  const ByteSpan tables = std::as_bytes(std::span(words)).first(size);
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(tables.data()), size,
                                 kMaxDepth, kMaxTables);
  if (!fb::VerifyLiteRTLMMetaDataBuffer(verifier)) {
    return Damaged(
        StrCat("the header's tables (bytes ", kHeaderBegin, " to ", *header_end, ") are damaged"));
  }
  const fb::LiteRTLMMetaData& root = *fb::GetLiteRTLMMetaData(tables.data());
  HONE_TRY(CheckUnfolded(root, (1ULL << 20) + 16 * size));
  if (root.system_metadata()) header.system = ReadItems(root.system_metadata()->entries(), tables);
  if (root.section_metadata()) {
    for (const fb::SectionObject* object : *root.section_metadata()->objects()) {
      Section section;
      section.type = static_cast<SectionType>(object->data_type());
      section.begin = object->begin_offset();
      section.end = object->end_offset();
      section.items = ReadItems(object->items(), tables);
      header.sections.push_back(std::move(section));
    }
  }
  return header;
}

}  // namespace

Result<Header> ReadHeader(ByteSpan file_bytes, std::uint64_t* header_end) {
  return ReadContents(file_bytes, header_end, nullptr);
}

Result<Header> ParseHeader(ByteSpan file_bytes, std::vector<std::string>* warnings) {
  std::uint64_t header_end = 0;
  HONE_ASSIGN(Header header, ReadContents(file_bytes, &header_end, warnings));
  HONE_TRY(CheckSections(header, header_end, file_bytes.size(), warnings));
  return header;
}

Result<std::vector<std::byte>> EncodeHeader(const Header& header) {
  flatbuffers::FlatBufferBuilder fbb;
  HONE_ASSIGN(const auto system_items, WriteItems(fbb, header.system));
  const auto system = fb::CreateSystemMetadata(fbb, system_items);
  std::vector<flatbuffers::Offset<fb::SectionObject>> objects;
  for (const Section& section : header.sections) {
    HONE_ASSIGN(const auto items, WriteItems(fbb, section.items));
    objects.push_back(fb::CreateSectionObject(fbb, items, section.begin, section.end,
                                              static_cast<std::uint8_t>(section.type)));
  }
  const auto sections = fb::CreateSectionMetadata(fbb, fbb.CreateVector(objects));
  fb::FinishLiteRTLMMetaDataBuffer(fbb, fb::CreateLiteRTLMMetaData(fbb, system, sections));
  const std::uint64_t end = kHeaderBegin + fbb.GetSize();
  if (end > kSectionAlignment) {
    return Status(Code::kUnsupported,
                  StrCat("the header would end at ", end, ", LiteRT-LM reads only ",
                         kSectionAlignment, " bytes; shorten the metadata"));
  }
  std::vector<std::byte> out(end);
  const auto put = [&out](std::size_t at, const void* data, std::size_t size) {
    std::memcpy(out.data() + at, data, size);
  };
  put(0, kMagic.data(), kMagic.size());
  put(8, &header.major, 4);
  put(12, &header.minor, 4);
  put(16, &header.patch, 4);
  put(24, &end, 8);
  put(kHeaderBegin, fbb.GetBufferPointer(), fbb.GetSize());
  return out;
}

Result<std::shared_ptr<const Bundle>> Bundle::Open(const std::string& path) {
  // An edit in place may end between the look at the file's size and the look at its header, which
  // then speaks of sections behind that size. Such a file is read again.
  constexpr int kTries = 8;
  for (int i = 1;; ++i) {
    HONE_ASSIGN(MappedFile map, MappedFile::Open(path));
    std::shared_ptr<Bundle> bundle(new Bundle());
    bundle->map_ = std::make_unique<MappedFile>(std::move(map));
    const ByteSpan bytes = bundle->map_->bytes();
    bundle->start_ = CopyStart(bytes);
    auto header = ParseHeader(bytes, &bundle->warnings_);
    if (header.ok()) {
      bundle->header_ = *std::move(header);
      return std::shared_ptr<const Bundle>(std::move(bundle));
    }
    std::error_code error;
    const bool changed =
        std::filesystem::file_size(path, error) != bytes.size() || bundle->HeaderChanged();
    if (error || !changed || i == kTries) return std::move(header).status().Context(path);
  }
}

bool Bundle::HeaderChanged() const { return CopyStart(map_->bytes()) != start_; }

ByteSpan Bundle::SectionBytes(const Section& section) const {
  // The header was checked against the map, but the caller may pass a section of another bundle.
  if (section.end < section.begin) return {};
  return SubSpan(map_->bytes(), section.begin, section.end - section.begin).value_or(ByteSpan());
}

const Section* Bundle::Find(SectionType type, std::string_view model_type) const {
  for (const Section& section : header_.sections) {
    if (section.type != type) continue;
    std::string_view found = section.Item("model_type");
    if (found.empty() && type == SectionType::kTfliteModel) found = "tf_lite_prefill_decode";
    if (model_type.empty() || LowerCase(found) == LowerCase(model_type)) return &section;
  }
  return nullptr;
}

}  // namespace hone::formats::litertlm
