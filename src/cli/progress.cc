// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/status.h"

namespace hone::cli {
namespace {

std::string FormatSeconds(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e9)));
  if (s < 60) return StrCat(s, " s");
  if (s < 3600) return StrCat(s / 60, " min ", s % 60, " s");
  return StrCat(s / 3600, " h ", s % 3600 / 60, " min");
}

std::size_t TerminalWidth() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 79;
  return size.ws_col - 1U;
}

}  // namespace

std::string ProgressLine(std::string_view title, std::uint64_t done, std::uint64_t total,
                         double seconds, std::string_view what, std::size_t width) {
  std::string line(title);
  if (total > 0) {
    done = std::min(done, total);
    const double part = static_cast<double>(done) / static_cast<double>(total);
    line += StrCat(" ", static_cast<int>(part * 100.0), "%");
    // A guess from the first moments would jump about.
    if (part >= 0.01 && seconds > 1.0) {
      line += StrCat(" ", FormatSeconds(seconds * (1.0 - part) / part), " left");
    }
  }
  if (!what.empty()) line += StrCat(" (", what, ")");
  return line.substr(0, width);
}

Progress::Progress(std::string title)
    : title_(std::move(title)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() { Clear(); }

double Progress::Seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Progress::Update(std::uint64_t done, std::uint64_t total, std::string_view what) {
  if (!terminal_) return;
  const auto now = Clock::now();
  if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  const std::string line = ProgressLine(title_, done, total, Seconds(), what, TerminalWidth());
  std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
  std::fflush(stderr);
}

void Progress::Clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace hone::cli
