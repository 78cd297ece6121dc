// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// {"name": "f", "arguments": {...}}, alone, one after another, or in a list.
#include <optional>
#include <utility>

#include "chat/call_body.h"
#include "chat/char_class.h"
#include "chat/json_scanner.h"

namespace hone::chat {
namespace {

// The bytes that a string of JSON needs for c. Models write line ends in strings as they are, which
// JSON forbids.
std::string StringBytes(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return std::string(1, c);
  }
}

class JsonBody : public CallBody {
 public:
  JsonBody(const ToolFamily& family, bool bare, CallWriter& out)
      : close_(family.close), bare_(bare), out_(out) {}

  BodyState Push(char c) override {
    switch (place_) {
      case Place::kKeyText:
      case Place::kValue:
        return ScanByte(c);
      case Place::kClose:
        return CloseByte(c);
      default:
        return IsSpace(c) ? BodyState::kMore : PlaceByte(c);
    }
  }

  bool MayEnd() const override {
    return place_ == Place::kAfterCall || place_ == Place::kAfterList || place_ == Place::kClose;
  }

 private:
  enum class Place : std::uint8_t {
    kStart,      // { or [
    kFirstItem,  // in a list: { or ]
    kItem,       // in a list, after a comma: {
    kFirstKey,   // a key or }
    kKey,        // a key
    kKeyText,    // inside it
    kColon,      // after it
    kBeforeValue,
    kValue,
    kAfterValue,  // , or }
    kAfterCall,   // what may follow a call
    kAfterList,   // the closing marker
    kClose,       // inside it
  };
  enum class Member : std::uint8_t { kName, kArguments, kOther };

  BodyState Broken(std::string reason) {
    out_.Fail(std::move(reason));
    return BodyState::kBroken;
  }
  BodyState Go(Place place) {
    place_ = place;
    return BodyState::kMore;
  }

  // A byte between texts and values; no white space.
  BodyState PlaceByte(char c) {
    switch (place_) {
      case Place::kStart:
        if (c != '[') return BeginCall(c);
        in_list_ = true;
        return Go(Place::kFirstItem);
      case Place::kFirstItem:
        return c == ']' ? EndList() : BeginCall(c);
      case Place::kItem:
        return BeginCall(c);
      case Place::kFirstKey:
        if (c == '}') return EndCall();
        [[fallthrough]];
      case Place::kKey:
        if (c != '"') return Broken("a key must come here");
        text_.clear();
        scanner_.emplace();
        place_ = Place::kKeyText;
        return ScanByte(c);
      case Place::kColon:
        return c == ':' ? Go(Place::kBeforeValue) : Broken("a colon must come after a key");
      case Place::kBeforeValue:
        return BeginValue(c);
      case Place::kAfterValue:
        if (c == ',') return Go(Place::kKey);
        return c == '}' ? EndCall() : Broken("a comma or } must come after a value");
      case Place::kAfterCall:
        return AfterCall(c);
      default:  // kAfterList
        place_ = Place::kClose;
        return CloseByte(c);
    }
  }

  BodyState BeginCall(char c) {
    if (c != '{') return Broken("a JSON object must come here");
    has_arguments_ = false;
    return Go(Place::kFirstKey);
  }

  BodyState EndCall() {
    // Without arguments a bare object is more likely an answer in JSON.
    if (bare_ && !(out_.begun() && has_arguments_)) return BodyState::kText;
    out_.End();
    return Go(Place::kAfterCall);
  }

  BodyState EndList() {
    if (close_.empty()) return BodyState::kEnd;
    return Go(Place::kAfterList);
  }

  BodyState AfterCall(char c) {
    if (in_list_) {
      if (c == ',') return Go(Place::kItem);
      return c == ']' ? EndList() : Broken("a comma or ] must come after a call in a list");
    }
    if (c == '{') return BeginCall(c);
    if (!close_.empty()) {
      place_ = Place::kClose;
      return CloseByte(c);
    }
    return c == ';' || c == ',' ? BodyState::kMore : BodyState::kText;
  }

  BodyState CloseByte(char c) {
    switch (close_.Push(c)) {
      case WordMatcher::State::kMore:
        return BodyState::kMore;
      case WordMatcher::State::kDone:
        return BodyState::kEnd;
      default:
        return Broken("other text comes before the end of the call");
    }
  }

  BodyState BeginValue(char c) {
    if (key_ == "name" || key_ == "function") {
      member_ = Member::kName;
    } else if (key_ == "arguments" || key_ == "parameters") {
      if (has_arguments_) return Broken("the call has two arguments");
      has_arguments_ = true;
      member_ = Member::kArguments;
    } else {
      if (bare_ && key_ != "type" && key_ != "id") return BodyState::kText;
      member_ = Member::kOther;
    }
    streams_ = member_ == Member::kArguments && c == '{';
    text_.clear();
    scanner_.emplace();
    place_ = Place::kValue;
    return ScanByte(c);
  }

  // A byte of a key or of a value.
  BodyState ScanByte(char c) {
    const std::string bytes = scanner_->in_string() ? StringBytes(c) : std::string(1, c);
    JsonScanner::State state = JsonScanner::State::kMore;
    for (const char byte : bytes) state = scanner_->Push(byte);
    if (state == JsonScanner::State::kBroken) return Broken("the call is not valid JSON");
    if (state == JsonScanner::State::kDoneBefore) {
      const BodyState ended = EndValue();
      return ended == BodyState::kMore ? Push(c) : ended;
    }
    if (streams_ && place_ == Place::kValue) {
      out_.Arguments(bytes);
    } else {
      text_ += bytes;
    }
    if (state == JsonScanner::State::kMore) return BodyState::kMore;
    if (place_ == Place::kValue) return EndValue();
    const auto key = ParseJson(text_);
    if (!key.ok()) return Broken("a key is not valid JSON");
    key_ = key->AsString();
    return Go(Place::kColon);
  }

