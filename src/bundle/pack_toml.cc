// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/pack_toml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>
#include <utility>

// The program is built without exceptions across modules, so errors come back as values.
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
// The library asserts that a key begins as a key may, before it says so in an error: files decide
// that, and a file must not end the program. It has the error behind each such assertion.
#define TOML_ASSERT(expr) static_assert(true)
#undef NDEBUG  // with it the compiler would be told that they hold
#include <toml++/toml.h>

#include "base/text.h"
#include "formats/foreign_file.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
using litertlm::KeyValue;
using litertlm::SectionType;

constexpr std::string_view kModelTypePrefix = "tf_lite_";

struct TypeWord {
  SectionType type;
  const char* word;
};
constexpr TypeWord kTypeWords[] = {
    {SectionType::kLlmMetadata, "LlmMetadata"},
    {SectionType::kExecutorMetadata, "ExecutorMetadata"},
    {SectionType::kEmbeddingMetadata, "EmbeddingMetadata"},
    {SectionType::kTfliteModel, "TFLiteModel"},
    {SectionType::kTfliteWeights, "TFLiteWeights"},
    {SectionType::kSpTokenizer, "SP_Tokenizer"},
    {SectionType::kHfTokenizerZlib, "HF_Tokenizer"},
    {SectionType::kGenericBinaryData, "GenericBinaryData"},
};

// Names of the value types, by number.
constexpr std::array<const char*, 13> kValueTypes = {
    "Unknown", "UInt8", "Int8",   "UInt16", "Int16", "UInt32", "Int32",
    "Float32", "Bool",  "String", "UInt64", "Int64", "Double"};
constexpr std::uint8_t kBool = 8;
constexpr std::uint8_t kString = 9;
bool IsFloatType(std::uint8_t type) { return type == 7 || type == 12; }

Status Bad(std::string text) { return Status(Code::kInvalidArgument, std::move(text)); }

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      constexpr const char* kHex = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

// A number of the header as TOML spells it.
std::string ValueText(const KeyValue& item) {
  if (item.value_type == kString || item.value_type == 0) return Quoted(item.value);
  if (IsFloatType(item.value_type)) {
    // TOML tells floats from integers by a point or an exponent.
    if (item.value.find_first_of(".en") == std::string::npos) return item.value + ".0";
    return item.value;
  }
  constexpr std::size_t kDigitsOfInt64 = 19;
  // TOML's integers have 64 bits with a sign.
  if (item.value.size() > kDigitsOfInt64 ||
      (item.value.size() == kDigitsOfInt64 && item.value > "9223372036854775807")) {
    if (item.value_type == 10) return Quoted(item.value);
  }
  return item.value;
}

std::string ItemText(const KeyValue& item) {
  const std::size_t type = item.value_type < kValueTypes.size() ? item.value_type : 0;
  return StrCat("  { key = ", Quoted(item.key), ", value_type = \"", kValueTypes[type],
                "\", value = ", ValueText(item), " },\n");
}

// Reads one file; every error names the place.
class TomlReader {
 public:
  Result<ModelToml> Run(const toml::table& root) {
    for (const auto& [key, node] : root) {
      if (key.str() != "section" && key.str() != "system_metadata") {
        return Bad(
            StrCat("unexpected key '", key.str(), "', expected [system_metadata] and [[section]]"));
      }
    }
    ModelToml out;
    if (const toml::node* system = root.get("system_metadata")) {
      const toml::table* table = system->as_table();
      const toml::node* entries = table != nullptr ? table->get("entries") : nullptr;
      if (entries == nullptr) return Bad("[system_metadata]: no entries");
      HONE_TRY(ReadItems(*entries, out.system).Context("[system_metadata]"));
    }
    const toml::node* sections = root.get("section");
    if (sections == nullptr) return out;
    const toml::array* list = sections->as_array();
    if (list == nullptr) return Bad("section: expected [[section]] tables");
    for (std::size_t i = 0; i < list->size(); ++i) {
      const toml::table* table = list->get(i)->as_table();
      if (table == nullptr) return Bad("section: expected [[section]] tables");
      TomlSection section;
      HONE_TRY(ReadSection(*table, section).Context(StrCat("[[section]] ", i)));
      out.sections.push_back(std::move(section));
    }
    return out;
  }

