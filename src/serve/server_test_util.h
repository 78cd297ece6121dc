// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// For tests: models that play a script, a place that knows all of them, and a sink that waits.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "serve/model_registry.h"
#include "serve/openai/backend.h"

namespace hone::serve {

// A request that a fake model was given and keeps until the test, or a cancellation, ends it.
class FakeRequest final : public openai::RunningRequest {
 public:
  FakeRequest(openai::GenerateRequest given, std::shared_ptr<openai::EventSink> sink)
      : request(std::move(given)), sink_(std::move(sink)) {}

  // False: nobody listens, or it is over.
  bool Send(openai::Event event);
  bool Say(std::string text) { return Send({0, openai::ContentDelta{std::move(text)}}); }
  // The end, with this usage.
  void Done(openai::Usage usage = {.prompt_tokens = 7, .completion_tokens = 3, .cached_tokens = 4});
  void Fail(const openai::ApiError& error);
  void Cancel() override;
  bool cancelled();

  const openai::GenerateRequest request;

 private:
  std::mutex mutex_;  // of the sink, which takes one call at a time
  std::shared_ptr<openai::EventSink> sink_;
  bool cancelled_ = false;
};

// What the fake models of a test have in common. They answer "hold ..." when the test says so, and
// all else at once: two words and the end. Thread-safe.
class FakeModels {
 public:
  ModelFactory Factory();
  // An entry with a file of that many bytes.
  ModelEntry MakeEntry(const std::string& name, std::size_t bytes = 1'000);

  // Called by each load, without a lock; may block.
  std::function<Status(const ModelEntry& entry)> on_load = {};

  // Called before a model's Start returns, which may be after the request's end; when a model goes;
  // and when its load is asked for. All without a lock; may block.
  std::function<void(const std::string& name)> on_start = {};
  std::function<void(const std::string& name)> on_close = {};
  std::function<void(const std::string& name)> on_look = {};

  int opened(const std::string& name);
  int closed(const std::string& name);
  // The request that was held as number idx, counted over all models.
  std::shared_ptr<FakeRequest> WaitForHeld(std::size_t idx);
  std::size_t num_held();
  const TestFolder& folder() const { return folder_; }

 private:
  friend class FakeModel;
  TestFolder folder_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, int> opened_, closed_;
  std::vector<std::shared_ptr<FakeRequest>> held_;
};

// Keeps what it is told.
class WaitingSink final : public openai::EventSink {
 public:
  bool OnEvent(const openai::Event& event) override;
  void OnDone(const openai::Usage& usage) override;
  void OnError(const openai::ApiError& error) override;

  // True if it ends in time; then the following are fixed.
  bool WaitForEnd();
  bool over();
  std::string text();
  std::optional<openai::ApiError> error();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool over_ = false;
  std::optional<openai::ApiError> error_;
};

// A chat for a model. Content "hold" is kept by fake models.
openai::GenerateRequest ChatOf(const std::string& model, const std::string& content);

}  // namespace hone::serve
