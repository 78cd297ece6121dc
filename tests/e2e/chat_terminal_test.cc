// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The chat of hone run in a terminal, as a person uses it, and in a pipe.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "random_model.h"
#include "run_command.h"
#include "terminal.h"

namespace hone::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUp = "\x1b[A";
constexpr const char* kCtrlC = "\x03";
constexpr const char* kCtrlD = "\x04";

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string Model() { return std::string(HONE_SHARED_DATA) + "/golden/families/llama-gqa8/hf"; }

class PlainChat : public ::testing::Test {
 protected:
  void TearDown() override { RemoveFolder(folder_); }

  static std::vector<std::string> Argv(const std::string& model) {
    return {HONE_PROGRAM, "run", model, "--threads", "1", "--temperature", "0"};
  }
  static std::vector<std::string> Short() {
    std::vector<std::string> argv = Argv(Model());
    argv.insert(argv.end(), {"--max-tokens", "5"});
    return argv;
  }
  std::vector<std::pair<std::string, std::string>> Variables() const {
    return {{"TERM", "xterm"}, {"LC_ALL", "C"}, {"XDG_STATE_HOME", folder_}, {"HOME", folder_}};
  }
  // The same question through a pipe.
  static std::string AnswerTo(const std::string& question) {
    const CommandResult result = RunCommand(Short(), question + "\n");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::string text = result.out;
    while (text.ends_with('\n')) text.pop_back();
    EXPECT_FALSE(text.empty());
    return text.substr(0, text.find('\n'));
  }

  std::string folder_ = MakeTempFolder("hone-chat");
};

// With the line editor.
class ChatTerminal : public PlainChat {
 protected:
  void SetUp() override {
    if (!HONE_HAS_EDITLINE) GTEST_SKIP() << "built without a line editor (HONE_EDITLINE=OFF)";
  }
};

// A prompt that comes after what was found before.
bool FindPrompt(Terminal& terminal, const char* prompt = "> ") {
  return terminal.Find("\x1b[?2004h") && terminal.Find(prompt);
}

#define EXPECT_FINDS(terminal, text) EXPECT_TRUE((terminal).Find(text)) << (terminal).screen()
#define ASSERT_FINDS(terminal, text) ASSERT_TRUE((terminal).Find(text)) << (terminal).screen()

TEST_F(ChatTerminal, AnswersAndLeavesWithCtrlD) {
  Terminal chat(Short(), Variables());
  ASSERT_FINDS(chat, "/help lists the commands");
  ASSERT_FINDS(chat, "> ");
  chat.Type("Hello.\r");
  ASSERT_FINDS(chat, "Hello.");
  ASSERT_FINDS(chat, AnswerTo("Hello."));
  ASSERT_FINDS(chat, "> ");
  chat.Type(kCtrlD);
  EXPECT_EQ(chat.Wait(), 0) << chat.screen();
}

TEST_F(ChatTerminal, CommandsWorkAndAConversationComesRound) {
  const std::string file = folder_ + "/talk.json";
  Terminal chat(Short(), Variables());
  ASSERT_FINDS(chat, "> ");
  chat.Type("Hello.\r");
  ASSERT_FINDS(chat, AnswerTo("Hello."));
  chat.Type("/retry\r");
  ASSERT_FINDS(chat, "the temperature is 0");
  ASSERT_FINDS(chat, AnswerTo("Hello."));
  chat.Type("/save " + file + "\r");
  ASSERT_FINDS(chat, "2 messages are in " + file);
  ASSERT_TRUE(FindPrompt(chat)) << chat.screen();
  chat.Type("/clear\r");
  ASSERT_TRUE(FindPrompt(chat)) << chat.screen();
  chat.Type("/load " + file + "\r");
  ASSERT_FINDS(chat, "2 messages from " + file);
  chat.Type("/tokens\r");
  ASSERT_FINDS(chat, " of 256 tokens");
  chat.Type("/tokns\r");
  ASSERT_FINDS(chat, "did you mean /tokens?");
  chat.Type("/exit\r");
  EXPECT_EQ(chat.Wait(), 0) << chat.screen();
  const std::string saved = ReadText(file);
  EXPECT_NE(saved.find("\"content\": \"Hello.\""), std::string::npos) << saved;
}

