// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Reads the keys "<architecture>.<name>" of a GGUF file and knows which were read.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "formats/gguf/gguf.h"

namespace hone::model {

// Errors name the key; the file is added by the caller.
class GgufKeys {
 public:
  // file must outlive this.
  GgufKeys(const formats::GgufFile& file, std::string prefix)
      : file_(file), prefix_(std::move(prefix)) {}

  const formats::GgufFile& file() const { return file_; }
  std::string Full(std::string_view name) const { return StrCat(prefix_, ".", name); }
  // Counts as reading.
  bool Has(std::string_view name);

  // 1 to max.
  Result<std::int64_t> Dimension(std::string_view name, std::int64_t max = std::int64_t{1} << 24);
  Result<std::int64_t> DimensionOr(std::string_view name, std::int64_t fallback);
  // A finite number over 0.
  Result<double> Positive(std::string_view name);
  Result<double> PositiveOr(std::string_view name, double fallback);
  // "" if the key is absent.
  Result<std::string> TextOr(std::string_view name);

  // Refuses every key that was not read, is not off and may change the numbers.
  Status RefuseOthers() const;

 private:
  const formats::GgufFile& file_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace hone::model
