// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone serve as a program: how it begins, answers over a socket and ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "run_command.h"
#include "serve/http_client.h"

extern char** environ;

namespace hone::testing {
namespace {

using serve::Answer;
using serve::Get;
using serve::Post;
using serve::TestClient;

const std::string kModel = std::string(HONE_SHARED_DATA) + "/golden/families/llama-gqa8/hf";

// A server that runs until it is told to stop.
class RunningServer {
 public:
  // more: arguments behind "hone serve".
  explicit RunningServer(std::vector<std::string> more) {
    std::vector<std::string> words = {HONE_PROGRAM, "serve", "--port", "0"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    EXPECT_EQ(::posix_spawn(&pid_, HONE_PROGRAM, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    err_ = ends[0];
    EXPECT_TRUE(WaitForText("Ctrl-C stops")) << text_;
    const std::string_view kUrl = "listening at http://127.0.0.1:";
    const std::size_t at = text_.find(kUrl);
    if (at != std::string::npos) {
      port_ = static_cast<std::uint16_t>(std::stoi(text_.substr(at + kUrl.size())));
    }
  }
  ~RunningServer() {
    if (pid_ > 0) {
      Signal(SIGKILL);
      Wait();
    }
    ::close(err_);
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  // Reads what it says until text comes.
  bool WaitForText(const std::string& text) {
    while (text_.find(text) == std::string::npos) {
      pollfd wait = {.fd = err_, .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, 60'000) <= 0) return false;
      std::array<char, 4096> bytes{};
      const ssize_t count = ::read(err_, bytes.data(), bytes.size());
      if (count <= 0) return false;
      text_.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return true;
  }
  void Signal(int number) const { ::kill(pid_, number); }
  // The exit code, 128 + the signal if one ended it.
  int Wait() {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::uint16_t port() const { return port_; }
  const std::string& text() const { return text_; }

 private:
  pid_t pid_ = -1;
  int err_ = -1;
  std::uint16_t port_ = 0;
  std::string text_;
};

std::string Chat(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"Hello."}],"temperature":0)" + more + "}";
}

Json Parse(const std::string& text) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << text;
  return json.ok() ? *std::move(json) : Json();
}

TEST(ServeProgram, AnswersAChatAndEndsAtASignal) {
  RunningServer server({kModel, "--threads", "2"});
  TestClient client(server.port());
  Answer answer = client.Ask(Get("/health"));
  EXPECT_EQ(answer.status, 200);
  answer = client.Ask(Post("/v1/chat/completions", Chat(R"(,"max_tokens":8)")));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = Parse(answer.body);
  EXPECT_EQ(*GetString(json, "model"), "hf");
  EXPECT_EQ(*GetInt(*json.Find("usage"), "completion_tokens"), 8);
  const Answer again = client.Ask(Post("/v1/chat/completions", Chat(R"(,"max_tokens":8)")));
  EXPECT_EQ(Parse(again.body).Find("choices")->Dump(), json.Find("choices")->Dump());
  answer = client.Ask(Post("/v1/chat/completions", Chat(R"(,"max_tokens":8,"stream":true)")));
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n")) << answer.body;
  answer = client.Ask(Get("/metrics"));
  EXPECT_NE(answer.body.find("hone_generated_tokens_total{model=\"hf\"} 24\n"), std::string::npos)
      << answer.body;
  const Json props = Parse(client.Ask(Get("/props")).body);
  const Json& model = props.Find("models")->AsArray().at(0);
  EXPECT_EQ(*GetString(model, "engine"), "kernels");
  EXPECT_EQ(*GetInt(model, "context_length"), 256);
  EXPECT_EQ(*GetInt(model, "threads"), 2);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(ServeProgram, ASignalLetsAnAnswerEnd) {
  RunningServer server({kModel});
  TestClient client(server.port());
  client.Send(Post("/v1/chat/completions", Chat(R"(,"stream":true,"max_tokens":200)")));
  EXPECT_TRUE(client.ReceiveUntil("\"delta\""));
  server.Signal(SIGINT);
  const Answer answer = client.ReceiveAnswer();
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(server.Wait(), 0);
}

TEST(ServeProgram, ASecondSignalCancels) {
  RunningServer server({kModel, "--parallel", "2"});
  // Work for many seconds: 16 answers to each.
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->Send(
        Post("/v1/chat/completions", Chat(R"(,"stream":true,"max_tokens":230,"n":16)")));
  }
  EXPECT_TRUE(clients.front()->ReceiveUntil("\"delta\""));
  server.Signal(SIGTERM);
  EXPECT_TRUE(server.WaitForText("a second signal cancels")) << server.text();
  const Answer refused = TestClient(server.port()).Ask(Get("/health"));
  EXPECT_EQ(refused.status, 503);
  server.Signal(SIGTERM);
  EXPECT_TRUE(server.WaitForText("were complete")) << server.text();
  EXPECT_EQ(server.Wait(), 130);
  EXPECT_EQ(clients.back()->ReceiveAll().find("[DONE]"), std::string::npos);
}

TEST(ServeProgram, LoadsTheSecondModelWhenItIsAskedFor) {
  RunningServer server({"first=" + kModel, "second=" + kModel, "--idle-unload", "1"});
  EXPECT_NE(server.text().find("second: loaded when it is asked for"), std::string::npos)
      << server.text();
  TestClient client(server.port());
  EXPECT_EQ(client.Ask(Post("/v1/chat/completions", Chat(""))).status, 400);
  const Answer answer =
      client.Ask(Post("/v1/chat/completions", Chat(R"(,"model":"second","max_tokens":2)")));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(client.Ask(Post("/v1/chat/completions", Chat(R"(,"model":"third")"))).status, 404);
  EXPECT_TRUE(server.WaitForText("second: unloaded, as nobody used it")) << server.text();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(ServeProgram, AsksForTheKeyOfAFileAndNeverWritesIt) {
  const std::string folder = MakeTempFolder("hone-serve");
  std::ofstream(folder + "/key") << "open-sesame\n";
  {
    RunningServer server(
        {kModel, "--api-key-file", folder + "/key", "--access-log", folder + "/access.log"});
    TestClient client(server.port());
    EXPECT_EQ(client.Ask(Get("/v1/models")).status, 401);
    EXPECT_EQ(client.Ask(Get("/v1/models", "Authorization: Bearer open-sesame\r\n")).status, 200);
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0);
    EXPECT_EQ(server.text().find("sesame"), std::string::npos);
  }
  std::ifstream in(folder + "/access.log");
  const std::string log((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_NE(log.find("\"status\":401"), std::string::npos) << log;
  EXPECT_NE(log.find("\"status\":200"), std::string::npos) << log;
  EXPECT_EQ(log.find("sesame"), std::string::npos);
  RemoveFolder(folder);
}

TEST(ServeProgram, SaysWhyItDoesNotBegin) {
  const struct {
    std::vector<std::string> arguments;
    int exit_code;
    const char* text;
  } cases[] = {
      {{}, 2, "name one, or give --models-folder"},
      {{"/no/such/model.gguf"}, 2, "/no/such/model.gguf: no such file or folder"},
      {{kModel, kModel}, 2, "two models are named 'hf'"},
      {{kModel, "--host", "0.0.0.0", "--port", "0"}, 2, "needs an API key"},
      {{kModel, "--on-full", "maybe"}, 2, "error,trim"},
      {{kModel, "--parallel", "0"}, 2, "--parallel: found 0, expected 1 to 1024"},
      {{kModel, "--port", "70000"}, 2, "--port: found 70000, expected 0 to 65535"},
      {{kModel, "--no-key", "--api-key", "x"}, 2, "--no-key contradicts"},
      {{kModel, "--api-key-file", "/no/such/file"}, -1, "/no/such/file"},
      {{kModel, "--allow-origin", "example.org"}, 2, "allowed origin 'example.org'"},
      {{kModel, "--kv", "int4"}, 2, "f32,f16,int8"},
      {{kModel + "/config.json", "--port", "0"}, -1, "config.json"},
      {{"--models-folder", kModel + "/config.json"}, -1, "no such folder"},
  };
  for (const auto& wrong : cases) {
    std::vector<std::string> argv = {HONE_PROGRAM, "serve"};
    argv.insert(argv.end(), wrong.arguments.begin(), wrong.arguments.end());
    const CommandResult result = RunCommand(argv);
    EXPECT_NE(result.exit_code, 0) << wrong.text;
    if (wrong.exit_code >= 0) {
      EXPECT_EQ(result.exit_code, wrong.exit_code) << result.err;
    }
    EXPECT_NE(result.err.find(wrong.text), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("hone: error: "), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("cannot be loaded"), std::string::npos) << "it is said twice";
    EXPECT_EQ(result.out, "");
  }
}

TEST(ServeProgram, SaysThatItsPortIsTaken) {
  RunningServer server({kModel});
  const CommandResult second =
      RunCommand({HONE_PROGRAM, "serve", kModel, "--port", std::to_string(server.port())});
  EXPECT_EQ(second.exit_code, 6);
  EXPECT_NE(second.err.find(std::to_string(server.port())), std::string::npos) << second.err;
}

}  // namespace
}  // namespace hone::testing