 private:
  static Result<std::string> Text(const toml::table& table, std::string_view key) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return Bad(StrCat("no ", key));
    const auto value = node->value_exact<std::string>();
    if (!value) return Bad(StrCat(key, ": expected a text in quotes"));
    return *value;
  }

  static Status ReadSection(const toml::table& table, TomlSection& out) {
    HONE_ASSIGN(const std::string word, Text(table, "section_type"));
    HONE_TRY(ReadType(word, out.type));
    HONE_TRY(CheckKeys(table, out.type));
    HONE_ASSIGN(out.data_path, Text(table, "data_path"));
    HONE_TRY(ReadModelType(table, out));
    const bool model = out.type == SectionType::kTfliteModel;
    for (const char* key : {"backend_constraint", "prefer_activation_type"}) {
      if (!model || table.get(key) == nullptr) continue;
      HONE_ASSIGN(const std::string value, Text(table, key));
      if (!value.empty()) out.items.push_back({.key = key, .value = LowerCase(value)});
    }
    if (const toml::node* items = table.get("additional_metadata")) {
      std::vector<KeyValue> more;
      HONE_TRY(ReadItems(*items, more).Context("additional_metadata"));
      for (KeyValue& item : more) {
        if (model && (item.key == "model_type" || item.key == "backend_constraint")) {
          return Bad(StrCat("additional_metadata: ", item.key,
                            " is a key of the section itself, not of additional_metadata"));
        }
        out.items.push_back(std::move(item));
      }
    }
    if (out.type == SectionType::kLlmMetadata) return ReadOverrides(table, out.overrides);
    return {};
  }

  static Status ReadType(const std::string& word, SectionType& type) {
    for (const TypeWord& known : kTypeWords) {
      if (word == known.word) {
        type = known.type;
        return {};
      }
    }
    for (int number = 1; number < 256; ++number) {
      const auto candidate = static_cast<SectionType>(number);
      if (!BuilderPacks(candidate) && word == TomlSectionType(candidate)) {
        type = candidate;
        return {};
      }
    }
    std::string known;
    for (const TypeWord& entry : kTypeWords) known += StrCat(known.empty() ? "" : ", ", entry.word);
    return Bad(StrCat("section_type: found '", word, "', expected one of ", known));
  }

  // A misspelled key would be lost in silence.
  static Status CheckKeys(const toml::table& table, SectionType type) {
    for (const auto& [key, node] : table) {
      const std::string_view name = key.str();
      bool known = name == "section_type" || name == "data_path" || name == "additional_metadata" ||
                   name == "model_type" || name == "backend_constraint" ||
                   name == "prefer_activation_type";
      if (type == SectionType::kLlmMetadata) {
        known = known || name == "min_runtime_version" || name == "supports_thinking" ||
                name == "supports_function_calling" || name == "max_num_patches" ||
                name == "pooling_kernel_size";
      }
      if (!known) {
        return Bad(
            StrCat("unexpected key '", name, "' in a section of type ", TomlSectionType(type)));
      }
    }
    return {};
  }

  static Status ReadModelType(const toml::table& table, TomlSection& out) {
    const bool needed =
        out.type == SectionType::kTfliteModel || out.type == SectionType::kTfliteWeights;
    if (table.get("model_type") == nullptr) {
      if (needed) return Bad("no model_type");
      return {};
    }
    HONE_ASSIGN(const std::string word, Text(table, "model_type"));
    if (word.empty()) return Bad("model_type: is empty");
    std::string value = LowerCase(word);
    if (!value.starts_with(kModelTypePrefix)) value = StrCat(kModelTypePrefix, value);
    out.items.push_back({.key = "model_type", .value = std::move(value)});
    return {};
  }

  static Status ReadOverrides(const toml::table& table, LlmOverrides& out) {
    const auto flag = [&table](const char* key, std::optional<bool>& to) -> Status {
      const toml::node* node = table.get(key);
      if (node == nullptr) return {};
      const auto value = node->value_exact<bool>();
      if (!value) return Bad(StrCat(key, ": expected true or false"));
      to = *value;
      return {};
    };
    const auto number = [&table](const char* key, std::optional<std::int32_t>& to) -> Status {
      const toml::node* node = table.get(key);
      if (node == nullptr) return {};
      const auto value = node->value_exact<std::int64_t>();
      if (!value || *value < 0 || *value > std::numeric_limits<std::int32_t>::max()) {
        return Bad(StrCat(key, ": expected a number from 0 to 2147483647"));
      }
      to = static_cast<std::int32_t>(*value);
      return {};
    };
    if (table.get("min_runtime_version") != nullptr) {
      HONE_ASSIGN(out.min_runtime_version, Text(table, "min_runtime_version"));
    }
    HONE_TRY(flag("supports_thinking", out.supports_thinking));
    HONE_TRY(flag("supports_function_calling", out.supports_function_calling));
    HONE_TRY(number("max_num_patches", out.max_num_patches));
    return number("pooling_kernel_size", out.pooling_kernel_size);
  }

  static Status ReadItems(const toml::node& node, std::vector<KeyValue>& out) {
    const toml::array* list = node.as_array();
    if (list == nullptr) return Bad("expected an array of { key, value_type, value }");
    for (std::size_t i = 0; i < list->size(); ++i) {
      const toml::table* table = list->get(i)->as_table();
      if (table == nullptr) return Bad("expected an array of { key, value_type, value }");
      KeyValue item;
      HONE_TRY(ReadItem(*table, item).Context(StrCat("entry ", i)));
      out.push_back(std::move(item));
    }
    return {};
  }

  static Status ReadItem(const toml::table& table, KeyValue& item) {
    HONE_ASSIGN(item.key, Text(table, "key"));
    HONE_ASSIGN(const std::string word, Text(table, "value_type"));
    const std::string lower = LowerCase(word);
    std::size_t type = 0;
    while (type < kValueTypes.size() && LowerCase(kValueTypes[type]) != lower) ++type;
    if (type == kValueTypes.size()) {
      return Bad(StrCat("value_type: found '", word, "', expected String, Bool, Int32 and such"));
    }
    item.value_type = static_cast<std::uint8_t>(type);
    const toml::node* value = table.get("value");
    if (value == nullptr) return Bad("no value");
    return ReadValue(*value, item);
  }

  static Status ReadValue(const toml::node& node, KeyValue& item) {
    const auto expected = [&item](const char* what) {
      return Bad(StrCat("value of '", item.key, "': expected ", what, ", since its value_type is ",
                        kValueTypes[item.value_type]));
    };
    if (item.value_type == kString || item.value_type == 0) {
      const auto value = node.value_exact<std::string>();
      if (!value) return expected("a text in quotes");
      item.value = *value;
      return {};
    }
    if (item.value_type == kBool) {
      const auto value = node.value_exact<bool>();
      if (!value) return expected("true or false");
      item.value = *value ? "true" : "false";
      return {};
    }
    if (const auto text = node.value_exact<std::string>()) {  // UInt64 over TOML's integers
      item.value = *text;
    } else if (const auto number = node.value_exact<std::int64_t>()) {
      item.value = std::to_string(*number);
    } else if (const auto real = node.value_exact<double>(); real && IsFloatType(item.value_type)) {
      std::array<char, 40> room{};
      const bool single = item.value_type == 7;
      const auto end =
          single ? std::to_chars(room.data(), room.data() + room.size(), static_cast<float>(*real))
                 : std::to_chars(room.data(), room.data() + room.size(), *real);
      item.value.assign(room.data(), end.ptr);
    } else {
      return expected("a number");
    }
    return {};
  }
};

