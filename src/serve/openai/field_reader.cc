// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/field_reader.h"

#include <cmath>
#include <limits>
#include <utility>

#include "serve/openai/utf8.h"

namespace hone::serve::openai {
namespace {

// A lenient reader lists what it leaves out; a list without end would help nobody.
constexpr std::size_t kMaxIgnored = 100;

std::string NumberText(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? std::to_string(static_cast<std::int64_t>(value)) : Json(value).Dump();
}

}  // namespace

ApiResult<Json> ParseBody(std::string_view body, const ReadOptions& options) {
  if (body.empty()) return InvalidBody("the body is empty, expected a JSON object");
  auto parsed = ParseJson(body, {.max_depth = options.max_depth});
  if (!parsed.ok()) return InvalidBody(StrCat("the body is ", parsed.message()));
  if (!parsed->IsObject()) {
    return InvalidBody(StrCat("the body is ", parsed->TypeName(), ", expected a JSON object"));
  }
  return *std::move(parsed);
}

std::string Found(const Json& value) {
  if (value.IsNumber() || value.IsBool()) return value.Dump();
  if (!value.IsString()) return value.TypeName();
  return StrCat("the string ", Json(ShortText(value.AsString())).Dump());
}

std::string TablePath(std::string_view path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) out.push_back(c);
    if (c == '[') inside = true;
  }
  return out;
}

std::optional<std::int64_t> AsInteger(const Json& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: doubles over it are not exact
  if (value.IsInt()) return value.AsInt();
  if (!value.IsNumber()) return std::nullopt;
  const double number = value.AsDouble();
  if (number != std::floor(number) || std::abs(number) > kExact) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

ApiResult<std::int32_t> ReadTokenId(const Json& value, const std::string& path) {
  const auto id = AsInteger(value);
  if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max()) {
    return InvalidField(path, StrCat("found ", Found(value), ", expected a token id"));
  }
  return static_cast<std::int32_t>(*id);
}

ApiResult<std::vector<std::int32_t>> ReadTokenIds(const Json::Array& values,
                                                  const std::string& path) {
  std::vector<std::int32_t> ids;
  ids.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    HONE_ASSIGN(const std::int32_t id, ReadTokenId(values[i], StrCat(path, "[", i, "]")));
    ids.push_back(id);
  }
  return ids;
}

ApiResult<ObjectReader> ObjectReader::Open(ReadContext& context, const Json& value,
                                           std::string path) {
  if (!value.IsObject()) {
    return InvalidField(std::move(path), StrCat("found ", Found(value), ", expected an object"));
  }
  ObjectReader reader(context, value, std::move(path));
  HONE_TRY(reader.CheckMembers());
  return reader;
}

ApiStatus ObjectReader::CheckMembers() const {
  const std::string table_path = TablePath(path_);
  for (const auto& [key, value] : value_->AsObject()) {
    if (value.IsNull()) continue;
    const FieldRow* row =
        FindField(context_->endpoint, table_path.empty() ? key : StrCat(table_path, ".", key));
    const bool usable = row != nullptr && row->use != FieldUse::kRefused;
    if (usable || (row != nullptr && !row->only.empty() && value.Dump() == row->only)) continue;
    const bool too_many = context_->ignored.size() >= kMaxIgnored;
    if (!context_->options.lenient || too_many) {
      return row == nullptr ? UnknownField(PathOf(key)) : UnsupportedField(PathOf(key), row->text);
    }
    context_->ignored.push_back(PathOf(key));
  }
  return ApiStatus();
}

std::string ObjectReader::PathOf(std::string_view key) const {
  if (key.empty()) return path_ + "[\"\"]";
  return path_.empty() ? ShortText(key) : StrCat(path_, ".", ShortText(key));
}

ApiError ObjectReader::Wrong(std::string_view key, std::string_view expected) const {
  const Json* found = Find(key);
  if (found == nullptr) return MissingField(PathOf(key), expected);
  return InvalidField(PathOf(key), StrCat("found ", Found(*found), ", expected ", expected));
}

ApiResult<std::optional<bool>> ObjectReader::Bool(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr) return std::optional<bool>();
  if (!found->IsBool()) return Wrong(key, "true or false");
  return std::optional<bool>(found->AsBool());
}

ApiResult<std::optional<std::int64_t>> ObjectReader::Int(std::string_view key, std::int64_t low,
                                                         std::int64_t high) const {
  const Json* found = Find(key);
  if (found == nullptr) return std::optional<std::int64_t>();
  const auto value = AsInteger(*found);
  if (!value || *value < low || *value > high) {
    return Wrong(key, StrCat("an integer from ", low, " to ", high));
  }
  return std::optional<std::int64_t>(*value);
}

ApiResult<std::optional<double>> ObjectReader::Number(std::string_view key, double low,
                                                      double high) const {
  const Json* found = Find(key);
  if (found == nullptr) return std::optional<double>();
  if (!found->IsNumber() || !(found->AsDouble() >= low && found->AsDouble() <= high)) {
    return Wrong(key, StrCat("a number from ", NumberText(low), " to ", NumberText(high)));
  }
  return std::optional<double>(found->AsDouble());
}

ApiResult<std::optional<std::string>> ObjectReader::String(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr) return std::optional<std::string>();
  if (!found->IsString()) return Wrong(key, "a string");
  return std::optional<std::string>(found->AsString());
}

ApiResult<std::optional<ObjectReader>> ObjectReader::Object(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr) return std::optional<ObjectReader>();
  HONE_ASSIGN(ObjectReader reader, Open(*context_, *found, PathOf(key)));
  return std::optional<ObjectReader>(std::move(reader));
}

ApiResult<const Json::Array*> ObjectReader::Array(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr) return static_cast<const Json::Array*>(nullptr);
  if (!found->IsArray()) return Wrong(key, "an array");
  return &found->AsArray();
}

ApiResult<std::string> ObjectReader::NeedString(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr || !found->IsString()) return Wrong(key, "a string");
  return found->AsString();
}

}  // namespace hone::serve::openai
