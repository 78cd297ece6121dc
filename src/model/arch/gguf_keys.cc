// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/arch/gguf_keys.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace hone::model {

bool GgufKeys::Has(std::string_view name) {
  read_.emplace(name);
  return file_.Find(Full(name)) != nullptr;
}

Result<std::int64_t> GgufKeys::Dimension(std::string_view name, std::int64_t max) {
  read_.emplace(name);
  HONE_ASSIGN(const std::int64_t value, file_.GetInt(Full(name)));
  if (value < 1 || value > max) {
    return Status(Code::kDataLoss,
                  StrCat("key ", Full(name), " is ", value, ", expected 1 to ", max));
  }
  return value;
}

Result<std::int64_t> GgufKeys::DimensionOr(std::string_view name, std::int64_t fallback) {
  if (!Has(name)) return fallback;
  return Dimension(name);
}

Result<double> GgufKeys::Positive(std::string_view name) {
  read_.emplace(name);
  HONE_ASSIGN(const double value, file_.GetDouble(Full(name)));
  if (!(value > 0) || !std::isfinite(value)) {
    return Status(Code::kDataLoss,
                  StrCat("key ", Full(name), " is ", value, ", expected a number over 0"));
  }
  return value;
}

Result<double> GgufKeys::PositiveOr(std::string_view name, double fallback) {
  if (!Has(name)) return fallback;
  return Positive(name);
}

Result<std::string> GgufKeys::TextOr(std::string_view name) {
  if (!Has(name)) return std::string();
  HONE_ASSIGN(const std::string_view text, file_.GetString(Full(name)));
  return std::string(text);
}

Status GgufKeys::RefuseOthers() const {
  constexpr std::string_view kHarmless[] = {"vocab_size",
                                            "tensor_data_layout",
                                            "rope.scaling.finetuned",
                                            "rope.scaling.original_context_length",
                                            "rope.scaling.yarn_beta_fast",
                                            "rope.scaling.yarn_beta_slow"};
  for (const auto& [key, value] : file_.metadata()) {
    if (!key.starts_with(prefix_ + ".")) continue;
    const std::string name = key.substr(prefix_.size() + 1);
    if (read_.contains(name) ||
        std::find(std::begin(kHarmless), std::end(kHarmless), name) != std::end(kHarmless)) {
      continue;
    }
    const auto* as_int = std::get_if<std::int64_t>(&value);
    const auto* as_double = std::get_if<double>(&value);
    const auto* as_bool = std::get_if<bool>(&value);
    const bool is_one = as_double != nullptr && *as_double == 1;
    if (name == "rope.scaling.attn_factor" && is_one) continue;
    const bool off = (as_int != nullptr && *as_int == 0) ||
                     (as_double != nullptr && *as_double == 0) || (as_bool != nullptr && !*as_bool);
    if (!off) {
      return Status(Code::kUnsupported, StrCat("key ", key,
                                               " is not known for this architecture "
                                               "and may change the numbers"));
    }
  }
  return Status();
}

}  // namespace hone::model
