// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/cpu_info.h"
#include "base/env.h"
#include "base/file.h"
#include "cli/cli.h"

namespace hone::cli {
namespace {

// A signal handler can reach nothing else.
std::atomic<bool> g_cancel{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// The modes of the terminal before a line editor changed them.
termios g_modes{};
std::atomic<bool> g_guards{false};

void RestoreTerminal() {
  if (!g_guards.load()) return;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &g_modes);
  static constexpr char kPlain[] = "\x1b[?2004l\x1b[0m";
  const ssize_t written = ::write(STDOUT_FILENO, kPlain, sizeof kPlain - 1);
  static_cast<void>(written);
}

void EndNow(int exit_code) {
  RestoreTerminal();
  RemoveAllTemporaries();
  ::_exit(exit_code);
}

extern "C" void HoneOnInterrupt(int) {
  if (g_cancel.exchange(true)) EndNow(130);
}
extern "C" void HoneOnTerminate(int signal_number) { EndNow(128 + signal_number); }

// A mapped file that another program cuts, or that lies on a disk that fails, raises this.
extern "C" void HoneOnLostPages(int) {
  static constexpr char kMessage[] =
      "hone: error: a file lost its end, or its disk failed, while it was read (SIGBUS); let the "
      "download finish, then run this again\n";
  const ssize_t written = ::write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  static_cast<void>(written);
  EndNow(6);
}

void Install(int signal_number, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read from the terminal returns, so that a chat sees the flag.
  ::sigaction(signal_number, &action, nullptr);
}

}  // namespace

const std::atomic<bool>* CancelFlag() {
  static const bool kInstalled = [] {
    Install(SIGINT, HoneOnInterrupt);
    Install(SIGTERM, HoneOnTerminate);
    Install(SIGHUP, HoneOnTerminate);
    Install(SIGPIPE, HoneOnTerminate);
    Install(SIGBUS, HoneOnLostPages);
    Install(SIGXFSZ, SIG_IGN);  // the write fails with a message instead
    return true;
  }();
  static_cast<void>(kInstalled);
  return &g_cancel;
}

void ResetCancelFlag() { g_cancel.store(false); }

void GuardTerminal() {
  if (::tcgetattr(STDIN_FILENO, &g_modes) == 0) g_guards.store(true);
}

std::string OneLine(std::string_view message) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const auto byte = static_cast<unsigned char>(message[i]);
    const auto next = static_cast<unsigned char>(i + 1 < message.size() ? message[i + 1] : 0);
    // U+0080 to U+009F: 0xc2 and a byte below 0xa0.
    const bool c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    if (message[i] == '\n') {
      out += "\\n";
    } else if (c1 || byte < 0x20 || byte == 0x7f) {
      const unsigned char code = c1 ? next : byte;
      out += {'\\', 'x', kHex[code >> 4], kHex[code & 15]};
      i += c1 ? 1 : 0;
    } else {
      out += message[i];
    }
  }
  return out;
}

void PrintWarning(std::string_view message) {
  std::fprintf(stderr, "hone: warning: %s\n", OneLine(message).c_str());
}

void PrintNote(std::string_view message) {
  std::fprintf(stderr, "hone: note: %s\n", OneLine(message).c_str());
}

int PrintError(Code code, std::string_view message) {
  std::fprintf(stderr, "hone: error: %s\n", OneLine(message).c_str());
  return ExitCode(code);
}

bool MayDim(bool terminal) { return terminal && GetEnv("NO_COLOR").empty(); }

void PrintText(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintJson(const Json& value) {
  PrintText(value.Dump(2));
  PrintText("\n");
}

std::string FormatBytes(std::uint64_t bytes) {
  struct Unit {
    double size;
    const char* name;
  };
  constexpr std::array<Unit, 3> kUnits = {{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}}};
  for (const Unit& unit : kUnits) {
    const double value = static_cast<double>(bytes) / unit.size;
    if (value < 1.0) continue;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), value < 10 ? "%.2f %s" : "%.1f %s", value, unit.name);
    return text.data();
  }
  return StrCat(bytes, " bytes");
}

Result<int> ResolveThreads(int requested) {
  if (requested < 0 || requested > 1024) {
    return Status(Code::kInvalidArgument,
                  StrCat("--threads is ", requested, ", expected auto (0) or 1 to 1024"));
  }
  return requested == 0 ? AvailableThreads() : requested;
}

}  // namespace hone::cli
