// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The .litertlm container: header and sections. See docs/formats/litertlm.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/span_util.h"
#include "base/status.h"

namespace hone::formats::litertlm {

enum class SectionType : std::uint8_t {
  kNone = 0,
  kGenericBinaryData = 1,
  kDeprecated = 2,
  kTfliteModel = 3,
  kSpTokenizer = 4,
  kLlmMetadata = 5,
  kHfTokenizerZlib = 6,
  kTfliteWeights = 7,
  kEmbeddingMetadata = 8,
  kExecutorMetadata = 9,
  kTtsMetadata = 10,
  kAsrMetadata = 11,
};
std::string SectionTypeName(SectionType type);  // "TFLiteModel", "section type 42"

// A header value; only strings matter to a reader today, numbers are kept as they are.
struct KeyValue {
  std::string key;
  std::string value;            // text of the value
  std::uint8_t value_type = 9;  // VData number: 9 StringValue
};

struct Section {
  SectionType type = SectionType::kNone;
  std::vector<KeyValue> items;
  std::uint64_t begin = 0, end = 0;  // file offsets
  // The value of a key, last wins; "" if absent.
  std::string_view Item(std::string_view key) const;
};

struct Header {
  std::uint32_t major = 1, minor = 7, patch = 0;
  std::vector<KeyValue> system;
  std::vector<Section> sections;
};

// Parses and checks the header against the size of the file: magic, version, header end, every
// section inside the file, in order, no overlap. Unknown section types are kept. A Git LFS pointer,
// a web page and a truncated file are named as what they are. Warnings (a newer minor version, an
// unaligned begin) are appended to warnings if it is not null.
Result<Header> ParseHeader(ByteSpan file_bytes, std::vector<std::string>* warnings);

// The first block of a file for sections whose begin and end are set: magic to the end of the
// header, not padded. kUnsupported if it does not fit in 16 KiB.
Result<std::vector<std::byte>> EncodeHeader(const Header& header);

inline constexpr std::uint64_t kSectionAlignment = 16384;

// An open bundle. Read-only and thread-safe.
class Bundle {
 public:
  static Result<std::shared_ptr<const Bundle>> Open(const std::string& path);
  const Header& header() const { return header_; }
  const std::string& path() const { return map_->path(); }
  const MappedFile& map() const { return *map_; }
  // An edit in place has switched to another header since this was opened.
  bool HeaderChanged() const;
  ByteSpan SectionBytes(const Section& section) const;
  // The first section of a type; model_type ("tf_lite_embedder", case ignored) narrows it, and a
  // TFLiteModel without model_type counts as tf_lite_prefill_decode. Null if there is none.
  const Section* Find(SectionType type, std::string_view model_type = "") const;
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Bundle() = default;
  std::unique_ptr<MappedFile> map_;
  std::vector<std::byte> start_;  // the bytes before the tables, and where their root is
  Header header_;
  std::vector<std::string> warnings_;
};

// HF_Tokenizer_Zlib sections: 8-byte little-endian raw size, then a zlib stream.
// Refuses a declared size over max_bytes and a stream that does not match it.
Result<std::string> InflateTokenizer(ByteSpan section, std::uint64_t max_bytes = 256ULL << 20);
// Deterministic (level 9).
std::vector<std::byte> DeflateTokenizer(std::string_view tokenizer_json);

}  // namespace hone::formats::litertlm
