// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// GGUF version 2 and 3: metadata and tensors. See docs/formats/gguf.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/span_util.h"
#include "base/status.h"
#include "formats/hf_config/text_facts.h"

namespace hone::formats {

// Strings view the map. Integer types are widened to int64 (uint64 over int64 is refused).
struct GgufArray;
using GgufValue =
    std::variant<std::int64_t, double, bool, std::string_view, std::shared_ptr<GgufArray>>;
struct GgufArray {
  std::vector<std::int64_t> ints;
  std::vector<double> floats;
  std::vector<bool> bools;
  std::vector<std::string_view> strings;
};

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;           // ggml type number
  std::vector<std::int64_t> shape;  // outermost first: [rows, cols], the reverse of the file
  ByteSpan data;
};
// "Q4_1"; "type 99" if unknown.
std::string GgmlTypeName(std::uint32_t type);

class GgufFile {
 public:
  // Maps and checks the whole header: counts, strings, alignment, tensor ranges.
  static Result<std::shared_ptr<const GgufFile>> Open(const std::string& path);
  // For tests and fuzzing: bytes must outlive the result.
  static Result<std::shared_ptr<const GgufFile>> Parse(ByteSpan bytes, const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;
  const GgufValue* Find(std::string_view key) const;
  // Typed values. Errors name file, key, found and expected.
  Result<std::int64_t> GetInt(std::string_view key) const;
  Result<double> GetDouble(std::string_view key) const;
  Result<std::string_view> GetString(std::string_view key) const;
  Result<const GgufArray*> GetArray(std::string_view key) const;

 private:
  GgufFile() = default;
  std::string path_;
  std::shared_ptr<const MappedFile> map_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
};

// Tokenizer (as a generated tokenizer.json), template, special tokens. kUnsupported names a
// tokenizer model or pre-tokenizer that is not known: a silent default would change ids.
Result<TextFacts> ReadGgufText(const GgufFile& file);

}  // namespace hone::formats
