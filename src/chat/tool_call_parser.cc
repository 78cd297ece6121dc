// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_call_parser.h"

#include <utility>

#include "chat/char_class.h"

namespace hone::chat {
namespace {

// Qwen3-Coder sometimes leaves the outer tag out.
constexpr std::string_view kBareFunctionTag = "<function=";

std::vector<std::string_view> OpenMarkers(const ToolFamily* family) {
  if (family == nullptr) return {};
  if (family->shape == CallShape::kFunctionXml) return {family->open, kBareFunctionTag};
  return {family->open};
}

std::vector<std::string_view> CloseMarkers(const ToolFamily* family) {
  if (family == nullptr) return {};
  return {family->close};
}

std::unique_ptr<CallBody> MakeBody(const ToolFamily& family, std::string_view marker, bool bare,
                                   CallWriter& out) {
  switch (family.shape) {
    case CallShape::kJson:
      return MakeJsonBody(family, bare, out);
    case CallShape::kNamedJson:
      return MakeNamedJsonBody(family, out);
    case CallShape::kParamXml:
      return MakeParamXmlBody(out);
    case CallShape::kFunctionXml:
      return MakeFunctionXmlBody(family, marker == family.open, out);
    default:
      return MakePythonBody(family, bare, out);
  }
}

}  // namespace

ToolCallParser::ToolCallParser(const ToolFamily* family, const ToolSet& tools,
                               const ToolParserOptions& options)
    : family_(tools.empty() ? nullptr : family),
      writer_(tools, options.early, events_),
      open_(OpenMarkers(family_)),
      close_(CloseMarkers(family_)),
      may_be_bare_(family_ != nullptr && family_->bare) {}

std::vector<Event> ToolCallParser::Push(std::string_view text) {
  for (const char c : text) Byte(c);
  return std::exchange(events_, {});
}

std::vector<Event> ToolCallParser::Finish() {
  switch (mode_) {
    case Mode::kText:
      AddContent(open_.Take(), /*malformed=*/false);
      break;
    case Mode::kSkip:
      AddContent(close_.Take(), /*malformed=*/true);
      break;
    case Mode::kCall:
      if (body_->MayEnd()) {
        EndCalls();
        break;
      }
      AddContent(raw_, StopCall(any_call_ || !bare_ || writer_.begun()));
      raw_.clear();
      mode_ = Mode::kText;
      break;
  }
  return std::exchange(events_, {});
}

void ToolCallParser::Byte(char c) {
  switch (mode_) {
    case Mode::kText:
      return TextByte(c);
    case Mode::kSkip:
      return SkipByte(c);
    case Mode::kCall:
      return CallByte(c);
  }
}

void ToolCallParser::AddContent(std::string_view text, bool malformed) {
  for (const char c : text) fence_.Push(c);
  AddEvent({EventKind::kContent, std::string(text), -1, malformed}, events_);
}

void ToolCallParser::TextByte(char c) {
  if (may_be_bare_ && !IsSpace(c)) {
    may_be_bare_ = false;
    const char first = family_->shape == CallShape::kPython ? '[' : '{';
    if (c == first) {
      BeginCalls("", /*bare=*/true);
      return CallByte(c);
    }
  }
  // No marker holds a line end or a backtick, so the fence cannot change while bytes are held.
  if (fence_.inside() && open_.empty()) return AddContent({&c, 1}, /*malformed=*/false);
  std::string released;
  const std::string_view marker = open_.Push(c, released);
  AddContent(released, /*malformed=*/false);
  if (!marker.empty()) BeginCalls(marker, /*bare=*/false);
}

void ToolCallParser::SkipByte(char c) {
  std::string released;
  const std::string_view marker = close_.Push(c, released);
  AddContent(released, /*malformed=*/true);
  if (marker.empty()) return;
  AddContent(marker, /*malformed=*/true);
  mode_ = Mode::kText;
}

void ToolCallParser::BeginCalls(std::string_view marker, bool bare) {
  mode_ = Mode::kCall;
  bare_ = bare;
  any_call_ = refused_ = may_be_bare_ = false;
  raw_ = marker;
  body_ = MakeBody(*family_, marker, bare, writer_);
}

void ToolCallParser::CallByte(char c) {
  raw_.push_back(c);
  const BodyState state = body_->Push(c);
  const CallWriter::Outcome outcome = writer_.TakeOutcome();
  if (outcome != CallWriter::Outcome::kNone) {
    any_call_ = true;
    refused_ = outcome == CallWriter::Outcome::kRefused;
    if (refused_) AddContent(raw_, /*malformed=*/true);
    raw_.clear();
  }
  switch (state) {
    case BodyState::kMore:
      return;
    case BodyState::kEnd:
      return EndCalls();
    case BodyState::kText:
      return GiveUp(/*malformed=*/false);
    case BodyState::kBroken:
      return GiveUp(any_call_ || !bare_ || writer_.begun());
  }
}

void ToolCallParser::EndCalls() {
  // The closing marker belongs to the call in front of it.
  if (refused_) AddContent(raw_, /*malformed=*/true);
  raw_.clear();
  body_.reset();
  mode_ = Mode::kText;
}

bool ToolCallParser::StopCall(bool malformed) {
  malformed = malformed || writer_.started();
  body_.reset();
  writer_.Break("the text ends inside the call", /*tell=*/malformed);
  return malformed;
}

void ToolCallParser::GiveUp(bool malformed) {
  malformed = StopCall(malformed);
  const std::string raw = std::exchange(raw_, {});
  const bool closed = !family_->close.empty() && raw.ends_with(family_->close);
  // Without a closing marker nothing tells where the call would have ended: no marker behind it
  // counts.
  const bool skip = malformed && !closed;
  mode_ = skip ? Mode::kSkip : Mode::kText;
  // The marker in front has been tried, so only a marker that is not complete may count again.
  const std::size_t open = (skip ? close_ : open_).OpenBytes(raw);
  AddContent(std::string_view(raw).substr(0, raw.size() - open), malformed);
  for (std::size_t i = raw.size() - open; i < raw.size(); ++i) Byte(raw[i]);
}

}  // namespace hone::chat
