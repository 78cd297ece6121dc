// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The program under signals and full disks: exit codes, and no half-written file under its name.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "random_model.h"
#include "run_command.h"

extern char** environ;

namespace hone::testing {
namespace {

using namespace std::chrono_literals;

// A running program whose standard output goes to a file and whose standard input stays open.
class Running {
 public:
  explicit Running(const std::vector<std::string>& argv, const std::string& out = "/dev/null") {
    int input[2];
    EXPECT_EQ(::pipe2(input, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], 0);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0644);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    std::vector<char*> args;
    for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
    args.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, args[0], &actions, nullptr, args.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(input[0]);
    input_ = input[1];
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(input_);
  }

  void Signal(int number) const { ::kill(pid_, number); }
  void Type(const std::string& text) const {
    EXPECT_EQ(::write(input_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  // 128 + signal if it was killed; -1 if it goes on for two minutes.
  int Wait() {
    for (int i = 0; i < 120'000; ++i) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(1ms);
    }
    return -1;
  }

  // Whether it has a handler for SIGINT by now.
  bool CatchesInterrupt() const {
    std::ifstream in("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("SigCgt:", 0) != 0) continue;
      return (std::stoull(line.substr(7), nullptr, 16) >> (SIGINT - 1) & 1) != 0;
    }
    return false;
  }

 private:
  pid_t pid_ = 0;
  int input_ = -1;
};

template <typename Condition>
bool WaitUntil(const Condition& condition) {
  for (int i = 0; i < 120'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool IsTemporary(const std::string& name) { return name.rfind("m.litertlm.tmp-", 0) == 0; }

class Interrupt : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = MakeTempFolder("hone-interrupt");
    for (const char* name : {"big", "small", "out"}) {
      ASSERT_EQ(::mkdir((root_ + "/" + name).c_str(), 0755), 0);
    }
    ModelShape shape;
    shape.rope.theta = 10000;
    shape.max_positions = 1'000'000;
    WriteZeroCheckpoint(shape, root_ + "/small");
    shape.layers = 12;
    shape.hidden = 2048;
    shape.heads = shape.kv_heads = 32;
    shape.head_dim = 64;
    shape.ffn = 4096;
    WriteZeroCheckpoint(shape, root_ + "/big");
  }
  void TearDown() override { RemoveFolder(root_); }

  std::string Big() const { return root_ + "/big"; }
  std::string Small() const { return root_ + "/small"; }
  std::string Folder() const { return root_ + "/out"; }
  std::string Out() const { return root_ + "/out/m.litertlm"; }
  std::vector<std::string> Convert(const std::string& source) const {
    return {HONE_PROGRAM, "convert", source, "-o", Out(), "--threads", "1", "--context", "64"};
  }
  // Whether there is an unfinished bundle of that many bytes or more.
  bool HasTemporary(std::uintmax_t bytes = 0) const {
    for (const std::string& name : ListFolder(Folder())) {
      std::error_code gone;
      const auto size = std::filesystem::file_size(Folder() + "/" + name, gone);
      if (IsTemporary(name) && !gone && size >= bytes) return true;
    }
    return false;
  }

 private:
  std::string root_;
};

TEST_F(Interrupt, ConvertEndsWith130AndLeavesNothing) {
  for (const std::uintmax_t bytes : {0, 100'000}) {
    Running convert(Convert(Big()));
    ASSERT_TRUE(WaitUntil([&] { return HasTemporary(bytes); }));
    convert.Signal(SIGINT);
    EXPECT_EQ(convert.Wait(), 130);
    EXPECT_TRUE(ListFolder(Folder()).empty());
  }
}

TEST_F(Interrupt, TerminateHangupAndAClosedPipeEndConvertAtOnceAndLeaveNothing) {
  for (const int number : {SIGTERM, SIGHUP, SIGPIPE}) {
    Running convert(Convert(Big()));
    ASSERT_TRUE(WaitUntil([&] { return HasTemporary(); }));
    convert.Signal(number);
    EXPECT_EQ(convert.Wait(), 128 + number);
    EXPECT_TRUE(ListFolder(Folder()).empty());
  }
}

TEST_F(Interrupt, ASourceThatIsCutWhileItIsReadIsAReadErrorAndLeavesNothing) {
  Running convert(Convert(Big()));
  ASSERT_TRUE(WaitUntil([&] { return HasTemporary(100'000); }));
  std::filesystem::resize_file(Big() + "/model.safetensors", 1000);
  EXPECT_EQ(convert.Wait(), 6);
  EXPECT_TRUE(ListFolder(Folder()).empty());
}

// The name of the bundle never stands for half a bundle. What was written so far keeps its
// temporary name, which no later run reads; the next one for the same bundle removes it.
TEST_F(Interrupt, KillLeavesOnlyATemporaryFileThatTheNextRunRemoves) {
  {
    Running convert(Convert(Big()));
    ASSERT_TRUE(WaitUntil([&] { return HasTemporary(); }));
    convert.Signal(SIGKILL);
    EXPECT_EQ(convert.Wait(), 128 + SIGKILL);
  }
  const auto left = ListFolder(Folder());
  ASSERT_EQ(left.size(), 1u);
  EXPECT_TRUE(IsTemporary(left[0])) << left[0];
  const CommandResult again = RunCommand(Convert(Small()));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(ListFolder(Folder()), (std::vector<std::string>{"m.litertlm"}));
  EXPECT_EQ(RunCommand({HONE_PROGRAM, "peek", Out()}).exit_code, 0);
}

TEST_F(Interrupt, AnInterruptedConvertKeepsTheFileThatItWouldHaveReplaced) {
  ASSERT_EQ(RunCommand(Convert(Small())).exit_code, 0);
  const std::string before = RunCommand({HONE_PROGRAM, "peek", Out(), "--json"}).out;
  auto argv = Convert(Big());
  argv.push_back("--force");
  Running convert(argv);
  ASSERT_TRUE(WaitUntil([&] { return HasTemporary(); }));
  convert.Signal(SIGINT);
  EXPECT_EQ(convert.Wait(), 130);
  EXPECT_EQ(ListFolder(Folder()), (std::vector<std::string>{"m.litertlm"}));
  EXPECT_EQ(RunCommand({HONE_PROGRAM, "peek", Out(), "--json"}).out, before);
}

TEST_F(Interrupt, RunStopsTheAnswerAndEndsWith130) {
  Running run({HONE_PROGRAM, "run", Small(), "--raw", "-p", "abc", "--temperature", "1", "--seed",
               "1", "--threads", "1"},
              Folder() + "/text");
  ASSERT_TRUE(WaitUntil([&] { return run.CatchesInterrupt(); }));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130);
}

TEST_F(Interrupt, RunAtThePromptOfAChatEndsWith130) {
  const std::string out = Folder() + "/text";
  Running run({HONE_PROGRAM, "run", Small(), "--threads", "1"}, out);
  run.Type("/help\n");
  ASSERT_TRUE(WaitUntil([&] { return ReadAll(out).find("/retry") != std::string::npos; }));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130);
}

// A limit on the size of files stands for a disk that is full.
TEST_F(Interrupt, AFullDiskIsOneMessageAndLeavesNothing) {
  const std::string script = std::string("ulimit -f 40; exec ") + HONE_PROGRAM + " convert " +
                             Small() + " -o " + Out() + " --context 64";
  const CommandResult r = RunCommand({"/bin/sh", "-c", script});
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_NE(r.err.find(Out() + ": cannot write"), std::string::npos) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_TRUE(ListFolder(Folder()).empty());
}

TEST_F(Interrupt, LostOutputIsAnError) {
  const std::string script =
      std::string("exec ") + HONE_PROGRAM + " tokenize " + Small() + " abc > /dev/full";
  const CommandResult r = RunCommand({"/bin/sh", "-c", script});
  EXPECT_EQ(r.exit_code, 6);
  EXPECT_NE(r.err.find("cannot write to standard output"), std::string::npos) << r.err;
}

// The weights are zero, so the answer is the first token over and over.
TEST_F(Interrupt, BenchGivesNoNumberWithoutARealAnswer) {
  const std::vector<std::string> argv = {HONE_PROGRAM, "bench", Small(),  "-p", "8",
                                         "-d",         "4",     "--runs", "1",  "--json"};
  const CommandResult refused = RunCommand(argv);
  EXPECT_EQ(refused.exit_code, 1) << refused.err;
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("no real answer came"), std::string::npos) << refused.err;
  auto without = argv;
  without.push_back("--no-gate");
  const CommandResult record = RunCommand(without);
  EXPECT_EQ(record.exit_code, 0) << record.err;
  EXPECT_EQ(record.out.rfind("{\n", 0), 0U) << record.out;
  EXPECT_NE(record.out.find("\"verdict\": null"), std::string::npos) << record.out;
}

TEST_F(Interrupt, BenchEndsWith130AndGivesNoNumber) {
  const std::string out = Folder() + "/bench.txt";
  Running bench({HONE_PROGRAM, "bench", Small(), "--no-gate", "-p", "0", "-d", "900000"}, out);
  ASSERT_TRUE(WaitUntil([&] { return bench.CatchesInterrupt(); }));
  std::this_thread::sleep_for(200ms);
  bench.Signal(SIGINT);
  EXPECT_EQ(bench.Wait(), 130);
  EXPECT_EQ(std::filesystem::file_size(out), 0U);
}

}  // namespace
}  // namespace hone::testing