TEST_F(ChatTerminal, ArrowsCallBackWhatWasTypedAlsoInTheNextChat) {
  {
    Terminal chat(Short(), Variables());
    ASSERT_FINDS(chat, "> ");
    chat.Type("Gr\xc3\xbc\xc3\x9f dich.\r");
    ASSERT_TRUE(FindPrompt(chat)) << chat.screen();
    chat.Type(kUp);
    ASSERT_FINDS(chat, "Gr\xc3\xbc\xc3\x9f dich.");
    chat.Type("\r");
    ASSERT_TRUE(FindPrompt(chat)) << chat.screen();
    chat.Type(kCtrlD);
    EXPECT_EQ(chat.Wait(), 0) << chat.screen();
  }
  struct stat st{};
  ASSERT_EQ(::stat((folder_ + "/hone/history").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  Terminal next(Short(), Variables());
  ASSERT_FINDS(next, "> ");
  next.Type(kUp);
  EXPECT_FINDS(next, "Gr\xc3\xbc\xc3\x9f dich.");
}

TEST_F(ChatTerminal, KeysEditTheLine) {
  const std::string file = folder_ + "/talk.json";
  Terminal chat(Short(), Variables());
  ASSERT_FINDS(chat, "> ");
  chat.Type(
      "Hallo\x7f\x7f\x7f\x7f"
      "ello\x01Say: \x05.\r");
  ASSERT_FINDS(chat, AnswerTo("Say: Hello."));
  chat.Type("/edit\r");
  ASSERT_FINDS(chat, "Say: Hello.");
  chat.Type("\x7f!\r");
  ASSERT_TRUE(FindPrompt(chat)) << chat.screen();
  chat.Type("/save " + file + "\r");
  ASSERT_FINDS(chat, "2 messages are in");
  EXPECT_NE(ReadText(file).find("\"Say: Hello!\""), std::string::npos) << ReadText(file);
}

TEST_F(ChatTerminal, WhatIsPastedIsOneMessage) {
  const std::string file = folder_ + "/talk.json";
  Terminal chat(Short(), Variables());
  ASSERT_FINDS(chat, "> ");
  chat.Type("\x1b[200~/usr/bin\nis\rwhat?\x1b[201~");
  ASSERT_FINDS(chat, "what?");
  chat.Type("\r");
  ASSERT_TRUE(FindPrompt(chat)) << chat.screen();
  chat.Type("/save " + file + "\r");
  ASSERT_FINDS(chat, "2 messages are in");
  EXPECT_NE(ReadText(file).find("\"/usr/bin\\nis\\nwhat?\""), std::string::npos) << ReadText(file);
  // Terminals that do not mark it send it at once.
  ASSERT_TRUE(FindPrompt(chat)) << chat.screen();
  chat.Type("one\ntwo\n");
  ASSERT_TRUE(FindPrompt(chat)) << chat.screen();
  chat.Type("\"\"\"\r");
  ASSERT_TRUE(FindPrompt(chat, ". ")) << chat.screen();
  chat.Type("/three\r");
  ASSERT_TRUE(FindPrompt(chat, ". ")) << chat.screen();
  chat.Type("\"\"\"\r");
  ASSERT_TRUE(FindPrompt(chat)) << chat.screen();
  chat.Type("/save " + file + "\r");
  ASSERT_FINDS(chat, "6 messages are in");
  EXPECT_NE(ReadText(file).find("\"one\\ntwo\""), std::string::npos) << ReadText(file);
  EXPECT_NE(ReadText(file).find("\"/three\""), std::string::npos) << ReadText(file);
}

TEST_F(ChatTerminal, AltEnterBeginsANewLine) {
  const std::string file = folder_ + "/talk.json";
  Terminal chat(Short(), Variables());
  ASSERT_FINDS(chat, "> ");
  chat.Type("one\x1b\rtwo");
  ASSERT_FINDS(chat, "two");
  chat.Type("\r");
  ASSERT_TRUE(FindPrompt(chat)) << chat.screen();
  chat.Type("/save " + file + "\r");
  ASSERT_FINDS(chat, "2 messages are in");
  EXPECT_NE(ReadText(file).find("\"one\\ntwo\""), std::string::npos) << ReadText(file);
}

TEST_F(ChatTerminal, CtrlZStopsTheProgramAndTheLineIsThereAgain) {
  Terminal chat(Short(), Variables());
  ASSERT_FINDS(chat, "> ");
  ASSERT_TRUE(chat.WaitForModes(/*cooked=*/false));
  chat.Type("abc");
  ASSERT_FINDS(chat, "abc");
  chat.Signal(SIGSTOP);
  ASSERT_TRUE(chat.MakeCooked());  // as a shell does
  chat.Signal(SIGCONT);
  EXPECT_FINDS(chat, "> abc");
  EXPECT_TRUE(chat.WaitForModes(/*cooked=*/false));
}

TEST_F(ChatTerminal, CtrlCAtThePromptClearsTheLineAndTwiceLeaves) {
  Terminal chat(Short(), Variables());
  ASSERT_FINDS(chat, "> ");
  chat.Type("abc");
  ASSERT_FINDS(chat, "abc");
  chat.Type(kCtrlC);
  ASSERT_FINDS(chat, "^C");
  ASSERT_FINDS(chat, "> ");
  chat.Type("Hello.\r");
  ASSERT_FINDS(chat, AnswerTo("Hello."));
  ASSERT_FINDS(chat, "> ");
  chat.Type(kCtrlC);
  ASSERT_FINDS(chat, "Ctrl-C again");
  ASSERT_FINDS(chat, "> ");
  chat.Type(kCtrlC);
  EXPECT_EQ(chat.Wait(), 130) << chat.screen();
}

// A model whose weights are zero says the first token for ever: "a".
class EndlessChat : public ChatTerminal {
 protected:
  void SetUp() override {
    ChatTerminal::SetUp();
    ModelShape shape;
    shape.rope.theta = 10000;
    shape.max_positions = 1'000'000;
    WriteZeroCheckpoint(shape, folder_);
    std::string tokenizer = MakeTokenizerJson(shape.vocab);
    // Tokens 0 and 2 change places: "a" becomes the first, "<s>" is no special token then.
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"\"a\":2", "\"a\":0"}, {"\"<s>\":0", "\"<s>\":2"}, {"{\"id\":0,", "{\"id\":2,"}}) {
      const std::size_t at = tokenizer.find(from);
      ASSERT_NE(at, std::string::npos) << from;
      tokenizer.replace(at, from.size(), to);
    }
    std::ofstream(folder_ + "/tokenizer.json") << tokenizer;
    std::ofstream(folder_ + "/chat_template.jinja")
        << "{% for m in messages %}{{ m.content }}{% endfor %}";
    std::ofstream(folder_ + "/tokenizer_config.json") << "{\"eos_token\": \"</s>\"}";
  }
};

