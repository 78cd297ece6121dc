// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

extern char** environ;

namespace hone::cli {
namespace {

Status SystemError(const std::string& what, int error) {
  const Code code = error == ENOENT ? Code::kNotFound : Code::kIo;
  return Status(code, StrCat("cannot run ", what, ": ", std::strerror(error)));
}

// Starts argv with standard output at output_fd. Every other descriptor of ours is close-on-exec.
Result<pid_t> Spawn(const std::vector<std::string>& argv, int output_fd) {
  std::vector<char*> pointers;
  for (const std::string& arg : argv) pointers.push_back(const_cast<char*>(arg.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (const int error = posix_spawn_file_actions_init(&actions); error != 0) {
    return SystemError(argv[0], error);
  }
  pid_t pid = 0;
  int error = posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
  if (error == 0) {
    error = posix_spawnp(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  }
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return SystemError(argv[0], error);
  return pid;
}

Result<int> Wait(pid_t pid, const std::string& name) {
  int state = 0;
  while (::waitpid(pid, &state, 0) < 0) {
    if (errno != EINTR) return SystemError(name, errno);
  }
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

Status ReadAll(int fd, const OutputSink& sink) {
  std::vector<std::byte> chunk(1 << 20);
  while (true) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n == 0) return {};
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status(Code::kIo, StrCat("cannot read a pipe: ", std::strerror(errno)));
    HONE_TRY(sink(ByteSpan(chunk).first(static_cast<std::size_t>(n))));
  }
}

}  // namespace

Result<int> RunProgram(const std::vector<std::string>& argv, const OutputSink& sink) {
  if (!sink) {
    HONE_ASSIGN(const pid_t pid, Spawn(argv, STDERR_FILENO));
    return Wait(pid, argv[0]);
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return SystemError(argv[0], errno);
  auto pid = Spawn(argv, ends[1]);
  ::close(ends[1]);
  if (!pid.ok()) {
    ::close(ends[0]);
    return std::move(pid).status();
  }
  Status status = ReadAll(ends[0], sink);
  ::close(ends[0]);
  if (!status.ok()) ::kill(*pid, SIGTERM);
  auto exit_code = Wait(*pid, argv[0]);
  if (!status.ok()) return status;
  return exit_code;
}

}  // namespace hone::cli
