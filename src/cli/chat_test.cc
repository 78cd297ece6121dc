// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A chat with a tiny model: 256 tokens of context, a template that knows thinking.
#include "cli/chat.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/test_folder.h"
#include "cli/chat_file.h"
#include "cli/cli.h"
#include "cli/scripted_lines.h"

namespace hone::cli {
namespace {

// Text of that many tokens.
std::string Tokens(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "123";
  return text;
}

// Looks at the flag of Ctrl-C before each line, as the other sources do.
class InterruptedLines : public ScriptedLines {
 public:
  // Ctrl-C comes behind that many lines, before the chat does what they say.
  InterruptedLines(std::size_t after, std::vector<std::string> lines, bool is_terminal)
      : ScriptedLines(std::move(lines), is_terminal), after_(after) {
    if (after_ == 0) ::raise(SIGINT);
  }
  LineRead Read(const std::string& prompt, std::string_view initial) override {
    if (CancelFlag()->load()) return {LineEvent::kInterrupted, ""};
    LineRead read = ScriptedLines::Read(prompt, initial);
    if (++count_ == after_) ::raise(SIGINT);
    return read;
  }

 private:
  std::size_t after_;
  std::size_t count_ = 0;
};

class ChatTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    runtime::EngineOptions options;
    options.num_threads = 1;
    auto engine = runtime::Engine::Open(
        std::string(HONE_SHARED_DATA) + "/golden/families/llama-gqa8/hf", options);
    ASSERT_TRUE(engine.ok()) << engine.message();
    engine_ = engine->release();
  }
  static void TearDownTestSuite() { delete engine_; }

  void SetUp() override {
    args_.sampling.temperature = 1.0F;
    args_.sampling.seed = 1;
    args_.sampling.max_tokens = 4;
  }

  std::string Path() const { return folder_.File("talk.json"); }

  // Has a chat of these lines; out_ and err_ are what it printed.
  Status Talk(std::vector<std::string> lines, bool is_terminal = true) {
    ScriptedLines source(std::move(lines), is_terminal);
    return Talk(source);
  }
  // The same, with a real Ctrl-C when that many lines have been read.
  Status TalkWithCtrlC(std::size_t after, std::vector<std::string> lines, bool is_terminal = true) {
    CancelFlag();  // the handler
    InterruptedLines source(after, std::move(lines), is_terminal);
    Status ended = Talk(source);
    EXPECT_FALSE(CancelFlag()->load()) << "the Ctrl-C was not seen";
    ResetCancelFlag();
    return ended;
  }
  Status Talk(ScriptedLines& source) {
    auto conversation = OpenConversation(*engine_, "", args_.system);
    if (!conversation.ok()) return std::move(conversation).status();
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Status ended = Chat(args_, *engine_, *std::move(conversation), source, ChatLook()).Run();
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    initials_ = source.initials();
    return ended;
  }

  // The conversation that the lines lead to. They must not end the chat.
  Json::Array Messages(std::vector<std::string> lines) {
    lines.push_back("/save " + Path());
    const Status ended = Talk(std::move(lines));
    EXPECT_TRUE(ended.ok()) << ended.message();
    auto messages = LoadMessages(Path());
    EXPECT_TRUE(messages.ok()) << messages.message();
    return messages.ok() ? *messages : Json::Array();
  }
  static std::string Content(const Json::Array& messages, std::size_t index) {
    return index < messages.size() ? messages[index].Find("content")->AsString() : "missing";
  }

  static runtime::Engine* engine_;
  TestFolder folder_;
  RunArgs args_;
  std::string out_, err_;
  std::vector<std::string> initials_;
};
runtime::Engine* ChatTest::engine_ = nullptr;

TEST_F(ChatTest, KeepsMessagesAndAnswers) {
  const Json::Array messages = Messages({"Hello.", "//etc"});
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(Content(messages, 0), "Hello.");
  EXPECT_EQ(Content(messages, 2), "/etc");
  EXPECT_EQ(out_.rfind(Content(messages, 1) + "\n", 0), 0u) << out_;
}

TEST_F(ChatTest, DoesNotSendWhatLooksLikeACommand) {
  EXPECT_TRUE(Messages({"/clera", "/save"}).empty());
  EXPECT_NE(err_.find("did you mean /clear?"), std::string::npos) << err_;
  EXPECT_NE(err_.find("/save: expected the name of a file"), std::string::npos) << err_;
}

TEST_F(ChatTest, RetryAnswersAgainWithAnotherSeed) {
  const Json::Array first = Messages({"Hello."});
  const Json::Array again = Messages({"Hello.", "/retry"});
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(Content(again, 0), "Hello.");
  EXPECT_NE(Content(again, 1), Content(first, 1));
  args_.sampling.seed = 2;
  EXPECT_EQ(Content(Messages({"Hello."}), 1), Content(again, 1));
  Messages({"/retry"});
  EXPECT_NE(err_.find("there is no message to answer"), std::string::npos) << err_;
}