// toml++ 3.3 has undefined behaviour for some characters outside ASCII, so it gets none: in texts
// in double quotes they become escapes, in comments they do not matter, and elsewhere they are
// refused (also in single quotes, which have no escapes). It also makes a table for every part of a
// dotted key and frees them by recursion, so long keys are refused, too.
class AsciiToml {
 public:
  explicit AsciiToml(std::string_view text) : text_(text) {}

  Result<std::string> Run() {
    while (at_ < text_.size()) {
      if (static_cast<unsigned char>(text_[at_]) >= 0x80) {
        HONE_TRY(Character());
        continue;
      }
      HONE_TRY(KeyPart(text_[at_]));
      Ascii();
    }
    return std::move(out_);
  }

 private:
  enum class State : std::uint8_t { kPlain, kComment, kText };
  static constexpr int kMaxKeyParts = 16;

  std::int64_t Line() const {
    return 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
  }

  // What stands between two of these belongs to one key or value.
  Status KeyPart(char c) {
    if (state_ != State::kPlain) return {};
    if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) dots_ = 0;
    if (c != '.' || ++dots_ < kMaxKeyParts) return {};
    return Bad(StrCat("line ", Line(), ": a key has more than ", kMaxKeyParts, " parts"));
  }

  void Copy(std::size_t count) {
    out_ += text_.substr(at_, count);
    at_ += count;
  }

  void Ascii() {
    const char c = text_[at_];
    if (state_ == State::kComment) {
      if (c == '\n') state_ = State::kPlain;
      return Copy(1);
    }
    if (state_ == State::kPlain) {
      if (c == '#') state_ = State::kComment;
      if (c != '"' && c != '\'') return Copy(1);
      const std::string three(3, c);
      quote_ = text_.substr(at_, 3) == three ? three : std::string(1, c);
      state_ = State::kText;
      return Copy(quote_.size());
    }
    if (c == '\\' && quote_[0] == '"' && at_ + 1 < text_.size() &&
        static_cast<unsigned char>(text_[at_ + 1]) < 0x80) {
      return Copy(2);
    }
    const bool ends = text_.substr(at_, quote_.size()) == quote_;
    if (ends || (c == '\n' && quote_.size() == 1)) state_ = State::kPlain;
    Copy(ends ? quote_.size() : 1);
    if (!ends || quote_.size() == 1) return;
    // A text in three quotes may end with one or two of its own before them.
    for (int own = 0; own < 2 && at_ < text_.size() && text_[at_] == c; ++own) Copy(1);
  }

  // One character outside ASCII; the text is UTF-8.
  Status Character() {
    const auto lead = static_cast<unsigned char>(text_[at_]);
    const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    std::uint32_t code = lead & (0xffU >> (size + 1));
    for (std::size_t i = 1; i < size && at_ + i < text_.size(); ++i) {
      code = code << 6 | (static_cast<unsigned char>(text_[at_ + i]) & 0x3fU);
    }
    if (state_ == State::kText && quote_[0] == '"') {
      std::array<char, 12> room{};
      std::snprintf(room.data(), room.size(), "\\U%08X", code);
      out_ += room.data();
    } else if (state_ == State::kComment) {
      out_ += '?';
    } else {
      return Bad(
          StrCat("line ", Line(), ": a character outside ASCII must stand in double quotes"));
    }
    at_ = std::min(at_ + size, text_.size());
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  State state_ = State::kPlain;
  int dots_ = 0;  // of the key or value at hand
  std::string quote_;
  std::string out_;
};

}  // namespace

