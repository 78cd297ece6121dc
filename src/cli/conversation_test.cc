// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/conversation.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/test_folder.h"
#include "runtime/tiny_model.h"

namespace hone::cli {
namespace {

runtime::Generation Answer(std::string text, std::vector<std::int32_t> ids,
                           runtime::FinishReason finish = runtime::FinishReason::kStop) {
  runtime::Generation answer;
  answer.text = std::move(text);
  answer.ids = std::move(ids);
  answer.finish = finish;
  return answer;
}

class ChatEnd : public testing::Test {
 protected:
  void SetUp() override {
    auto engine =
        runtime::Engine::FromModel(runtime::MakeTinyModel(), {}, {.num_threads = 1}, "tiny");
    ASSERT_TRUE(engine.ok()) << engine.message();
    engine_ = *std::move(engine);
    auto conversation = OpenConversation(*engine_, "", std::nullopt);
    ASSERT_TRUE(conversation.ok()) << conversation.message();
    talk_ = *std::move(conversation);
  }

  // A message and its answer, as the model and the template would have them.
  void Say(const std::string& text) {
    talk_.messages.push_back(Message("user", text));
    const std::vector<std::int32_t> ids = {1, 2, 3};
    ASSERT_TRUE(engine_->Run({{{talk_.sequence.get(), ids}}}, nullptr).ok());
    EXPECT_TRUE(EndTurn(talk_.messages, Answer("Yes.", {4}), Message("assistant", "Yes.")));
  }

  TestFolder folder_;
  std::string path_ = folder_.File("talk.state");
  std::unique_ptr<runtime::Engine> engine_;
  Conversation talk_;
};

TEST_F(ChatEnd, AnErrorOfAnAnswerKeepsAndSavesWhatWasSaidBefore) {
  Say("Hello.");
  talk_.messages.push_back(Message("user", "And then?"));
  EXPECT_FALSE(EndTurn(talk_.messages, Status(Code::kOutOfMemory, "no memory"), Json()));
  ASSERT_EQ(talk_.messages.size(), 2u);
  const Status ended =
      SaveAfterChat(*engine_, talk_, path_, Status(Code::kOutOfMemory, "no memory"));
  EXPECT_EQ(ended.code(), Code::kOutOfMemory);
  auto again = OpenConversation(*engine_, path_, std::nullopt);
  ASSERT_TRUE(again.ok()) << again.message();
  ASSERT_EQ(again->messages.size(), 2u);
  EXPECT_EQ(again->messages[1].Find("content")->AsString(), "Yes.");
  EXPECT_EQ(again->sequence->size(), 3);
}

TEST_F(ChatEnd, AnErrorOfTheChatGoesBeforeOneOfSaving) {
  Say("Hello.");
  const std::string nowhere = folder_.File("no_such_folder/talk.state");
  EXPECT_EQ(SaveAfterChat(*engine_, talk_, nowhere, Status(Code::kDataLoss, "x")).code(),
            Code::kDataLoss);
  EXPECT_FALSE(SaveAfterChat(*engine_, talk_, nowhere, Status()).ok());
  EXPECT_NE(SaveAfterChat(*engine_, talk_, nowhere, Status(Code::kCancelled, "x")).code(),
            Code::kCancelled);
}

TEST_F(ChatEnd, AnAnswerThatWasStoppedBeforeItsFirstTokenIsNone) {
  talk_.messages.push_back(Message("user", "Hello."));
  EXPECT_FALSE(EndTurn(talk_.messages, Answer("", {}, runtime::FinishReason::kCancelled), Json()));
  EXPECT_TRUE(talk_.messages.empty());
  talk_.messages.push_back(Message("user", "Hello."));
  EXPECT_TRUE(EndTurn(talk_.messages, Answer("Y", {4}, runtime::FinishReason::kCancelled),
                      Message("assistant", "Y")));
  ASSERT_EQ(talk_.messages.size(), 2u);
  EXPECT_EQ(talk_.messages[1].Find("content")->AsString(), "Y");
  // A stop token right away is an answer.
  talk_.messages.push_back(Message("user", "Hello."));
  EXPECT_TRUE(EndTurn(talk_.messages, runtime::Generation(), Message("assistant", "")));
}

TEST_F(ChatEnd, NothingIsSavedWhereTheCacheIsEmpty) {
  EXPECT_TRUE(SaveAfterChat(*engine_, talk_, path_, Status()).ok());
  talk_.messages = {Message("user", "Hello."), Message("assistant", "Yes.")};
  EXPECT_TRUE(SaveAfterChat(*engine_, talk_, path_, Status()).ok());
  EXPECT_TRUE(SaveConversation(*engine_, talk_, path_).ok());
  EXPECT_FALSE(FileExists(path_));
}

}  // namespace
}  // namespace hone::cli
