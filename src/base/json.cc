// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/check.h"

namespace hone {
namespace {

// Builds a Json from nlohmann's event parser, so that nothing is thrown and limits hold.
class Builder {
 public:
  explicit Builder(int max_depth) : max_depth_(max_depth) {}

  bool null() { return Add(Json()); }
  bool boolean(bool v) { return Add(Json(v)); }
  bool number_integer(std::int64_t v) { return Add(Json(v)); }
  bool number_unsigned(std::uint64_t v) { return Add(Json(v)); }
  bool number_float(double v, const std::string&) { return Add(Json(v)); }
  bool string(std::string& v) { return Add(Json(std::move(v))); }
  bool binary(nlohmann::json::binary_t&) { return Fail("binary value"); }
  bool start_object(std::size_t) { return Open(Json(Json::Object{})); }
  bool start_array(std::size_t) { return Open(Json(Json::Array{})); }
  bool key(std::string& k) {
    keys_.back() = std::move(k);
    return true;
  }
  bool end_object() {
    std::unordered_set<std::string_view> seen;
    for (const auto& [k, v] : stack_.back().AsObject()) {
      if (!seen.insert(k).second) return Fail(StrCat("the key \"", k, "\" appears twice"));
    }
    return Close();
  }
  bool end_array() { return Close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& e) {
    position_ = position;
    std::string what = e.what();
    const auto colon = what.find("syntax error");
    return Fail(colon == std::string::npos ? what : what.substr(colon));
  }

  Json root;
  std::string error;
  std::size_t position_ = 0;

 private:
  bool Fail(std::string what) {
    constexpr std::size_t kMaxWords = 300;  // the parser quotes a whole token, however long
    if (what.size() > kMaxWords) {
      while (what.size() > kMaxWords || (what.back() & 0x80) != 0) what.pop_back();
      what += "...";
    }
    if (error.empty()) error = std::move(what);
    return false;
  }
  bool Open(Json value) {
    if (static_cast<int>(stack_.size()) >= max_depth_) {
      return Fail(StrCat("nested deeper than ", max_depth_, " levels"));
    }
    stack_.push_back(std::move(value));
    keys_.emplace_back();
    return true;
  }
  bool Close() {
    Json done = std::move(stack_.back());
    stack_.pop_back();
    keys_.pop_back();
    return Add(std::move(done));
  }
  bool Add(Json value) {
    if (stack_.empty()) {
      root = std::move(value);
    } else if (stack_.back().IsArray()) {
      stack_.back().AsArray().push_back(std::move(value));
    } else {
      stack_.back().AsObject().emplace_back(std::move(keys_.back()), std::move(value));
    }
    return true;
  }