TEST_F(EndlessChat, CtrlCStopsTheAnswerAndNotTheChat) {
  const std::string file = folder_ + "/talk.json";
  Terminal chat(Argv(folder_), Variables());
  ASSERT_FINDS(chat, "> ");
  chat.Type("bcd\r");
  ASSERT_FINDS(chat, "a a a");
  chat.Type(kCtrlC);
  ASSERT_FINDS(chat, "what was answered so far is kept");
  ASSERT_FINDS(chat, "> ");
  chat.Type("/save " + file + "\r");
  ASSERT_FINDS(chat, "2 messages are in");
  ASSERT_FINDS(chat, "> ");
  chat.Type(kCtrlD);
  EXPECT_EQ(chat.Wait(), 0) << chat.screen();
  EXPECT_NE(ReadText(file).find("\"content\": \"a a a"), std::string::npos);
}

TEST_F(EndlessChat, TerminateGivesTheTerminalBack) {
  Terminal chat(Argv(folder_), Variables());
  ASSERT_FINDS(chat, "> ");
  ASSERT_TRUE(chat.WaitForModes(/*cooked=*/false));
  chat.Signal(SIGTERM);
  EXPECT_EQ(chat.Wait(), 143) << chat.screen();
  EXPECT_TRUE(chat.WaitForModes(/*cooked=*/true));
  EXPECT_FINDS(chat, "\x1b[?2004l");
}

TEST_F(PlainChat, APipeGetsAnswersAndNoEscapeCodes) {
  std::vector<std::string> argv = Short();
  const CommandResult result = RunCommand(argv, "Hello.\nHello.\n/help\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("> "), std::string::npos) << result.out;
  EXPECT_EQ(result.out.rfind(AnswerTo("Hello.") + "\n", 0), 0U) << result.out;
  EXPECT_NE(result.out.find("/retry"), std::string::npos) << result.out;
  EXPECT_FALSE(fs::exists(folder_ + "/hone"));
}

TEST_F(ChatTerminal, WithoutColourNothingIsDimmed) {
  std::vector<std::string> argv = Short();
  argv.insert(argv.end(), {"--think", "on"});  // the template opens the thinking
  {
    Terminal chat(argv, Variables());
    ASSERT_FINDS(chat, "> ");
    chat.Type("Hello.\r");
    ASSERT_FINDS(chat, "\x1b[2m");
    ASSERT_FINDS(chat, "\x1b[0m");
  }
  auto variables = Variables();
  variables.emplace_back("NO_COLOR", "1");
  Terminal plain(argv, variables);
  ASSERT_FINDS(plain, "> ");
  plain.Type("Hello.\r");
  ASSERT_TRUE(FindPrompt(plain)) << plain.screen();
  EXPECT_EQ(plain.screen().find("\x1b[2m"), std::string::npos) << plain.screen();
}

TEST_F(PlainChat, ADumbTerminalHasNoEditorAndStillWorks) {
  auto variables = Variables();
  variables[0].second = "dumb";
  Terminal chat(Short(), variables);
  ASSERT_FINDS(chat, "> ");
  chat.Type("Hello.\n");
  ASSERT_FINDS(chat, AnswerTo("Hello."));
  ASSERT_FINDS(chat, "> ");
  chat.Type(kCtrlC);
  ASSERT_FINDS(chat, "Ctrl-C again");
  ASSERT_FINDS(chat, "> ");
  chat.Type(kCtrlD);
  EXPECT_EQ(chat.Wait(), 0) << chat.screen();
  EXPECT_EQ(chat.screen().find('\x1b'), std::string::npos) << chat.screen();
}

}  // namespace
}  // namespace hone::testing
