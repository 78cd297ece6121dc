// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// For tests of the host: a small model with a real tokenizer, and a sink that keeps what it gets.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "chat/model_host.h"
#include "runtime/decode_loop.h"
#include "runtime/tiny_model.h"

namespace hone::chat {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kTestVocab = 704;  // of them 645 have a piece

inline std::unique_ptr<runtime::Engine> MakeTestEngine(std::int64_t max_positions = 700,
                                                       std::uint64_t prefix_bytes = 64 << 20) {
  auto text = runtime::LoadText(HONE_SHARED_DATA "/golden/families/llama-gqa8/hf", nullptr);
  EXPECT_TRUE(text.ok()) << text.message();
  auto engine = runtime::Engine::FromModel(
      runtime::MakeTinyModel({.vocab = kTestVocab, .max_positions = max_positions}),
      *std::move(text), {.num_threads = 1, .prefix_cache_bytes = prefix_bytes}, "tiny");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

// Ids of ordinary tokens.
inline Ids MakeTestIds(std::size_t count, std::size_t salt) {
  Ids ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>(4 + (i * 31 + i * i * (7 + salt) + 5 * salt) % 600));
  }
  return ids;
}

inline Prompt IdsPrompt(Ids ids) {
  Prompt prompt;
  prompt.ids = std::move(ids);
  return prompt;
}

// What Generate answers, without a host.
inline runtime::Generation Alone(runtime::Engine& engine, const Ids& prompt,
                                 const runtime::SamplerOptions& sampler, std::int64_t tokens,
                                 std::vector<std::string> stop = {}) {
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok()) << sequence.message();
  runtime::GenerateOptions options;
  options.sampler = sampler;
  options.max_tokens = tokens;
  options.stop_strings = std::move(stop);
  auto answer = runtime::Generate(engine, **sequence, prompt, options);
  EXPECT_TRUE(answer.ok()) << answer.message();
  return answer.ok() ? *std::move(answer) : runtime::Generation{};
}

inline runtime::SamplerOptions HotSampler(std::uint64_t seed) {
  return {.temperature = 1.3F, .top_k = 60, .top_p = 0.97F, .seed = seed};
}

class RecordingJob final : public JobSink {
 public:
  struct Choice {
    std::string text;
    std::vector<TokenScore> tokens;
    std::vector<TokenScore> echo;
    int events = 0, echoes = 0, ends = 0;
    AnswerEndReason reason = AnswerEndReason::kError;
  };

  bool OnAnswer(std::int64_t choice, AnswerEvent event) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      EXPECT_EQ(ends_, 0);
      Choice& to = choices_[choice];
      EXPECT_EQ(to.ends, 0);
      ++to.events;
      if (const auto* delta = std::get_if<ContentDelta>(&event)) {
        to.text += delta->text;
        to.tokens.insert(to.tokens.end(), delta->tokens.begin(), delta->tokens.end());
      }
      if (const auto* end = std::get_if<AnswerEnd>(&event)) {
        ++to.ends;
        to.reason = end->reason;
      }
    }
    return on_answer ? on_answer(choice, event) : true;
  }
  bool OnEcho(std::int64_t choice, std::span<const TokenScore> scores) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      Choice& to = choices_[choice];
      EXPECT_EQ(to.events, 0);
      ++to.echoes;
      to.echo.assign(scores.begin(), scores.end());
    }
    return on_echo ? on_echo() : true;
  }
  bool OnProgress(std::int64_t done, std::int64_t total) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      EXPECT_LE(done, total);
      progress_.emplace_back(done, total);
    }
    return on_progress ? on_progress(done) : true;
  }
  void OnEnd(const Status& status, const JobUsage& usage) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++ends_;
      code_ = status.code();
      message_ = status.message();
      usage_ = usage;
      changed_.notify_all();
    }
    if (on_end) on_end();
  }

  // Waits for the end, and fails if it does not come.
  void WaitEnd() {
    std::unique_lock<std::mutex> lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::minutes(5), [&] { return ends_ > 0; }));
    EXPECT_EQ(ends_, 1);
  }
  // After the end, but for events and over.
  const Choice& choice(std::int64_t index) { return choices_[index]; }
  int events(std::int64_t index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return choices_[index].events;
  }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const JobUsage& usage() const { return usage_; }
  const std::vector<std::pair<std::int64_t, std::int64_t>>& progress() const { return progress_; }
  bool over() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ends_ > 0;
  }

  // Set before the job is given away.
  std::function<bool(std::int64_t choice, const AnswerEvent& event)> on_answer;
  std::function<bool(std::int64_t done)> on_progress;
  std::function<bool()> on_echo;
  std::function<void()> on_end;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Choice> choices_;
  std::vector<std::pair<std::int64_t, std::int64_t>> progress_;
  int ends_ = 0;
  Code code_ = Code::kOk;
  std::string message_;
  JobUsage usage_;
};

// Holds the thread of a host inside an event until it is opened.
class Gate {
 public:
  // Passes at once after Open.
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void WaitReached() {
    std::unique_lock<std::mutex> lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::minutes(5), [this] { return reached_; }));
  }
  bool is_open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return open_;
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false, open_ = false;
};

}  // namespace hone::chat
