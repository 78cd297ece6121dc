// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Typed members of a request, with errors that name the field by its path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/openai/api_error.h"
#include "serve/openai/fields.h"

namespace hone::serve::openai {

// What the readers of this API allow.
struct ReadOptions {
  // Fields that are unknown or cannot be honoured are left out and listed, instead of refused.
  // Wrong values stay errors.
  bool lenient = false;
  int max_depth = 100;  // of the JSON
  std::int64_t max_n = 16, max_choices = 1024, max_stop = 16, max_tools = 256;
  std::int64_t max_logit_bias = 1024;
};

// Of one request while it is read.
struct ReadContext {
  Endpoint endpoint;
  const ReadOptions& options;
  std::vector<std::string> ignored = {};
  std::vector<std::string> warnings = {};
};

// The body as a JSON object. Refused: other values, bytes that are not UTF-8, a byte-order mark,
// deep nesting, duplicate keys, numbers over the range of a double.
ApiResult<Json> ParseBody(std::string_view body, const ReadOptions& options);

// "an integer", "the string \"x\"", "-1": what was found, for messages.
std::string Found(const Json& value);

// An object of a request. A member that is null counts as absent. Context and value must outlive
// it.
class ObjectReader {
 public:
  // value must be an object whose members the table of the endpoint has. path: where it is, "" for
  // the body.
  static ApiResult<ObjectReader> Open(ReadContext& context, const Json& value, std::string path);

  std::string PathOf(std::string_view key) const;
  ReadContext& context() const { return *context_; }
  // Null if it is absent.
  const Json* Find(std::string_view key) const { return value_->FindNonNull(key); }
  ApiError Wrong(std::string_view key, std::string_view expected) const;

  // Nothing if it is absent; an error if it is of another type or out of range. 1.0 is an integer.
  ApiResult<std::optional<bool>> Bool(std::string_view key) const;
  ApiResult<std::optional<std::int64_t>> Int(std::string_view key, std::int64_t low,
                                             std::int64_t high) const;
  ApiResult<std::optional<double>> Number(std::string_view key, double low, double high) const;
  ApiResult<std::optional<std::string>> String(std::string_view key) const;
  ApiResult<std::optional<ObjectReader>> Object(std::string_view key) const;
  ApiResult<const Json::Array*> Array(std::string_view key) const;  // null if absent
  // Absent is an error, too.
  ApiResult<std::string> NeedString(std::string_view key) const;

 private:
  ObjectReader(ReadContext& context, const Json& value, std::string path)
      : context_(&context), value_(&value), path_(std::move(path)) {}
  ApiStatus CheckMembers() const;

  ReadContext* context_;
  const Json* value_;
  std::string path_;
};

// "messages[12].content" as the table has it: "messages[].content".
std::string TablePath(std::string_view path);

// An integer that may be written as 1.0; nothing if it is none.
std::optional<std::int64_t> AsInteger(const Json& value);

// A token id: 0 to 2^31 - 1.
ApiResult<std::int32_t> ReadTokenId(const Json& value, const std::string& path);
ApiResult<std::vector<std::int32_t>> ReadTokenIds(const Json::Array& values,
                                                  const std::string& path);

}  // namespace hone::serve::openai