TEST_F(ChatTest, UndoTakesTheLastTurnBack) {
  const Json::Array messages = Messages({"One.", "Two.", "/undo"});
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(Content(messages, 0), "One.");
  EXPECT_TRUE(Messages({"One.", "/undo", "/undo"}).empty());
  EXPECT_NE(err_.find("there is no message to take back"), std::string::npos) << err_;
}

TEST_F(ChatTest, EditChangesTheLastMessage) {
  Json::Array messages = Messages({"One.", "/edit", "/Two."});
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(Content(messages, 0), "/Two.");
  EXPECT_EQ(initials_[2], "One.");
  messages = Messages({"One.", "/edit Three."});
  EXPECT_EQ(Content(messages, 0), "Three.");
  messages = Messages({"One.", "/edit", ScriptedLines::kInterrupt});
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(Content(messages, 0), "One.");
}

TEST_F(ChatTest, SystemSetsShowsAndRemovesTheFirstMessage) {
  Json::Array messages = Messages({"Hi", "/system Be brief.", "/system"});
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(Content(messages, 0), "Be brief.");
  EXPECT_NE(out_.find("The system message: Be brief.\n"), std::string::npos) << out_;
  EXPECT_EQ(Messages({"Hi", "/system Be brief.", "/clear"}).size(), 1u);
  EXPECT_TRUE(Messages({"/system Be brief.", "/system \"\""}).empty());
}

TEST_F(ChatTest, SaveAndLoadComeRound) {
  const Json::Array saved = Messages({"One.", "Two."});
  const std::string copy = folder_.File("copy.json");
  ASSERT_TRUE(Talk({"/load " + Path(), "/save " + copy, "/tokens"}).ok());
  EXPECT_EQ(Json(*LoadMessages(copy)).Dump(), Json(saved).Dump());
  EXPECT_NE(out_.find("4 messages from "), std::string::npos) << out_;
}

TEST_F(ChatTest, ADamagedFileLeavesTheConversation) {
  folder_.Write("bad.json", R"([{"role":"user","content":"x"},{"role":"user")");
  const Json::Array messages = Messages({"One.", "/load " + folder_.File("bad.json")});
  EXPECT_EQ(Content(messages, 0), "One.");
  EXPECT_NE(err_.find("bad.json: is no JSON"), std::string::npos) << err_;
  EXPECT_NE(err_.find("stays as it is"), std::string::npos) << err_;
}

TEST_F(ChatTest, AMessageThatDoesNotFitIsRefusedWithTheNumbersAndTheChatGoesOn) {
  const std::string longer = Tokens(300);
  const Json::Array messages = Messages({"One.", longer, "Two."});
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(Content(messages, 2), "Two.");
  EXPECT_NE(err_.find(" tokens, but the context holds 256"), std::string::npos) << err_;
}

TEST_F(ChatTest, TrimLetsTheOldestTurnsGo) {
  args_.system = "Be brief.";
  args_.on_full = "trim";
  const std::string some = Tokens(70);
  const Json::Array messages = Messages({"One. " + some, "Two. " + some, "Three. " + some});
  ASSERT_GE(messages.size(), 3u);
  EXPECT_EQ(Content(messages, 0), "Be brief.");
  EXPECT_EQ(Content(messages, 1).rfind("T", 0), 0u) << Content(messages, 1);
  EXPECT_EQ(Content(messages, messages.size() - 2).rfind("Three.", 0), 0u);
  EXPECT_NE(err_.find("oldest messages have left the conversation"), std::string::npos) << err_;
}

TEST_F(ChatTest, AFullContextEndsTheAnswerAndSaysSo) {
  args_.sampling.max_tokens.reset();
  const std::string some = Tokens(230);
  const Json::Array messages = Messages({some, "More."});
  EXPECT_EQ(Content(messages, 0), some);
  const bool ended = err_.find("the context of 256 tokens is full") != std::string::npos;
  const bool refused = err_.find("but the context holds 256") != std::string::npos;
  EXPECT_TRUE(ended || refused) << err_;
}

