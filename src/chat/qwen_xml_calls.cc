// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// <function=f><parameter=p>\nvalue\n</parameter></function>, in <tool_call> tags: Qwen3-Coder,
// Qwen3.5; in other tags: Seed-OSS.
#include <utility>

#include "chat/argument_builder.h"
#include "chat/call_body.h"
#include "chat/char_class.h"

namespace hone::chat {
namespace {

class FunctionXmlBody : public CallBody {
 public:
  FunctionXmlBody(const ToolFamily& family, bool in_tags, CallWriter& out)
      : close_(family.close),
        out_(out),
        arguments_(out),
        place_(in_tags ? Place::kStart : Place::kName) {}

  BodyState Push(char c) override {
    switch (place_) {
      case Place::kStart:
        return TagByte(c, kFunction, kFunction);
      case Place::kBetween:
        return TagByte(c, kParameter, kFunctionEnd);
      case Place::kAfterCall:
        return AfterByte(c);
      case Place::kValue:
        return ValueByte(c);
      default:
        return NameByte(c);
    }
  }

  bool MayEnd() const override { return place_ == Place::kAfterCall; }

 private:
  enum class Place : std::uint8_t {
    kStart,
    kName,
    kBetween,  // between parameters
    kParameterName,
    kValue,
    kAfterCall,  // the closing marker, which some models leave out
  };
  static constexpr std::string_view kFunction = "<function=";
  static constexpr std::string_view kFunctionEnd = "</function>";
  static constexpr std::string_view kParameter = "<parameter=";
  static constexpr std::string_view kParameterEnd = "</parameter>";

  BodyState Broken(std::string reason) {
    out_.Fail(std::move(reason));
    return BodyState::kBroken;
  }

  // One of two tags, with white space in front.
  BodyState TagByte(char c, std::string_view one, std::string_view other) {
    if (text_.empty() && IsSpace(c)) return BodyState::kMore;
    text_.push_back(c);
    if (!one.starts_with(text_) && !other.starts_with(text_)) {
      return Broken(StrCat(one, other == one ? "" : StrCat(" or ", other), " must come here"));
    }
    if (text_ == kFunctionEnd) {
      arguments_.End();
      place_ = Place::kAfterCall;
    } else if (text_ == kFunction) {
      place_ = Place::kName;
    } else if (text_ == kParameter) {
      place_ = Place::kParameterName;
    } else {
      return BodyState::kMore;
    }
    text_.clear();
    return BodyState::kMore;
  }

  BodyState NameByte(char c) {
    if (c == '<' || c == '\n') return Broken("a tag does not end");
    if (c != '>') {
      text_.push_back(c);
      return BodyState::kMore;
    }
    name_ = std::exchange(text_, {});
    if (place_ == Place::kName) {
      arguments_.Begin(name_);
      place_ = Place::kBetween;
    } else {
      place_ = Place::kValue;
    }
    return BodyState::kMore;
  }

  // One line end at each side belongs to the tags.
  BodyState ValueByte(char c) {
    text_.push_back(c);
    if (!text_.ends_with(kParameterEnd)) return BodyState::kMore;
    std::string_view value(text_.data(), text_.size() - kParameterEnd.size());
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
    arguments_.AddText(name_, value);
    text_.clear();
    place_ = Place::kBetween;
    return BodyState::kMore;
  }

  BodyState AfterByte(char c) {
    if (text_.empty() && IsSpace(c)) return BodyState::kMore;
    text_.push_back(c);
    if (text_ == close_) return BodyState::kEnd;
    if (text_ == kFunction) {
      text_.clear();
      place_ = Place::kName;
      return BodyState::kMore;
    }
    if (close_.starts_with(text_) || kFunction.starts_with(text_)) return BodyState::kMore;
    return BodyState::kText;
  }

  std::string_view close_;
  CallWriter& out_;
  ArgumentBuilder arguments_;
  Place place_;
  std::string name_;  // of the function, then of the parameter
  std::string text_;
};

}  // namespace

std::unique_ptr<CallBody> MakeFunctionXmlBody(const ToolFamily& family, bool in_tags,
                                              CallWriter& out) {
  return std::make_unique<FunctionXmlBody>(family, in_tags, out);
}

}  // namespace hone::chat
