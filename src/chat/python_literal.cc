// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/python_literal.h"

#include <utility>

#include "base/json.h"
#include "chat/char_class.h"

namespace hone::chat {
namespace {

constexpr int kMaxDepth = 100;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<std::string> Read() {
    HONE_ASSIGN(std::string json, Value(0));
    SkipSpace();
    if (at_ != text_.size()) return Wrong("the end");
    return json;
  }

 private:
  Status Wrong(std::string_view expected) const {
    return Status(Code::kInvalidArgument,
                  StrCat("found ", Json(text_.substr(at_, 20)).Dump(), ", expected ", expected));
  }
  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(char c) {
    SkipSpace();
    if (Peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  Result<std::string> Value(int depth) {
    if (depth > kMaxDepth) return Wrong("fewer levels");
    SkipSpace();
    const char c = Peek();
    if (c == '\'' || c == '"') return Strings();
    if (c == '[') return List(']', depth);
    if (c == '(') return List(')', depth);
    if (c == '{') return Dictionary(depth);
    if (IsLetter(c)) return Word();
    return Number();
  }

  Result<std::string> Word() {
    const std::size_t begin = at_;
    while (IsLetter(Peek())) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "True" || word == "true") return std::string("true");
    if (word == "False" || word == "false") return std::string("false");
    if (word == "None" || word == "null") return std::string("null");
    at_ = begin;
    return Wrong("a literal");
  }

  // Also "+1", "1_000", ".5" and "1.", which JSON does not know.
  Result<std::string> Number() {
    const std::size_t begin = at_;
    std::string digits;
    if (Peek() == '+' || Peek() == '-') {
      if (Peek() == '-') digits.push_back('-');
      ++at_;
    }
    if (Peek() == '.') digits.push_back('0');
    while (IsDigit(Peek()) || std::string_view("._eE+-").find(Peek()) != std::string_view::npos) {
      const char c = text_[at_++];
      if (c == '_') continue;
      const bool bare_point = !digits.empty() && digits.back() == '.' && !IsDigit(c);
      if (bare_point) digits.push_back('0');
      digits.push_back(c);
    }
    if (!digits.empty() && digits.back() == '.') digits.push_back('0');
    if (IsJsonNumber(digits)) return digits;
    at_ = begin;
    return Wrong("a literal");
  }

  Result<std::string> List(char close, int depth) {
    ++at_;
    std::string json = "[";
    std::size_t items = 0;
    bool comma = false;
    while (!Take(close)) {
      if (items > 0) {
        if (!comma) return Wrong(StrCat(", or ", close));
        json.push_back(',');
      }
      HONE_ASSIGN(const std::string item, Value(depth + 1));
      json += item;
      ++items;
      comma = Take(',');
    }
    // "(1)" is a number, not a tuple.
    if (close == ')' && items == 1 && !comma) return json.substr(1);
    return json + "]";
  }

  Result<std::string> Dictionary(int depth) {
    ++at_;
    std::string json = "{";
    bool comma = false;
    while (!Take('}')) {
      if (json.size() > 1) {
        if (!comma) return Wrong(", or }");
        json.push_back(',');
      }
      HONE_ASSIGN(const std::string key, Value(depth + 1));
      if (key[0] == '[' || key[0] == '{') return Wrong("a key that is a text or a number");
      if (!Take(':')) return Wrong(":");
      HONE_ASSIGN(const std::string value, Value(depth + 1));
      json += key[0] == '"' ? key : Json(key).Dump();
      json += ":" + value;
      comma = Take(',');
    }
    return json + "}";
  }

  Result<std::string> Strings() {
    std::string text;
    do {
      HONE_TRY(String(text));
      SkipSpace();
    } while (Peek() == '\'' || Peek() == '"');
    return Json(std::move(text)).Dump();
  }

  Status String(std::string& out) {
    const char quote = text_[at_];
    const std::string triple(3, quote);
    const std::string_view mark =
        text_.substr(at_).starts_with(triple) ? std::string_view(triple) : text_.substr(at_, 1);
    at_ += mark.size();
    while (!text_.substr(at_).starts_with(mark)) {
      if (at_ >= text_.size()) return Wrong("the end of the string");
      if (text_[at_] == '\\') {
        HONE_TRY(Escape(out));
      } else {
        out.push_back(text_[at_++]);
      }
    }
    at_ += mark.size();
    return Status();
  }

  Status Escape(std::string& out) {
    if (at_ + 1 >= text_.size()) return Wrong("an escape");
    const char c = text_[at_ + 1];
    if (c == 'x' || c == 'u' || c == 'U') return HexEscape(c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    at_ += 2;
    static constexpr std::string_view kLetters = "nrtabfv\\'\"";
    static constexpr std::string_view kMeanings = "\n\r\t\a\b\f\v\\'\"";
    const std::size_t known = kLetters.find(c);
    if (known != std::string_view::npos) {
      out.push_back(kMeanings[known]);
    } else if (c >= '0' && c <= '7') {
      unsigned value = static_cast<unsigned>(c - '0');
      for (int i = 0; i < 2 && Peek() >= '0' && Peek() <= '7'; ++i) {
        value = value * 8 + static_cast<unsigned>(text_[at_++] - '0');
      }
      AppendUtf8(value, out);
    } else if (c != '\n') {  // a backslash at the end of a line joins the lines
      out.push_back('\\');
      out.push_back(c);
    }
    return Status();
  }

  Result<unsigned> Hex(std::size_t digits) {
    if (digits > text_.size() - at_) return Wrong("hexadecimal digits");
    unsigned value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const int digit = HexValue(text_[at_ + i]);
      if (digit < 0) return Wrong("hexadecimal digits");
      value = value * 16 + static_cast<unsigned>(digit);
    }
    at_ += digits;
    return value;
  }

  // Two halves of a surrogate pair are one character, as JSON has it.
  Status HexEscape(std::size_t digits, std::string& out) {
    at_ += 2;
    HONE_ASSIGN(unsigned value, Hex(digits));
    const bool high = digits == 4 && value >= 0xd800 && value < 0xdc00;
    if (high && text_.substr(at_).starts_with("\\u")) {
      const std::size_t before = at_;
      at_ += 2;
      HONE_ASSIGN(const unsigned low, Hex(4));
      if (low >= 0xdc00 && low < 0xe000) {
        value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
      } else {
        at_ = before;
      }
    }
    AppendUtf8(value, out);
    return Status();
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::string> JsonFromPythonLiteral(std::string_view text) { return Reader(text).Read(); }

}  // namespace hone::chat