  int max_depth_;
  std::vector<Json> stack_;
  std::vector<std::string> keys_;
};

void DumpString(const std::string& s, std::string& out) {
  out += nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Newline(int indent, int depth, std::string& out) {
  if (indent <= 0) return;
  out.push_back('\n');
  out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(depth), ' ');
}

void DumpTo(const Json& j, int indent, int depth, std::string& out) {
  const char* colon = indent > 0 ? ": " : ":";
  if (j.IsNull()) {
    out += "null";
  } else if (j.IsBool()) {
    out += j.AsBool() ? "true" : "false";
  } else if (j.IsInt()) {
    out += std::to_string(j.AsInt());
  } else if (j.IsNumber()) {
    out += std::isfinite(j.AsDouble()) ? nlohmann::json(j.AsDouble()).dump() : "null";
  } else if (j.IsString()) {
    DumpString(j.AsString(), out);
  } else if (j.IsArray()) {
    out.push_back('[');
    bool first = true;
    for (const Json& e : j.AsArray()) {
      if (!first) out.push_back(',');
      first = false;
      Newline(indent, depth + 1, out);
      DumpTo(e, indent, depth + 1, out);
    }
    if (!first) Newline(indent, depth, out);
    out.push_back(']');
  } else {
    out.push_back('{');
    bool first = true;
    for (const auto& [k, v] : j.AsObject()) {
      if (!first) out.push_back(',');
      first = false;
      Newline(indent, depth + 1, out);
      DumpString(k, out);
      out += colon;
      DumpTo(v, indent, depth + 1, out);
    }
    if (!first) Newline(indent, depth, out);
    out.push_back('}');
  }
}

Status Wrong(std::string_view key, const Json* found, const char* expected) {
  if (found == nullptr) {
    return Status(Code::kInvalidArgument, StrCat("\"", key, "\" is missing, expected ", expected));
  }
  return Status(Code::kInvalidArgument,
                StrCat("\"", key, "\" is ", found->TypeName(), ", expected ", expected));
}

}  // namespace

Json::Json(std::uint64_t i) {
  if (i <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    v_ = static_cast<std::int64_t>(i);
  } else {
    v_ = static_cast<double>(i);
  }
}

const char* Json::TypeName() const {
  static constexpr const char* kNames[] = {"null",     "a boolean", "an integer", "a number",
                                           "a string", "an array",  "an object"};
  return kNames[v_.index()];
}

const Json* Json::Find(std::string_view key) const {
  if (!IsObject()) return nullptr;
  for (const auto& [k, v] : AsObject()) {
    if (k == key) return &v;
  }
  return nullptr;
}

const Json* Json::FindNonNull(std::string_view key) const {
  const Json* found = Find(key);
  return found != nullptr && found->IsNull() ? nullptr : found;
}

void Json::Set(std::string_view key, Json value) {
  if (IsNull()) v_ = Object{};
  HONE_CHECK(IsObject());
  for (auto& [k, v] : AsObject()) {
    if (k == key) {
      v = std::move(value);
      return;
    }
  }
  AsObject().emplace_back(std::string(key), std::move(value));
}

std::string Json::Dump(int indent) const {
  std::string out;
  DumpTo(*this, indent, 0, out);
  return out;
}

Result<Json> ParseJson(std::string_view text, const JsonLimits& limits) {
  if (text.substr(0, 3) == "\xef\xbb\xbf") {
    return Status(Code::kDataLoss, "JSON begins with a byte-order mark");
  }
  Builder builder(limits.max_depth);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.root);
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t i = 0; i + 1 < builder.position_ && i < text.size(); ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n' ? 1 : 0;
  }
  if (builder.position_ == 0)
    return Status(Code::kDataLoss, StrCat("not valid JSON: ", builder.error));
  return Status(Code::kDataLoss,
                StrCat("not valid JSON at line ", line, " column ", column, ": ", builder.error));
}

Result<Json> ObjectFromText(const Json& value) {
  Json object = value;
  if (value.IsString()) {
    const std::string& text = value.AsString();
    object = Json();
    if (text.find_first_not_of(" \t\r\n") != std::string::npos) {
      auto parsed = ParseJson(text);
      if (!parsed.ok()) {
        return Status(Code::kInvalidArgument,
                      StrCat("found text that is ", parsed.message(), ", expected a JSON object"));
      }
      object = *std::move(parsed);
    }
  }
  if (object.IsNull()) return Json(Json::Object{});
  if (object.IsObject()) return object;
  return Status(Code::kInvalidArgument,
                StrCat("found ", object.TypeName(), value.IsString() ? " in a text" : "",
                       ", expected a JSON object"));
}

Result<std::int64_t> GetInt(const Json& object, std::string_view key) {
  const Json* v = object.Find(key);
  if (v == nullptr || !v->IsInt()) return Wrong(key, v, "an integer");
  return v->AsInt();
}
Result<double> GetDouble(const Json& object, std::string_view key) {
  const Json* v = object.Find(key);
  if (v == nullptr || !v->IsNumber()) return Wrong(key, v, "a number");
  return v->AsDouble();
}
Result<std::string> GetString(const Json& object, std::string_view key) {
  const Json* v = object.Find(key);
  if (v == nullptr || !v->IsString()) return Wrong(key, v, "a string");
  return v->AsString();
}
Result<bool> GetBoolOr(const Json& object, std::string_view key, bool fallback) {
  const Json* v = object.FindNonNull(key);
  if (v == nullptr) return fallback;
  if (!v->IsBool()) return Wrong(key, v, "true or false");
  return v->AsBool();
}
Result<std::string> GetStringOr(const Json& object, std::string_view key,
                                std::string_view fallback) {
  return object.FindNonNull(key) == nullptr ? Result<std::string>(std::string(fallback))
                                            : GetString(object, key);
}

}  // namespace hone
