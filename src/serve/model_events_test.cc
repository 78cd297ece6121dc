// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/model_events.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hone::serve {
namespace {

// Looks at each event while it is there.
class WatchingSink final : public openai::EventSink {
 public:
  explicit WatchingSink(std::function<void(const openai::Event&)> watch)
      : watch_(std::move(watch)) {}
  bool OnEvent(const openai::Event& event) override {
    ++events;
    watch_(event);
    return true;
  }
  void OnDone(const openai::Usage&) override {}
  void OnError(const openai::ApiError&) override {}

  int events = 0;

 private:
  std::function<void(const openai::Event&)> watch_;
};

TEST(ModelEvents, APieceOfTheAnswerIsPassedOnAndNotCopied) {
  chat::ContentDelta delta{.text = std::string(1000, 'x'), .tokens = {{.id = 7}, {.id = 8}}};
  const char* const text = delta.text.data();
  const chat::TokenScore* const tokens = delta.tokens.data();
  const auto sink = std::make_shared<WatchingSink>([&](const openai::Event& event) {
    EXPECT_EQ(event.choice, 2);
    const auto* got = std::get_if<openai::ContentDelta>(&event.what);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(got->text, std::string(1000, 'x'));
    EXPECT_EQ(static_cast<const void*>(got->text.data()), static_cast<const void*>(text));
    EXPECT_EQ(got->tokens.data(), tokens);
  });
  EventAdapter adapter(sink, {});
  EXPECT_TRUE(adapter.OnAnswer(2, std::move(delta)));
  EXPECT_EQ(sink->events, 1);
}

TEST(ModelEvents, AnEndIsOfTheChoice) {
  std::vector<openai::EndReason> reasons;
  const auto sink = std::make_shared<WatchingSink>([&](const openai::Event& event) {
    const auto* end = std::get_if<openai::ChoiceEnd>(&event.what);
    ASSERT_NE(end, nullptr);
    reasons.push_back(end->reason);
  });
  EventAdapter adapter(sink, {});
  EXPECT_TRUE(adapter.OnAnswer(0, chat::AnswerEnd{chat::AnswerEndReason::kLength}));
  EXPECT_TRUE(adapter.OnAnswer(0, chat::AnswerEnd{chat::AnswerEndReason::kStop}));
  EXPECT_EQ(reasons, (std::vector{openai::EndReason::kLength, openai::EndReason::kStop}));
}

TEST(ModelEvents, AnEchoHasTheBytesThatItsTextHas) {
  const std::vector<chat::TokenScore> scores = {
      {.id = 1, .bytes = "<s>"},
      {.id = 2, .bytes = " a", .logprob = -1, .top = {{.id = 3, .bytes = "c", .logprob = -0.5}}},
      {.id = 4, .bytes = " b", .logprob = -2}};
  std::vector<openai::PromptEcho> got;
  const auto sink = std::make_shared<WatchingSink>([&](const openai::Event& event) {
    const auto* echo = std::get_if<openai::PromptEcho>(&event.what);
    ASSERT_NE(echo, nullptr);
    got.push_back(*echo);
  });
  EventAdapter adapter(
      sink, {.n = 2, .echoes = {{}, {.text = "a b", .unseen_tokens = 1, .added_space = true}}});
  EXPECT_TRUE(adapter.OnEcho(0, scores));
  EXPECT_TRUE(adapter.OnEcho(3, scores));  // of the second prompt
  EXPECT_TRUE(adapter.OnEcho(3, {}));      // log-probabilities are not asked for
  ASSERT_EQ(got.size(), 3U);
  ASSERT_EQ(got[0].tokens.size(), 3U);
  EXPECT_EQ(got[0].tokens[0].bytes, "<s>");
  EXPECT_EQ(got[0].tokens[1].bytes, " a");
  EXPECT_EQ(got[1].text, "a b");
  ASSERT_EQ(got[1].tokens.size(), 3U);
  EXPECT_EQ(got[1].tokens[0].bytes, "");
  EXPECT_FALSE(got[1].tokens[0].logprob.has_value());
  EXPECT_EQ(got[1].tokens[1].bytes, "a");
  EXPECT_EQ(got[1].tokens[1].logprob, -1);
  ASSERT_EQ(got[1].tokens[1].top.size(), 1U);
  EXPECT_EQ(got[1].tokens[1].top[0].bytes, "c");
  EXPECT_EQ(got[1].tokens[2].bytes, " b");
  EXPECT_EQ(got[2].text, "a b");
  EXPECT_TRUE(got[2].tokens.empty());
}

}  // namespace
}  // namespace hone::serve