std::string TomlSectionType(SectionType type) {
  for (const TypeWord& known : kTypeWords) {
    if (known.type == type) return known.word;
  }
  std::string name = litertlm::SectionTypeName(type);
  for (char& c : name) {
    if (c == ' ') c = '_';
  }
  return name;
}

bool BuilderPacks(SectionType type) {
  for (const TypeWord& known : kTypeWords) {
    if (known.type == type) return true;
  }
  return false;
}

Result<ModelToml> ParseModelToml(std::string_view text) {
  if (!formats::IsUtf8(text)) return Bad("the text is not UTF-8");
  HONE_ASSIGN(const std::string ascii, AsciiToml(text).Run());
  const toml::parse_result parsed = toml::parse(ascii);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    const toml::source_position at = error.source().begin;
    return Bad(StrCat("line ", at.line, ", column ", at.column, ": ", error.description()));
  }
  return TomlReader().Run(parsed.table());
}

std::string WriteModelToml(const ModelToml& toml) {
  std::string out;
  if (!toml.system.empty()) {
    out += "[system_metadata]\nentries = [\n";
    for (const KeyValue& item : toml.system) out += ItemText(item);
    out += "]\n\n";
  }
  for (const TomlSection& section : toml.sections) {
    out += "[[section]]\n";
    std::string model_type, backends, more;
    for (const KeyValue& item : section.items) {
      const bool text = item.value_type == kString;
      if (text && item.key == "model_type" && model_type.empty() && !item.value.empty()) {
        model_type = item.value.starts_with(kModelTypePrefix)
                         ? item.value.substr(kModelTypePrefix.size())
                         : item.value;
      } else if (text && item.key == "backend_constraint" && backends.empty() &&
                 section.type == SectionType::kTfliteModel && !item.value.empty()) {
        backends = item.value;
      } else {
        more += ItemText(item);
      }
    }
    if (!more.empty()) out += StrCat("additional_metadata = [\n", more, "]\n");
    if (!model_type.empty()) out += StrCat("model_type = ", Quoted(model_type), "\n");
    if (!backends.empty()) out += StrCat("backend_constraint = ", Quoted(backends), "\n");
    out += StrCat("section_type = ", Quoted(TomlSectionType(section.type)), "\n");
    out += StrCat("data_path = ", Quoted(section.data_path), "\n\n");
  }
  if (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace hone::bundle
