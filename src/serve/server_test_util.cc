// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/server_test_util.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "serve/http_client.h"

namespace hone::serve {

using openai::ApiError;
using openai::ApiResult;
using openai::Event;

namespace {

std::string LastContent(const openai::GenerateRequest& request) {
  if (!request.chat || request.chat->messages.empty()) return "";
  const Json* content = request.chat->messages.back().Find("content");
  return content != nullptr && content->IsString() ? content->AsString() : "";
}

}  // namespace

bool FakeRequest::Send(Event event) {
  const std::lock_guard lock(mutex_);
  return sink_ != nullptr && sink_->OnEvent(event);
}

void FakeRequest::Done(openai::Usage usage) {
  const std::lock_guard lock(mutex_);
  if (sink_ == nullptr) return;
  for (std::int64_t choice = 0; choice < request.NumChoices(); ++choice) {
    sink_->OnEvent({choice, openai::ChoiceEnd{}});
  }
  std::exchange(sink_, nullptr)->OnDone(usage);
}

void FakeRequest::Fail(const ApiError& error) {
  const std::lock_guard lock(mutex_);
  if (sink_ != nullptr) std::exchange(sink_, nullptr)->OnError(error);
}

void FakeRequest::Cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  Fail(openai::Unavailable("cancelled", "cancelled", 1));
}

bool FakeRequest::cancelled() {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

class FakeModel final : public openai::Backend {
 public:
  FakeModel(FakeModels& all, ModelEntry entry) : all_(all), entry_(std::move(entry)) {
    const std::lock_guard lock(all_.mutex_);
    ++all_.opened_[entry_.name];
  }
  ~FakeModel() override {
    if (all_.on_close) all_.on_close(entry_.name);
    for (const auto& request : requests_) {
      request->Fail(openai::Unavailable("draining", "the model is gone", 1));
    }
    const std::lock_guard lock(all_.mutex_);
    ++all_.closed_[entry_.name];
  }

  std::vector<openai::ModelInfo> Models() override {
    return {{.id = entry_.name,
             .created = entry_.created,
             .fingerprint = "fp_" + entry_.name,
             .context_tokens = entry_.context.value_or(64)}};
  }
  ApiResult<std::shared_ptr<openai::RunningRequest>> Start(
      openai::GenerateRequest request, std::shared_ptr<openai::EventSink> sink) override {
    const std::string content = LastContent(request);
    if (content == "overflow") return openai::ContextOverflow(100, 64);
    auto running = std::make_shared<FakeRequest>(std::move(request), std::move(sink));
    if (content.starts_with("hold")) {
      const std::lock_guard lock(all_.mutex_);
      requests_.push_back(running);
      all_.held_.push_back(running);
    } else {
      running->Say(entry_.name);
      running->Say(" says hello");
      running->Done();
    }
    if (all_.on_start) all_.on_start(entry_.name);
    return std::shared_ptr<openai::RunningRequest>(std::move(running));
  }
  ApiResult<std::vector<openai::TokenPiece>> Tokenize(
      const openai::TokenizeRequest& request) override {
    std::vector<openai::TokenPiece> pieces;
    for (const char c : request.text) pieces.push_back({.id = c});
    return pieces;
  }
  ApiResult<std::string> Detokenize(const openai::DetokenizeRequest& request) override {
    return std::string(request.tokens.begin(), request.tokens.end());
  }
  ApiResult<std::string> Render(const openai::RenderRequest& request) override {
    return Json(request.chat.messages).Dump();
  }

 private:
  FakeModels& all_;
  ModelEntry entry_;
  std::vector<std::shared_ptr<FakeRequest>> requests_;
};

ModelFactory FakeModels::Factory() {
  return [this](const ModelEntry& entry) -> Result<LoadedModel> {
    if (on_load) HONE_TRY(on_load(entry));
    LoadedModel model;
    model.backend = std::make_unique<FakeModel>(*this, entry);
    model.facts.engine = "kernels";
    model.facts.tool_family = "hermes";
    model.facts.thinking = entry.thinking.value_or(false);
    model.facts.warnings = {"it is not real"};
    model.load = [this, name = entry.name] {
      if (on_look) on_look(name);
      return ModelLoad{.active = 2,
                       .waiting = 1,
                       .work = {.runs = 10, .drafted_tokens = 20, .accepted_tokens = 9}};
    };
    return model;
  };
}

ModelEntry FakeModels::MakeEntry(const std::string& name, std::size_t bytes) {
  folder_.Write(name + ".gguf", std::string(bytes, 'x'));
  return {.name = name, .path = folder_.File(name + ".gguf")};
}

int FakeModels::opened(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return opened_[name];
}
int FakeModels::closed(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return closed_[name];
}
std::size_t FakeModels::num_held() {
  const std::lock_guard lock(mutex_);
  return held_.size();
}

std::shared_ptr<FakeRequest> FakeModels::WaitForHeld(std::size_t idx) {
  EXPECT_TRUE(Eventually([&] { return num_held() > idx; }));
  const std::lock_guard lock(mutex_);
  return held_.at(idx);
}

bool WaitingSink::OnEvent(const Event& event) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(over_);
  if (const auto* delta = std::get_if<openai::ContentDelta>(&event.what)) text_ += delta->text;
  return true;
}

void WaitingSink::OnDone(const openai::Usage&) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(over_);
  over_ = true;
  changed_.notify_all();
}

void WaitingSink::OnError(const ApiError& error) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(over_);
  over_ = true;
  error_ = error;
  changed_.notify_all();
}

bool WaitingSink::WaitForEnd() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return over_; });
}

bool WaitingSink::over() {
  const std::lock_guard lock(mutex_);
  return over_;
}
std::string WaitingSink::text() {
  const std::lock_guard lock(mutex_);
  return text_;
}
std::optional<ApiError> WaitingSink::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

openai::GenerateRequest ChatOf(const std::string& model, const std::string& content) {
  openai::GenerateRequest request;
  request.model = model;
  request.chat.emplace();
  request.chat->messages.push_back(
      Json(Json::Object{{"role", "user"}, {"content", Json(content)}}));
  return request;
}

}  // namespace hone::serve
