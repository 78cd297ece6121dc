// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "terminal.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

namespace hone::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLimit(60);
constexpr int kLookMilliseconds = 100;

}  // namespace

Terminal::Terminal(const std::vector<std::string>& argv,
                   const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 200;
  pid_ = ::forkpty(&fd_, nullptr, nullptr, &size);
  if (pid_ != 0) return;
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  ::execv(args[0], args.data());
  ::_exit(127);
}

Terminal::~Terminal() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (fd_ >= 0) ::close(fd_);
}

void Terminal::Type(const std::string& keys) const {
  std::size_t done = 0;
  while (done < keys.size()) {
    const ssize_t count = ::write(fd_, keys.data() + done, keys.size() - done);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
}

void Terminal::Signal(int number) const { ::kill(pid_, number); }

bool Terminal::WaitForModes(bool cooked) {
  const Clock::time_point end = Clock::now() + kLimit;
  while (Clock::now() < end) {
    termios modes{};
    if (::tcgetattr(fd_, &modes) == 0 && ((modes.c_lflag & ICANON) != 0) == cooked) return true;
    Read();
  }
  return false;
}

bool Terminal::MakeCooked() const {
  termios modes{};
  if (::tcgetattr(fd_, &modes) != 0) return false;
  modes.c_lflag |= ICANON | ECHO;
  return ::tcsetattr(fd_, TCSANOW, &modes) == 0;
}

bool Terminal::Read() {
  pollfd input{fd_, POLLIN, 0};
  if (::poll(&input, 1, kLookMilliseconds) <= 0) return true;
  std::array<char, 4096> chunk{};
  const ssize_t count = ::read(fd_, chunk.data(), chunk.size());
  if (count > 0) screen_.append(chunk.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

bool Terminal::Find(const std::string& text) {
  const Clock::time_point end = Clock::now() + kLimit;
  bool open = true;
  while (true) {
    const std::size_t at = screen_.find(text, found_);
    if (at != std::string::npos) {
      found_ = at + text.size();
      return true;
    }
    if (!open || Clock::now() > end) return false;
    open = Read();
  }
}

int Terminal::Wait() {
  const Clock::time_point end = Clock::now() + kLimit;
  while (Clock::now() < end) {
    Read();  // a program that writes must not wait for its reader
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) continue;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return -1;
}

}  // namespace hone::testing
