// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/call_writer.h"

#include <utility>

namespace hone::chat {

void CallWriter::Begin(std::string_view name) {
  if (begun_) return Fail("the call has two names");
  begun_ = true;
  name_ = name;
  tool_ = tools_.Find(name);
  if (tool_ == nullptr) return Fail(StrCat("no tool is named ", Json(name).Dump()));
  if (early_ && !failed()) Start();
}

void CallWriter::Start() {
  started_ = true;
  AddEvent({EventKind::kCallBegin, name_, next_call_}, events_);
  AddEvent({EventKind::kCallArguments, arguments_, next_call_}, events_);
}

void CallWriter::Arguments(std::string_view json) {
  arguments_ += json;
  if (started_ && !failed()) {
    AddEvent({EventKind::kCallArguments, std::string(json), next_call_}, events_);
  }
}

void CallWriter::Fail(std::string reason) {
  if (reason_.empty()) reason_ = std::move(reason);
}

void CallWriter::End() {
  if (!begun_) Fail("the call has no name");
  if (arguments_.empty()) Arguments("{}");
  if (!failed()) {
    const auto parsed = ParseJson(arguments_);
    if (!parsed.ok()) {
      Fail(StrCat("arguments: ", parsed.message()));
    } else if (!parsed->IsObject()) {
      Fail(StrCat("arguments: found ", parsed->TypeName(), ", expected an object"));
    }
  }
  if (failed()) {
    Refuse();
    outcome_ = Outcome::kRefused;
  } else {
    if (!started_) Start();
    AddEvent({EventKind::kCallEnd, std::move(arguments_), next_call_++}, events_);
    outcome_ = Outcome::kAccepted;
  }
  Reset();
}

void CallWriter::Refuse() {
  AddEvent({EventKind::kMalformed, reason_, started_ ? next_call_ : -1}, events_);
  if (started_) ++next_call_;
}

void CallWriter::Break(std::string reason, bool tell) {
  Fail(std::move(reason));
  if (tell || started_) Refuse();
  Reset();
}

CallWriter::Outcome CallWriter::TakeOutcome() { return std::exchange(outcome_, Outcome::kNone); }

void CallWriter::Reset() {
  begun_ = started_ = false;
  name_.clear();
  arguments_.clear();
  reason_.clear();
  tool_ = nullptr;
}

}  // namespace hone::chat
