// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// JSON as a plain value: key order kept, duplicate keys and deep nesting refused, no exceptions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace hone {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;                                  // null
  Json(bool b) : v_(b) {}                            // NOLINT(google-explicit-constructor)
  Json(int i) : v_(static_cast<std::int64_t>(i)) {}  // NOLINT(google-explicit-constructor)
  Json(std::int64_t i) : v_(i) {}                    // NOLINT(google-explicit-constructor)
  Json(std::uint64_t i);     // NOLINT(google-explicit-constructor): over int64 it becomes a double
  Json(double d) : v_(d) {}  // NOLINT(google-explicit-constructor)
  Json(const char* s) : v_(std::string(s)) {}       // NOLINT(google-explicit-constructor)
  Json(std::string_view s) : v_(std::string(s)) {}  // NOLINT(google-explicit-constructor)
  Json(std::string s) : v_(std::move(s)) {}         // NOLINT(google-explicit-constructor)
  Json(Array a) : v_(std::move(a)) {}               // NOLINT(google-explicit-constructor)
  Json(Object o) : v_(std::move(o)) {}              // NOLINT(google-explicit-constructor)

  bool IsNull() const { return v_.index() == 0; }
  bool IsBool() const { return v_.index() == 1; }
  bool IsInt() const { return v_.index() == 2; }
  bool IsNumber() const { return v_.index() == 2 || v_.index() == 3; }
  bool IsString() const { return v_.index() == 4; }
  bool IsArray() const { return v_.index() == 5; }
  bool IsObject() const { return v_.index() == 6; }
  // "null", "a boolean", "an integer", "a number", "a string", "an array" or "an object".
  const char* TypeName() const;

  // The caller checks the type first.
  bool AsBool() const { return std::get<1>(v_); }
  std::int64_t AsInt() const { return std::get<2>(v_); }
  double AsDouble() const { return IsInt() ? static_cast<double>(AsInt()) : std::get<3>(v_); }
  const std::string& AsString() const { return std::get<4>(v_); }
  const Array& AsArray() const { return std::get<5>(v_); }
  Array& AsArray() { return std::get<5>(v_); }
  const Object& AsObject() const { return std::get<6>(v_); }
  Object& AsObject() { return std::get<6>(v_); }

  // The member, or null if this is not an object or has no such key.
  const Json* Find(std::string_view key) const;
  // As Find, but a member whose value is JSON null counts as missing.
  const Json* FindNonNull(std::string_view key) const;
  // Sets or appends a member; this must be an object (or null, which becomes one).
  void Set(std::string_view key, Json value);

  // Compact text. Non-finite numbers become null. indent > 0 gives one member a line.
  std::string Dump(int indent = 0) const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> v_;
};

struct JsonLimits {
  int max_depth = 200;
};

// Errors say line, column and what was found. Refuses a byte-order mark, bytes that are not UTF-8,
// duplicate keys and trailing text. A null key or an integer over 64 bits reads as a double.
Result<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

// An object that may be given as JSON text, as in tool calls of the OpenAI API: value itself, or
// what its text holds, decoded once. Null, "null" and blank text are an empty object.
// kInvalidArgument if it is anything else.
Result<Json> ObjectFromText(const Json& value);

// Typed members. Errors name the key, what was found and what was expected.
Result<std::int64_t> GetInt(const Json& object, std::string_view key);
Result<double> GetDouble(const Json& object, std::string_view key);
Result<std::string> GetString(const Json& object, std::string_view key);
Result<bool> GetBoolOr(const Json& object, std::string_view key, bool fallback);
Result<std::string> GetStringOr(const Json& object, std::string_view key,
                                std::string_view fallback);

}  // namespace hone