TEST_F(ChatTest, TokensStatsAndSettings) {
  ASSERT_TRUE(Talk({"/stats", "/tokens", "Hello.", "/tokens", "/stats", "/set", "/set top-k 7",
                    "/set", "/set heat 1", "/set on-full trim", "/think", "/think off", "/think x"})
                  .ok());
  EXPECT_NE(out_.find("Nothing has been answered yet.\n"), std::string::npos);
  EXPECT_NE(out_.find("0 of 256 tokens (0.0 %), 256 free\n"), std::string::npos) << out_;
  EXPECT_NE(out_.find("    1 user "), std::string::npos) << out_;
  EXPECT_NE(out_.find("    2 assistant "), std::string::npos) << out_;
  EXPECT_NE(out_.find("  prefill "), std::string::npos) << out_;
  EXPECT_NE(out_.find("All 1 answers:\n"), std::string::npos) << out_;
  EXPECT_NE(out_.find("  top-k               50\n"), std::string::npos) << out_;
  EXPECT_NE(out_.find("  top-k               7\n"), std::string::npos) << out_;
  EXPECT_NE(out_.find("Thinking is auto, and shown.\n"), std::string::npos) << out_;
  EXPECT_NE(err_.find("\"heat\" cannot be set"), std::string::npos) << err_;
  EXPECT_NE(err_.find("/think: found x"), std::string::npos) << err_;
}

TEST_F(ChatTest, NamesOfControlTokensAreText) {
  const chat::ChatModel model(*engine_);
  const auto count_ends = [&](const char* text) {
    const auto prompt = MakeChatPrompt(model, {Message("user", text)}, PromptOptions());
    EXPECT_TRUE(prompt.ok()) << prompt.message();
    const std::int32_t end = *engine_->text().tokenizer->TokenId("<|im_end|>");
    return prompt.ok() ? std::count(prompt->ids.begin(), prompt->ids.end(), end) : -1;
  };
  EXPECT_EQ(count_ends("a b"), 1);
  EXPECT_EQ(count_ends("a<|im_end|>b"), 1);
}

TEST_F(ChatTest, TwoInterruptsInARowLeave) {
  const char* interrupt = ScriptedLines::kInterrupt;
  EXPECT_TRUE(Talk({interrupt, "/help", interrupt}).ok());
  EXPECT_NE(out_.find("/retry"), std::string::npos);
  EXPECT_EQ(Talk({interrupt, interrupt, "/help"}).code(), Code::kCancelled);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(Talk({interrupt, "/help"}, /*is_terminal=*/false).code(), Code::kCancelled);
}

TEST_F(ChatTest, CtrlCBeforeTheFirstLineIsNotLost) {
  EXPECT_EQ(TalkWithCtrlC(0, {"/help"}, /*is_terminal=*/false).code(), Code::kCancelled);
  EXPECT_EQ(out_, "");
  EXPECT_TRUE(TalkWithCtrlC(0, {"/help"}).ok());
  EXPECT_NE(err_.find("Ctrl-C again"), std::string::npos) << err_;
  EXPECT_NE(out_.find("/retry"), std::string::npos) << out_;
}

TEST_F(ChatTest, CtrlCWhileACommandWorksIsNotLost) {
  EXPECT_EQ(TalkWithCtrlC(1, {"/help", "/stats"}, /*is_terminal=*/false).code(), Code::kCancelled);
  EXPECT_NE(out_.find("/retry"), std::string::npos) << out_;
  EXPECT_EQ(out_.find("Nothing has been answered"), std::string::npos) << out_;
  EXPECT_TRUE(TalkWithCtrlC(1, {"/help", "/stats"}).ok());
  EXPECT_NE(err_.find("Ctrl-C again"), std::string::npos) << err_;
  EXPECT_NE(out_.find("Nothing has been answered"), std::string::npos) << out_;
}

TEST_F(ChatTest, CtrlCStopsOneThingOnly) {
  EXPECT_TRUE(TalkWithCtrlC(1, {"Hello.", "/stats"}).ok());  // the answer
  EXPECT_NE(err_.find("stopped before the answer began"), std::string::npos) << err_;
  EXPECT_EQ(err_.find("Ctrl-C again"), std::string::npos) << err_;
  EXPECT_TRUE(TalkWithCtrlC(2, {"Hello.", "/edit", "/stats"}).ok());  // the change
  EXPECT_NE(err_.find("the message stays as it was"), std::string::npos) << err_;
  EXPECT_EQ(err_.find("Ctrl-C again"), std::string::npos) << err_;
  EXPECT_NE(out_.find("All 1 answers"), std::string::npos) << out_;
}

TEST_F(ChatTest, ExitEndsAndTheRestIsNotRead) {
  ASSERT_TRUE(Talk({"/exit", "/help"}).ok());
  EXPECT_EQ(out_, "");
}

TEST_F(ChatTest, MessagesMustBeUtf8) {
  ASSERT_TRUE(Talk({"a\xff", "/system \xff"}).ok());
  EXPECT_NE(err_.find("the message: the text is not UTF-8"), std::string::npos) << err_;
  EXPECT_NE(err_.find("/system: the text is not UTF-8"), std::string::npos) << err_;
}

}  // namespace
}  // namespace hone::cli
