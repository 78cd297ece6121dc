// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// [f(a=1), g(b="x")]: Llama 3.2 and 4, LFM2 and other small models.
#include <utility>

#include "chat/argument_builder.h"
#include "chat/call_body.h"
#include "chat/char_class.h"

namespace hone::chat {
namespace {

// Follows one Python expression up to the comma or bracket behind it.
class ExpressionScanner {
 public:
  void Reset() { *this = ExpressionScanner(); }
  // False: c is behind the expression, or closes a bracket that is not open.
  bool Push(char c) {
    if (quote_ != 0) {
      StringByte(c);
      return true;
    }
    if (c == '"' || c == '\'') {
      // A third quote after two makes them the begin of a long string.
      if (run_ == 2 && c == run_quote_) {
        quote_ = c;
        long_ = true;
        run_ = 0;
        return true;
      }
      quote_ = c;
      long_ = false;
      run_ = 1;
      run_quote_ = c;
      return true;
    }
    run_ = 0;
    if (c == '(' || c == '[' || c == '{') {
      open_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() || open_.back() != c) return false;
      open_.pop_back();
    } else if (c == ',' && open_.empty()) {
      return false;
    }
    return true;
  }

 private:
  void StringByte(char c) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
      closing_ = 0;
      run_ = 0;
      return;
    } else if (c == quote_) {
      if (!long_) {
        quote_ = 0;
        run_ = run_ == 1 ? 2 : 0;  // empty so far: may be a long string
        return;
      }
      if (++closing_ == 3) {
        quote_ = 0;
        closing_ = 0;
      }
      return;
    }
    closing_ = 0;
    run_ = 0;
  }

  std::string open_;   // the closing brackets that must come, the next one last
  char quote_ = 0;     // of the string that is open, or 0
  bool long_ = false;  // its quotes are three
  bool escaped_ = false;
  int closing_ = 0;  // quotes seen that may end a long string
  int run_ = 0;      // 1 after an opening quote, 2 after an empty string
  char run_quote_ = 0;
};

class PythonBody : public CallBody {
 public:
  PythonBody(const ToolFamily& family, bool bare, CallWriter& out)
      : family_(family), bare_(bare), close_(family.close), out_(out), arguments_(out) {}

  BodyState Push(char c) override {
    if (json_) return json_->Push(c);
    switch (place_) {
      case Place::kName:
        return NameByte(c);
      case Place::kKey:
        return KeyByte(c);
      case Place::kValue:
        return ValueByte(c);
      case Place::kClose:
        return CloseByte(c);
      default:
        return IsSpace(c) ? BodyState::kMore : PlaceByte(c);
    }
  }

  bool MayEnd() const override {
    if (json_) return json_->MayEnd();
    return place_ == Place::kAfterCall || place_ == Place::kAfterList || place_ == Place::kClose;
  }

 private:
  enum class Place : std::uint8_t {
    kStart,     // [
    kCall,      // a name
    kName,      // inside it, up to (
    kArgument,  // a name or )
    kKey,       // inside it, up to =
    kValue,
    kAfterValue,  // , or )
    kAfterCall,   // , or ]
    kAfterList,   // the closing marker
    kClose,       // inside it
  };

  BodyState Broken(std::string reason) {
    out_.Fail(std::move(reason));
    return BodyState::kBroken;
  }

  BodyState PlaceByte(char c) {
    switch (place_) {
      case Place::kStart:
        if (c != '[') return Broken("a list of calls must come here");
        place_ = Place::kCall;
        return BodyState::kMore;
      case Place::kCall:
        return BeginCall(c);
      case Place::kArgument:
        if (c == ')') return EndCall();
        place_ = Place::kKey;
        return KeyByte(c);
      case Place::kAfterValue:
        if (c == ')') return EndCall();
        if (c != ',') return Broken("a comma or ) must come after an argument");
        place_ = Place::kArgument;
        return BodyState::kMore;
      case Place::kAfterCall:
        if (c == ']') return EndList();
        if (c != ',') return Broken("a comma or ] must come after a call");
        place_ = Place::kCall;
        return BodyState::kMore;
      default:  // kAfterList
        place_ = Place::kClose;
        return CloseByte(c);
    }
  }

  BodyState BeginCall(char c) {
    if (c == ']') return EndList();
    if (c == '{' && !bare_ && !any_) {
      // LFM2's own templates show calls as a JSON list in the same markers.
      json_ = MakeJsonBody(family_, /*bare=*/false, out_);
      json_->Push('[');
      return json_->Push(c);
    }
    if (!IsLetter(c) && c != '_') return Broken("the name of a tool must come here");
    text_ = c;
    place_ = Place::kName;
    return BodyState::kMore;
  }

  BodyState NameByte(char c) {
    if (IsNameByte(c)) {
      text_.push_back(c);
      return BodyState::kMore;
    }
    if (c != '(') return Broken("( must come after the name of a tool");
    if (bare_ && !any_ && !out_.Knows(text_)) return BodyState::kText;
    any_ = true;
    arguments_.Begin(text_);
    text_.clear();
    place_ = Place::kArgument;
    return BodyState::kMore;
  }

  BodyState KeyByte(char c) {
    if (c == '=') {
      key_ = TrimSpace(text_);
      text_.clear();
      scanner_.Reset();
      place_ = Place::kValue;
      return key_.empty() ? Broken("an argument needs a name") : BodyState::kMore;
    }
    if (!IsNameByte(c) && !IsSpace(c)) return Broken("an argument needs a name");
    text_.push_back(c);
    return BodyState::kMore;
  }

  BodyState ValueByte(char c) {
    if (scanner_.Push(c)) {
      text_.push_back(c);
      return BodyState::kMore;
    }
    arguments_.AddPython(key_, text_);
    text_.clear();
    place_ = Place::kAfterValue;
    return PlaceByte(c);
  }

  BodyState EndCall() {
    arguments_.End();
    place_ = Place::kAfterCall;
    return BodyState::kMore;
  }

  BodyState EndList() {
    if (bare_ || close_.empty()) return BodyState::kEnd;
    place_ = Place::kAfterList;
    return BodyState::kMore;
  }

  BodyState CloseByte(char c) {
    switch (close_.Push(c)) {
      case WordMatcher::State::kMore:
        return BodyState::kMore;
      case WordMatcher::State::kDone:
        return BodyState::kEnd;
      default:
        return Broken("other text comes before the end of the calls");
    }
  }

  const ToolFamily& family_;
  bool bare_;
  WordMatcher close_;
  CallWriter& out_;
  ArgumentBuilder arguments_;
  std::unique_ptr<CallBody> json_;
  Place place_ = Place::kStart;
  bool any_ = false;  // a call has begun
  ExpressionScanner scanner_;
  std::string key_, text_;
};

}  // namespace

std::unique_ptr<CallBody> MakePythonBody(const ToolFamily& family, bool bare, CallWriter& out) {
  return std::make_unique<PythonBody>(family, bare, out);
}

}  // namespace hone::chat
