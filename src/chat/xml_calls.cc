// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// <function name="f"><param name="p">value</param></function>: MiniCPM5.
#include <utility>

#include "chat/argument_builder.h"
#include "chat/call_body.h"
#include "chat/char_class.h"
#include "chat/xml_text.h"

namespace hone::chat {
namespace {

class ParamXmlBody : public CallBody {
 public:
  explicit ParamXmlBody(CallWriter& out) : out_(out), arguments_(out) {}

  BodyState Push(char c) override {
    switch (place_) {
      case Place::kStart:
        // "<functional" is a word, not a call.
        if (!IsSpace(c)) return BodyState::kText;
        place_ = Place::kFunctionTag;
        return BodyState::kMore;
      case Place::kFunctionTag:
      case Place::kParamTag:
        return TagByte(c);
      case Place::kBetween:
        return BetweenByte(c);
      default:
        return ValueByte(c);
    }
  }

  bool MayEnd() const override { return false; }

 private:
  enum class Place : std::uint8_t {
    kStart,
    kFunctionTag,  // between "<function" and its ">"
    kBetween,      // between params
    kParamTag,     // between "<param" and its ">"
    kValue,
  };

  BodyState Broken(std::string reason) {
    out_.Fail(std::move(reason));
    return BodyState::kBroken;
  }

  BodyState TagByte(char c) {
    if (quote_ != 0) {
      if (c == quote_) quote_ = 0;
    } else if (c == '"' || c == '\'') {
      quote_ = c;
    } else if (c == '<') {
      return Broken("a tag does not end");
    } else if (c == '>') {
      return EndTag();
    }
    text_.push_back(c);
    return BodyState::kMore;
  }

  BodyState EndTag() {
    const std::string tag = std::exchange(text_, {});
    bool closes = false;
    if (place_ == Place::kParamTag && !IsSpace(tag.empty() ? '>' : tag[0])) {
      return Broken("a param must come here");
    }
    if (!NameAttribute(tag, name_, closes))
      return Broken("a tag must have a name and nothing else");
    if (place_ == Place::kFunctionTag) {
      arguments_.Begin(name_);
      if (closes) return EndCall();
      place_ = Place::kBetween;
    } else if (closes) {
      arguments_.AddText(name_, "");
      place_ = Place::kBetween;
    } else {
      in_cdata_ = false;
      place_ = Place::kValue;
    }
    return BodyState::kMore;
  }

  BodyState EndCall() {
    arguments_.End();
    return BodyState::kEnd;
  }

  BodyState BetweenByte(char c) {
    static constexpr std::string_view kParam = "<param";
    static constexpr std::string_view kEnd = "</function>";
    if (text_.empty() && IsSpace(c)) return BodyState::kMore;
    text_.push_back(c);
    if (text_ == kEnd) return EndCall();
    if (text_ == kParam) {
      text_.clear();
      place_ = Place::kParamTag;
      return BodyState::kMore;
    }
    if (kParam.starts_with(text_) || kEnd.starts_with(text_)) return BodyState::kMore;
    return Broken("<param> or </function> must come here");
  }

  BodyState ValueByte(char c) {
    static constexpr std::string_view kEnd = "</param>";
    text_.push_back(c);
    if (in_cdata_) {
      if (text_.ends_with("]]>")) in_cdata_ = false;
    } else if (text_.ends_with("<![CDATA[")) {
      in_cdata_ = true;
    } else if (text_.ends_with(kEnd)) {
      text_.resize(text_.size() - kEnd.size());
      arguments_.AddText(name_, TextOfXml(text_));
      text_.clear();
      place_ = Place::kBetween;
    } else if (text_.ends_with("</function>")) {
      return Broken("</param> is missing");
    }
    return BodyState::kMore;
  }

  CallWriter& out_;
  ArgumentBuilder arguments_;
  Place place_ = Place::kStart;
  char quote_ = 0;         // open in a tag
  bool in_cdata_ = false;  // of the value
  std::string name_;       // of the function, then of the param
  std::string text_;       // of the tag or value, or between them
};

}  // namespace

std::unique_ptr<CallBody> MakeParamXmlBody(CallWriter& out) {
  return std::make_unique<ParamXmlBody>(out);
}

}  // namespace hone::chat