  BodyState EndValue() {
    place_ = Place::kAfterValue;
    if (streams_ || member_ == Member::kOther) return BodyState::kMore;
    const auto value = ParseJson(text_);
    if (!value.ok()) return Broken("the call is not valid JSON");
    if (member_ == Member::kName) return EndName(*value);
    // Some models write the arguments as JSON inside a string, or null for none.
    if (value->IsString()) {
      out_.Arguments(value->AsString());
    } else if (!value->IsNull()) {
      out_.Fail(StrCat("arguments: found ", value->TypeName(), ", expected an object"));
    }
    return BodyState::kMore;
  }

  BodyState EndName(const Json& value) {
    if (!value.IsString()) {
      // {"type": "function", "function": {...}} is not how any of these families calls.
      if (key_ == "name") out_.Fail(StrCat("name: found ", value.TypeName()));
      return BodyState::kMore;
    }
    if (bare_ && !out_.Knows(value.AsString())) return BodyState::kText;
    out_.Begin(value.AsString());
    return BodyState::kMore;
  }

  WordMatcher close_;
  bool bare_;
  CallWriter& out_;
  Place place_ = Place::kStart;
  bool in_list_ = false;
  bool has_arguments_ = false;
  bool streams_ = false;  // the value goes to the writer byte by byte
  Member member_ = Member::kOther;
  std::string key_, text_;
  std::optional<JsonScanner> scanner_;
};

// Mistral: name[ARGS]{...}, or name[CALL_ID]id[ARGS]{...}, or (older) a list of objects.
class NamedJsonBody : public CallBody {
 public:
  NamedJsonBody(const ToolFamily& family, CallWriter& out) : out_(out), list_(family, false, out) {}

  BodyState Push(char c) override {
    switch (place_) {
      case Place::kStart:
        if (IsSpace(c)) return BodyState::kMore;
        place_ = c == '[' ? Place::kList : Place::kName;
        return Push(c);
      case Place::kList:
        return list_.Push(c);
      case Place::kName:
        return NameByte(c);
      case Place::kTag:
        return TagByte(c);
      case Place::kId:
        if (c == '[') return BeginTag();
        return IsNameByte(c) ? BodyState::kMore : Broken("the call id is wrong");
      case Place::kBeforeArguments:
        if (IsSpace(c)) return BodyState::kMore;
        if (c != '{') return Broken("the arguments are no object");
        place_ = Place::kArguments;
        return ArgumentByte(c);
      default:
        return ArgumentByte(c);
    }
  }

  bool MayEnd() const override { return place_ == Place::kList && list_.MayEnd(); }

 private:
  enum class Place : std::uint8_t { kStart, kList, kName, kTag, kId, kBeforeArguments, kArguments };

  BodyState Broken(std::string reason) {
    out_.Fail(std::move(reason));
    return BodyState::kBroken;
  }

  BodyState NameByte(char c) {
    if (IsNameByte(c)) {
      name_.push_back(c);
      return BodyState::kMore;
    }
    if (name_.empty() || (c != '[' && c != '{' && !IsSpace(c)))
      return Broken("a name must come here");
    out_.Begin(name_);
    if (c == '[') return BeginTag();
    place_ = Place::kBeforeArguments;
    return Push(c);
  }

  BodyState BeginTag() {
    place_ = Place::kTag;
    tag_ = "[";
    return BodyState::kMore;
  }

  BodyState TagByte(char c) {
    tag_.push_back(c);
    if (tag_ == "[ARGS]") {
      place_ = Place::kBeforeArguments;
    } else if (tag_ == "[CALL_ID]") {
      place_ = Place::kId;
    } else if (!std::string_view("[ARGS]").starts_with(tag_) &&
               !std::string_view("[CALL_ID]").starts_with(tag_)) {
      return Broken("[ARGS] must come after the name");
    }
    return BodyState::kMore;
  }

  BodyState ArgumentByte(char c) {
    const std::string bytes = scanner_.in_string() ? StringBytes(c) : std::string(1, c);
    JsonScanner::State state = JsonScanner::State::kMore;
    for (const char byte : bytes) state = scanner_.Push(byte);
    if (state == JsonScanner::State::kBroken) return Broken("the arguments are not valid JSON");
    out_.Arguments(bytes);
    if (state == JsonScanner::State::kMore) return BodyState::kMore;
    out_.End();
    return BodyState::kEnd;
  }

  CallWriter& out_;
  JsonBody list_;
  Place place_ = Place::kStart;
  std::string name_, tag_;
  JsonScanner scanner_;
};

}  // namespace

std::unique_ptr<CallBody> MakeJsonBody(const ToolFamily& family, bool bare, CallWriter& out) {
  return std::make_unique<JsonBody>(family, bare, out);
}

std::unique_ptr<CallBody> MakeNamedJsonBody(const ToolFamily& family, CallWriter& out) {
  return std::make_unique<NamedJsonBody>(family, out);
}

}  // namespace hone::chat
